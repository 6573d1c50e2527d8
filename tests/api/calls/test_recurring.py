"""/recurring: each call once, over the store. Fields: test_recurring_fields.py; what becomes of the
occurrences: tests/store/recurring/test_recurring.py."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest

from scheduler.errors import Reason, Unreadable
from scheduler.recurrence.recurring import Draft
from scheduler.store import keys
from scheduler.store.scans import Scan
from scheduler.store.store import Store
from scheduler.times import format_iso8601, parse_iso8601
from tests.api.conftest import CREDITS, NEW_YEAR, URL, YEAR, Api, bad_fields
from tests.api.errors import error_of
from tests.support.plain import redis_of

DAILY: dict[str, Any] = {"targetUrl": URL, "cron": "0 9 * * *", "timeZone": "Europe/Berlin"}

MOVES = (("POST", "/pause"), ("POST", "/resume"), ("POST", "/trigger"))


async def created(api: Api, **members: Any) -> dict[str, Any]:
    answer = await api.client.post("/recurring", json=DAILY | members)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def read(api: Api, recurring_id: str) -> dict[str, Any]:
    answer = await api.client.get(f"/recurring/{recurring_id}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def in_ms(ms: int) -> str:
    return format_iso8601(time.time_ns() // 1_000_000 + ms)


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, error_of(answer)["reason"]


async def posted(api: Api, rule: dict[str, Any], call: str) -> dict[str, Any]:
    answer = await api.client.post(f"/recurring/{rule['recurringId']}/{call}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_a_rule_and_its_first_occurrence_are_created(api: Api) -> None:
    rule = await created(api, name="report", targetBody={"a": 1}, lane="reports", retries=2)
    assert rule["message"] == f"At 09:00, Berlin; first at {rule['nextAt']}"
    shown = await read(api, rule["recurringId"])
    assert {name: shown[name] for name in DAILY} == DAILY
    assert (shown["name"], shown["state"], shown["missed"]) == ("report", "active", 0)
    assert (shown["targetBody"], shown["lane"], shown["retries"]) == ({"a": 1}, "reports", 2)
    assert shown["nextAt"] == rule["nextAt"] == shown["next"][0]
    assert len(shown["next"]) == 5
    assert "triggerAt" not in shown
    occurrence = await api.read(rule["scheduleId"])
    assert (occurrence["recurringId"], occurrence["slot"]) == (rule["recurringId"], rule["nextAt"])
    assert (occurrence["triggerAt"], occurrence["targetBody"]) == (rule["nextAt"], {"a": 1})
    await api.holds(credits=CREDITS - 1, waiting={rule["scheduleId"]})


async def test_secrets_are_masked(api: Api) -> None:
    rule = await created(api, targetHeaders={"Authorization": "Bearer abc"})
    assert "abc" not in (await api.client.get(f"/recurring/{rule['recurringId']}")).text


async def test_a_repeat_with_the_same_key_creates_nothing(api: Api) -> None:
    headers = {"idempotency-key": "report"}
    first = await api.client.post("/recurring", json=DAILY, headers=headers)
    again = await api.client.post("/recurring", json=DAILY, headers=headers)
    assert again.json() == first.json()
    assert "idempotency-replayed" not in first.headers
    assert (again.status_code, again.headers["idempotency-replayed"]) == (201, "true")
    other = await api.client.post("/recurring", json=DAILY | {"retries": 1}, headers=headers)
    assert refusal(other) == (422, Reason.KEY_REUSED)
    await api.holds(credits=CREDITS - 1, waiting={first.json()["scheduleId"]})


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"cron": "60 * * * *"}, "cron"),
        ({"cron": "0 0 */30 * MON#2"}, "cron"),  # it never comes, as a search finds out
        ({"cron": None, "every": "100d", "startsAt": "2099-01-01T00:00:00Z"}, "startsAt"),
        ({"triggerAt": NEW_YEAR}, "triggerAt"),
    ],
)
async def test_a_bad_rule_is_refused_and_nothing_is_stored(
    api: Api, members: dict[str, Any], field: str
) -> None:
    for method, path in (("POST", "/recurring"), ("PUT", "/recurring/by-name/report")):
        answer = await api.client.request(method, path, json=DAILY | members)
        assert bad_fields(answer) == [field]
    assert (await api.client.get("/recurring")).json() == {"recurring": [], "nextCursor": None}
    await api.holds(credits=CREDITS, waiting=set())


async def test_a_rule_that_cannot_be_had_is_not_stored(api: Api) -> None:
    await created(api, name="report")
    taken = await api.client.post("/recurring", json=DAILY | {"name": "report"})
    assert refusal(taken) == (409, Reason.RECURRING_NAME_TAKEN)
    assert "status" not in taken.json()
    async with api.another(credits=0) as poor:
        answer = await poor.client.post("/recurring", json=DAILY)
        assert refusal(answer) == (402, Reason.INSUFFICIENT_CREDITS)
        assert (await poor.client.get("/recurring")).json()["recurring"] == []


async def test_a_change_moves_and_changes_the_occurrence_and_keeps_its_id(api: Api) -> None:
    rule = await created(api, targetBody={"n": 1}, expiresAfter="10m")
    path = f"/recurring/{rule['recurringId']}"
    given = {"every": "2h", "reference": "r1", "targetBody": None, "expiresAfter": "20m"}
    changed = (await api.client.patch(path, json=given)).json()
    assert (changed["cron"], changed["every"], changed["next"]) == (None, "2h", None)
    assert changed["scheduleId"] == rule["scheduleId"]
    occurrence = await api.read(changed["scheduleId"])
    assert (occurrence["slot"], occurrence["reference"]) == (changed["nextAt"], "r1")
    assert (occurrence["targetMethod"], occurrence["targetBody"]) == ("GET", None)
    lasts_ms = parse_iso8601(occurrence["expiresAt"]) - parse_iso8601(occurrence["triggerAt"])
    assert lasts_ms == 1_200_000
    for bad, field in (({"cron": "* * *"}, "cron"), ({}, "body")):
        assert bad_fields(await api.client.patch(path, json=bad)) == [field]
    await api.holds(credits=CREDITS - 1, waiting={rule["scheduleId"]})


async def test_a_put_by_name_creates_changes_or_leaves_it(api: Api) -> None:
    path = "/recurring/by-name/daily.report"
    first = await api.client.put(path, json=DAILY)
    assert (first.status_code, first.json()["name"]) == (201, "daily.report")
    again = await api.client.put(path, json=DAILY)
    assert (again.status_code, first.json()["unchanged"]) == (200, False)
    assert again.json() == first.json() | {"unchanged": True}
    assert again.headers["etag"] == first.headers["etag"]
    other = await api.client.put(path, json=DAILY | {"cron": "0 8 * * *", "timeZone": None})
    assert other.json()["recurringId"] == first.json()["recurringId"]
    assert (other.json()["cron"], other.json()["timeZone"]) == ("0 8 * * *", "UTC")
    assert (other.status_code, other.json()["unchanged"]) == (200, False)
    bad = await api.client.put("/recurring/by-name/a%20b", json=DAILY)
    assert bad_fields(bad) == ["name"]
    await api.holds(credits=CREDITS - 1, waiting={first.json()["scheduleId"]})


async def test_a_name_stands_in_the_place_of_an_id_everywhere(api: Api) -> None:
    rule = await created(api, name="daily:report")
    path = "/recurring/name:daily:report"
    shown = await api.client.get(path)
    assert shown.json() == await read(api, rule["recurringId"])
    assert (await api.client.patch(path, json={"retries": 3})).json()["retries"] == 3
    states = [(await api.client.post(f"{path}/{each}")).json() for each in ("pause", "resume")]
    assert [each["state"] for each in states] == ["paused", "active"]
    made = (await api.client.post(f"{path}/trigger")).json()["scheduleId"]
    assert (await api.read(made))["recurringId"] == rule["recurringId"]
    renamed = await api.client.patch(path, json={"name": "other"})
    assert renamed.json()["name"] == "other"
    for name in ("daily:report", "no", "", "a b", rule["recurringId"]):
        for method, more in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/pause")):
            sent = {"json": {"retries": 1}} if method == "PATCH" else {}
            answer = await api.client.request(method, f"/recurring/name:{name}{more}", **sent)
            assert error_of(answer)["reason"] == "unknown_recurring"
    assert (await api.client.get("/recurring/id:other")).status_code == 404
    gone = await api.client.delete("/recurring/name:other")
    assert gone.json()["recurringId"] == rule["recurringId"]
    assert (await api.client.delete("/recurring/name:other")).status_code == 404
    again = await api.client.delete(f"/recurring/{rule['recurringId']}")
    assert again.status_code == 200, "by its id the deletion can be repeated"


async def test_a_call_by_name_means_the_one_that_has_it_when_the_call_begins(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, recurring = await created(api, name="report"), api.store.recurring
    found = recurring.id_of

    async def renamed_behind(account_id: str, name: str) -> str:
        recurring_id = await found(account_id, name)
        before = await recurring.read(account_id, recurring_id)
        draft = Draft(before.request, before.timing, name)
        await recurring.change(account_id, recurring_id, lambda _: draft._replace(name="old"))
        await recurring.create(account_id, draft)
        return recurring_id

    monkeypatch.setattr(recurring, "id_of", renamed_behind)
    paused = (await api.client.post("/recurring/name:report/pause")).json()
    assert (paused["recurringId"], paused["name"]) == (rule["recurringId"], "old")
    [other] = (await api.client.get("/recurring", params={"state": "active"})).json()["recurring"]
    assert other["name"] == "report"


async def test_a_pause_and_its_end(api: Api) -> None:
    rule = await created(api)
    for _ in range(2):
        paused = await posted(api, rule, "pause")
        assert (paused["state"], paused["nextAt"], paused["scheduleId"]) == ("paused", None, None)
    assert (await read(api, rule["recurringId"]))["next"] == []
    await api.holds(credits=CREDITS, waiting=set())
    for _ in range(2):
        resumed = await posted(api, rule, "resume")
        assert (resumed["state"], resumed["nextAt"]) == ("active", rule["nextAt"])
    await api.holds(credits=CREDITS - 1, waiting={resumed["scheduleId"]})


async def test_an_occurrence_may_be_made_now(api: Api) -> None:
    rule = await created(api)
    path, headers = f"/recurring/{rule['recurringId']}/trigger", {"idempotency-key": "now"}
    first = await api.client.post(path, headers=headers)
    assert first.status_code == 201
    again = await api.client.post(path, headers=headers)
    assert again.json()["scheduleId"] == first.json()["scheduleId"]
    assert again.headers["idempotency-replayed"] == "true"
    shown = await api.read(first.json()["scheduleId"])
    assert (shown["recurringId"], shown["slot"]) == (rule["recurringId"], None)
    assert shown["triggerAt"] == first.json()["triggerAt"]
    waiting = {rule["scheduleId"], first.json()["scheduleId"]}
    await api.holds(credits=CREDITS - 2, waiting=waiting)


async def test_a_trigger_by_name_is_repeated_though_the_name_has_gone(api: Api) -> None:
    await created(api, name="report")
    path, headers = "/recurring/name:report/trigger", {"idempotency-key": "now"}
    first = await api.client.post(path, headers=headers)
    assert (await api.client.delete("/recurring/name:report")).status_code == 200
    again = await api.client.post(path, headers=headers)
    assert (again.status_code, again.json()) == (201, first.json())
    assert (await api.client.post(path)).status_code == 404


async def test_a_call_without_fields_takes_none(api: Api) -> None:
    rule = await created(api)
    for _, call in MOVES:
        path = f"/recurring/{rule['recurringId']}{call}"
        assert bad_fields(await api.client.post(path, json={"at": "now"})) == ["at"]
        assert (await api.client.post(path, content=b"{}")).is_success


async def test_a_deleted_rule_gives_its_credit_back(api: Api) -> None:
    rule = await created(api, name="report")
    answer = await api.client.delete(f"/recurring/{rule['recurringId']}")
    assert answer.json()["creditsRemaining"] == CREDITS
    again = await api.client.delete(f"/recurring/{rule['recurringId']}")
    assert (again.status_code, again.json()) == (200, answer.json())
    gone = await api.client.get(f"/recurring/{rule['recurringId']}")
    assert refusal(gone) == (404, Reason.UNKNOWN_RECURRING)
    await created(api, name="report")


async def test_anothers_rule_is_not_there(api: Api) -> None:
    rule = await created(api, name="report")
    async with api.another() as other:
        for method, call in (("GET", ""), ("PATCH", ""), ("DELETE", ""), *MOVES):
            for named in (rule["recurringId"], "report", "sch_" + rule["recurringId"][4:]):
                body = {"retries": 1} if method == "PATCH" else None
                path = f"/recurring/{named}{call}"
                answer = await other.client.request(method, path, json=body)
                assert refusal(answer) == (404, Reason.UNKNOWN_RECURRING), path
        listed = await other.client.get("/recurring", params={"name": "report"})
        assert listed.json()["recurring"] == []
    await api.holds(credits=CREDITS - 1, waiting={rule["scheduleId"]})


async def test_rules_are_listed_in_pages_and_by_name_and_state(api: Api) -> None:
    rules = [await created(api, name=f"r{n}") for n in range(3)]
    await posted(api, rules[1], "pause")

    async def names(**query: Any) -> list[str]:
        found: list[str] = []
        while True:
            answer = (await api.client.get("/recurring", params=query)).json()
            found += [each["name"] for each in answer["recurring"]]
            query["cursor"] = answer["nextCursor"]
            if query["cursor"] is None:
                return found

    assert await names(limit=1) == await names() == ["r0", "r1", "r2"]
    assert await names(state="active", limit=1) == ["r0", "r2"]
    assert await names(state="paused") == await names(name="r1", state="paused") == ["r1"]
    assert await names(name="r1", state="active") == await names(name="no such") == []
    answer = await api.client.get("/recurring", params={"limit": 1})
    query = {"state": "active", "cursor": answer.json()["nextCursor"]}
    assert bad_fields(await api.client.get("/recurring", params=query)) == ["cursor"]
    assert bad_fields(await api.client.get("/recurring", params={"state": "tired"})) == ["state"]


async def preview(api: Api, **query: Any) -> httpx.Response:
    return await api.client.get("/recurring/preview", params=query)


async def test_a_preview_has_ten_times_and_a_sentence(api: Api) -> None:
    answer = await preview(api, cron="30 1 * * *", timeZone="America/New_York")
    assert answer.json()["description"] == "At 01:30, New York"
    assert len(answer.json()["next"]) == 10
    ends = f"{YEAR}-01-01T01:00:00Z"
    answer = await preview(api, every="40m", startsAt=NEW_YEAR, endsAt=ends)
    times = [NEW_YEAR, f"{YEAR}-01-01T00:40:00.000Z"]
    assert answer.json() == {"next": times, "description": "Every 40m"}
    answer = await preview(api, every="1d", startsAt="1970-01-01T00:00:00Z")
    assert answer.json()["next"][0].endswith("T00:00:00.000Z")
    bad = (({}, "cron"), ({"cron": NEVER}, "cron"), ({"every": "1m", "zone": "UTC"}, "zone"))
    for query, field in bad:
        assert bad_fields(await preview(api, **query)) == [field]
    await api.holds(credits=CREDITS, waiting=set())


NEVER = "0 0 */30 * MON#2"  # the 1st is no second Monday, which takes 20 ms to see


async def test_who_has_searched_too_much_makes_no_long_search(api: Api) -> None:
    rule = await created(api)
    await redis_of(api.store).set(keys.account(api.account_id) + keys.SCANS, 2**52)
    body, path = DAILY | {"cron": NEVER}, f"/recurring/{rule['recurringId']}"
    for answer in (
        await preview(api, cron=NEVER),
        await api.client.post("/recurring", json=body),
        await api.client.put("/recurring/by-name/a", json=body),
        await api.client.patch(path, json={"cron": NEVER}),
    ):
        assert refusal(answer) == (429, Reason.SEARCHES_LIMITED)
    assert (await preview(api, cron="0 9 * * *")).status_code == 200
    await created(api)
    async with api.another() as other:
        assert (await preview(other, cron="0 0 29 2 */6")).status_code == 200


@pytest.mark.parametrize(
    ("cron", "most_ms"), [("0 9 * * *", 0), ("0 0 29 2 */6", 120), (NEVER, 40)]
)
async def test_a_long_search_counts_as_long_as_it_takes(
    api: Api, monkeypatch: pytest.MonkeyPatch, cron: str, most_ms: int
) -> None:
    counted: list[Scan] = []

    @asynccontextmanager
    async def of(account_id: str, *, searches: bool) -> AsyncIterator[Scan]:
        scan = Scan()
        if searches:
            counted.append(scan)
        yield scan

    monkeypatch.setattr(api.store.scans, "of", of)
    await preview(api, cron=cron)
    spent_us = sum(scan.us for scan in counted)
    assert most_ms / 4 <= spent_us / 1000 <= most_ms


@pytest.mark.parametrize("is_bulk", [False, True])
async def test_a_cancelled_occurrence_is_followed_by_the_next(api: Api, is_bulk: bool) -> None:
    rule = await created(api)
    if is_bulk:
        body = {"ids": [rule["scheduleId"]]}
        answer = await api.client.post("/schedule/cancel", json=body)
        assert answer.json()["occurrencesLeft"] == 0
    else:
        answer = await api.client.delete(f"/schedule/{rule['scheduleId']}")
    assert answer.status_code == 200
    # The next one has been paid by now.
    assert answer.json()["creditsRemaining"] == CREDITS - 1
    shown = await read(api, rule["recurringId"])
    assert shown["scheduleId"] not in (None, rule["scheduleId"])
    assert shown["nextAt"] > rule["nextAt"]
    await api.holds(credits=CREDITS - 1, waiting={shown["scheduleId"]})


async def test_a_cancellation_stands_where_the_next_could_not_be_made(
    api: Api, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = await created(api)
    away = AsyncMock(side_effect=Unreadable("away"))
    monkeypatch.setattr(store.recurring, "tend", away)
    answer = await api.client.delete(f"/schedule/{rule['scheduleId']}")
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")


@pytest.mark.parametrize("given", [{"name": "other"}, {"targetUrl": "https://other.example/"}])
async def test_a_change_leaves_what_an_occurrence_has(api: Api, given: dict[str, str]) -> None:
    rule = await created(api, targetBody={"n": 1}, lane="a", retries=2, expiresAfter="10m")
    path = f"/schedule/{rule['scheduleId']}"
    own = {"targetBody": {"n": 2}, "lane": "b", "retries": 5, "retryDelays": ["7s"]}
    own |= {"targetMethod": "PUT", "reference": "mine", "triggerAt": in_ms(12 * 3_600_000)}
    before = (await api.client.patch(path, json=own)).json()
    changed = await api.client.patch(f"/recurring/{rule['recurringId']}", json=given)
    assert changed.status_code == 200
    after = await api.read(rule["scheduleId"])
    assert after == before | ({"targetUrl": after["targetUrl"]} if "targetUrl" in given else {})
    assert after["targetUrl"] == given.get("targetUrl", before["targetUrl"])


@pytest.mark.parametrize(
    ("other", "wanted"),
    [
        ({"every": "36h"}, {"cron": "0 12 * * *"}),
        ({"cron": "0 12 * * *", "timeZone": "Europe/Berlin"}, {"every": "36h"}),
    ],
)
async def test_an_unchanged_put_brings_back_no_cancelled_run(
    api: Api, other: dict[str, str], wanted: dict[str, str]
) -> None:
    """Whatever its times were before."""
    target = {"targetUrl": URL}
    rule = (await api.client.put("/recurring/by-name/report", json=target | other)).json()
    path = f"/recurring/{rule['recurringId']}"
    changed = (await api.client.patch(path, json=wanted)).json()
    await api.client.delete(f"/schedule/{changed['scheduleId']}")
    before = await read(api, rule["recurringId"])
    await api.client.put("/recurring/by-name/report", json=target | wanted)
    after = await read(api, rule["recurringId"])
    told = ("nextAt", "scheduleId", "state")
    assert [after[name] for name in told] == [before[name] for name in told]


async def test_a_filter_leaves_out_the_next_occurrences(api: Api) -> None:
    """So that cancelling until nothing is left ends."""
    rules = [await created(api, lane="a") for _ in range(3)]
    now = await api.client.post(f"/recurring/{rules[0]['recurringId']}/trigger")
    made = [await api.create_id(triggerAt=in_ms(n * 3_600_000), lane="a") for n in (1, 48)]
    body: dict[str, Any] = {"status": "scheduled", "lane": "a", "limit": 1}
    cancelled, left = list[str](), 0
    while True:
        answer = (await api.client.post("/schedule/cancel", json=body)).json()
        cancelled += [each["scheduleId"] for each in answer["schedules"]]
        left += answer["occurrencesLeft"]
        if answer["nextCursor"] is None:
            break
        body["cursor"] = answer["nextCursor"]
    assert cancelled == [now.json()["scheduleId"], *made]
    assert left == 3
    await api.holds(credits=CREDITS - 3, waiting={each["scheduleId"] for each in rules})
    named = {"status": "scheduled", "recurringId": rules[0]["recurringId"]}
    answer = (await api.client.post("/schedule/cancel", json=named)).json()
    assert [each["scheduleId"] for each in answer["schedules"]] == [rules[0]["scheduleId"]]
    assert answer["occurrencesLeft"] == 0


@pytest.mark.parametrize("way", ["keep", "replace"])
async def test_a_create_means_no_next_occurrence(api: Api, way: str) -> None:
    """Though that has the reference, and waits."""
    rules = [await created(api, reference="ours") for _ in range(5)]
    before = await api.read(rules[0]["scheduleId"])
    given = {"reference": "ours", "onExisting": way, "triggerAt": in_ms(3_600_000)}
    first = await api.create(**given)
    assert (first.status_code, first.json().get("existing", False)) == (201, False)
    again = await api.create(**given)
    assert (again.status_code, again.json()["existing"]) == (200, True)
    assert again.json()["scheduleId"] == first.json()["scheduleId"]
    assert await api.read(rules[0]["scheduleId"]) == before


async def test_the_history_has_each_change_of_a_rule_once(api: Api) -> None:
    """A repeat that changes nothing is no event. tests/dashboard/viewer/ has what pages show."""
    rule = await created(api, name="nightly")
    path = f"/recurring/{rule['recurringId']}"
    for method, more, fields in (
        ("POST", "/resume", {}),
        *[("POST", "/pause", {})] * 2,
        *[("POST", "/resume", {})] * 2,
        *[("PATCH", "", {"retries": 2})] * 2,
        *[("PATCH", "", {"retries": 3, "paused": True})] * 2,
        *[("PATCH", "", {"paused": False})] * 2,
        *[("DELETE", "", {})] * 2,
    ):
        answer = await api.client.request(method, path + more, json=fields or None)
        assert answer.status_code == 200, answer.text
    events = await api.store.events.newest(api.account_id)
    assert [each.kind for each in reversed(events) if each.kind.startswith("rule-")] == [
        *("rule-made", "rule-paused", "rule-resumed", "rule-changed"),
        *("rule-changed", "rule-paused", "rule-resumed", "rule-deleted"),
    ]
    assert {each.about for each in events if each.kind.startswith("rule-")} == {"nightly"}
    assert all(each.who.startswith("API key ") for each in events if each.kind != "api-key-made")
