"""POST /schedule/{scheduleId}/replay and POST /schedule/replay."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from api.schema.payload import Change
from scheduler import ids
from scheduler.models import Request, Schedule, Status
from tests.api.conftest import CREDITS, URL, Api, bad_fields
from tests.api.errors import error_of, refusal_of
from tests.api.letters import UNKNOWN, fail, failed


async def replay(
    api: Api, schedule_id: str, fields: Any = None, key: str | None = None
) -> httpx.Response:
    content = b"" if fields is None else json.dumps(fields)
    headers = {} if key is None else {"idempotency-key": key}
    path = f"/schedule/{schedule_id}/replay"
    return await api.client.post(path, content=content, headers=headers)


async def replay_many(api: Api, body: Any, key: str | None = None) -> httpx.Response:
    headers = {} if key is None else {"idempotency-key": key}
    return await api.client.post("/schedule/replay", json=body, headers=headers)


async def test_a_replay_is_a_new_one_due_now(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    [original] = await fail(api)
    looks = itertools.count(api.store.clock.now_ms(), 7)
    monkeypatch.setattr(api.store.clock, "now_ms", lambda: next(looks))
    answer = await replay(api, original)
    assert answer.status_code == 201
    new = answer.json()["scheduleId"]
    read = await api.read(new)
    assert answer.json() == {
        "scheduleId": new,
        "invocationId": ids.invocation_id(new),
        "triggerAt": read["triggerAt"],
        "message": f"Scheduled for {read['triggerAt']}",
        "replayOf": original,
    }
    assert (read["status"], read["replayOf"]) == ("scheduled", original)
    assert read["triggerAt"] == read["createdAt"], "however long a replay takes"
    due_in = datetime.fromisoformat(read["triggerAt"]) - datetime.now(UTC)
    assert abs(due_in) < timedelta(seconds=30)
    before = await api.read(original)
    assert (before["status"], before["replayedAs"]) == ("failed", new)
    assert await failed(api) == []
    await api.holds(credits=CREDITS - 2, waiting={new})


async def test_its_fields_change_the_replay_and_a_repeat_tells_the_same(api: Api) -> None:
    """A delay counts from the replay."""
    [original] = await fail(api, timeout="5s")
    fields = {"delay": "1h", "timeout": "7s"}
    first, again = [await replay(api, original, fields, "k") for _ in range(2)]
    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true"
    read = await api.read(first.json()["scheduleId"])
    assert first.json()["message"] == f"Scheduled for {read['triggerAt']}"
    assert ((await api.read(original))["timeout"], read["timeout"]) == ("5s", "7s")
    await api.holds(credits=CREDITS - 2, waiting={first.json()["scheduleId"]})


async def test_a_bad_body_is_a_400_that_names_all(api: Api) -> None:
    [original] = await fail(api, targetHeaders={"Authorization": "Bearer x"})
    for fields, bad in (
        ({"triggerAt": "2020-01-01T00:00:00Z", "x": 1}, ["triggerAt", "x"]),
        ({"targetUrl": "https://other.example/"}, ["targetHeaders.Authorization"]),
    ):
        assert bad_fields(await replay(api, original, fields)) == bad
    assert await failed(api) == [original]
    await api.holds(credits=CREDITS - 1, waiting=set())


NOW_MS, MINUTE_MS = 1_800_000_000_000, 60_000


@pytest.mark.parametrize(
    ("expires_ms", "given", "expected_ms"),
    [
        (None, {}, None),
        (NOW_MS + 1, {}, NOW_MS + 1),  # it still holds
        (NOW_MS, {}, NOW_MS + MINUTE_MS),  # it has passed: as long after triggerAt as before
        (NOW_MS + 5, {"trigger_at_ms": NOW_MS + 6}, NOW_MS + MINUTE_MS + 11),
        (NOW_MS, {"expires_at_ms": NOW_MS + 3}, NOW_MS + 3),
    ],
)
def test_an_expires_at_that_has_passed_keeps_its_distance(
    expires_ms: int | None, given: dict[str, Any], expected_ms: int | None
) -> None:
    request = Request(NOW_MS - MINUTE_MS, "GET", URL, expires_at_ms=expires_ms)
    original = Schedule(UNKNOWN, 0, request, Status.FAILED)
    made = Change(given).of_replay(original, NOW_MS)
    assert made.expires_at_ms == expected_ms
    assert made.trigger_at_ms == given.get("trigger_at_ms", NOW_MS)


async def test_a_read_says_what_a_replay_would_answer(api: Api) -> None:
    [failed] = await fail(api)
    waiting, bare, full = [await api.create_id(targetBody=body) for body in (None, None, {"a": 1})]
    for each in (bare, full):
        assert (await api.client.delete(f"/schedule/{each}")).status_code == 200
    not_kept = "Its body was not kept when it was cancelled"
    for schedule_id, reason, status, error in (
        (waiting, "not_ended", "scheduled", "The schedule has not ended yet"),
        (full, "body_not_kept", "cancelled", not_kept),
    ):
        read, answer = await api.read(schedule_id), await replay(api, schedule_id)
        assert (read["replayable"], read["notReplayableReason"]) == (False, reason)
        assert refusal_of(answer) == (409, error, reason, status)
    for schedule_id in (failed, bare):
        read, answer = await api.read(schedule_id), await replay(api, schedule_id)
        assert (read["replayable"], read["notReplayableReason"]) == (True, None)
        assert answer.status_code == 201


async def test_without_credits_it_is_402(api: Api) -> None:
    unpaid = {"error": "Insufficient credits", "reason": "insufficient_credits"}
    async with api.another(credits=2) as poor:
        originals = await fail(poor, 2)
        answer = await replay(poor, originals[0], key="k")
        assert (answer.status_code, error_of(answer)) == (402, unpaid)
        await api.store.accounts.grant(poor.account_id, 1)
        items = (await replay_many(poor, {"ids": originals})).json()["schedules"]
        assert [each.get("code") for each in items] == [None, 402]
        assert items[1] == {"code": 402, **unpaid, "details": [], "replayOf": originals[1]}
        assert await failed(poor) == originals[1:]


async def test_many_are_answered_one_by_one_in_order(api: Api) -> None:
    first, done, last = await fail(api, 3)
    waiting = await api.create_id()
    await replay(api, done)
    asked = [first, UNKNOWN, done, waiting, last, "nonsense", first]
    answer = await replay_many(api, {"ids": asked})
    assert (answer.status_code, answer.json()["nextCursor"]) == (200, None)
    items = answer.json()["schedules"]
    assert [each["replayOf"] for each in items] == asked
    assert [each.get("code") for each in items] == [None, 404, 409, 409, None, 404, None]
    assert [each.get("error") for each in items[1:4]] == [
        "There is no such schedule",
        "The schedule was replayed already",
        "The schedule has not ended yet",
    ]
    assert set(items[2]) == {"code", "error", "reason", "details", "replayOf"}
    assert items[6] == items[0]
    for each in (items[0], items[4]):
        assert each["invocationId"] == ids.invocation_id(each["scheduleId"])
        assert each["triggerAt"] == (await api.read(each["scheduleId"]))["triggerAt"]
        assert (await api.stored(each["scheduleId"])).replay_of == each["replayOf"]
    assert await failed(api) == []
    assert await api.credits() == CREDITS - 7
    assert await api.store.check() == []
