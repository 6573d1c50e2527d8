"""GET /schedule/{scheduleId} and GET /schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.ids import new_recurring_id
from scheduler.masks import MASK
from scheduler.models import Occurrence, Outcome, Phases, Request, Status
from tests.api.conftest import NEW_YEAR, URL, Api, bad_fields, past
from tests.api.errors import refusal_of
from tests.api.letters import UNKNOWN

MOMENT = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=7000)
NONE_YET = """targetBodyText targetBodyBase64 retryDelays callbackOn callbackInclude
failureCallbackUrl lane reference executedAt statusCode responseTimeMs errorMessage responseBody
responseContentType phases nextAttemptAt heldBy callback recurringId slot replayOf replayedAs"""


def written(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


async def test_a_schedule_comes_back_as_it_was_asked_for(api: Api) -> None:
    expires_at = MOMENT + timedelta(hours=1)
    given = {"targetHeaders": {"X-Order": "12"}, "targetBody": {"n": 1.0, "é": [None]}}
    given |= {"targetUrl": URL, "delivery": "at-most-once"}
    times = {"triggerAt": MOMENT.isoformat(), "expiresAt": expires_at.isoformat()}
    schedule_id = await api.create_id(targetMethod="put", **given, **times)
    body = await api.read(schedule_id)
    created_at = datetime.fromisoformat(body.pop("createdAt"))
    assert timedelta(0) <= datetime.now(UTC) - created_at < timedelta(minutes=1)
    assert body == {
        "scheduleId": schedule_id,
        "invocationId": "inv_" + schedule_id.removeprefix("sch_"),
        "status": "scheduled",
        "triggerAt": written(MOMENT),
        "targetMethod": "PUT",
        **given,
        "expiresAt": written(expires_at),
        "retries": 0,
        "retryOn": "transient",
        "timeout": "30s",
        "callbackUrl": "default",
        "labels": [],
        "attempts": 0,
        "replayable": False,
        "notReplayableReason": "not_ended",
        **dict.fromkeys(NONE_YET.split()),
    }


async def test_secrets_in_the_query_of_a_url_are_masked_and_fired_as_they_are(api: Api) -> None:
    url = f"{URL}?n=1&access_token=hush"
    schedule_id = await api.create_id(targetUrl=url, triggerAt=past())
    shown = await api.read(schedule_id)
    assert shown["targetUrl"] == f"{URL}?n=1&access_token={MASK}"
    assert [each["targetUrl"] for each in await api.listed()] == [shown["targetUrl"]]
    # The log as well. Both are looked through by the whole URL.
    for path, found in (("/schedule", "schedules"), ("/stats/logs", "logs")):
        answer = await api.client.get(path, params={"targetUrl": url})
        assert [each["targetUrl"] for each in answer.json()[found]] == [shown["targetUrl"]]
    elsewhere = shown["targetUrl"].replace("hook", "hole")
    back = await api.client.patch(f"/schedule/{schedule_id}", json={"targetUrl": elsewhere})
    assert bad_fields(back) == ["targetUrl"]
    [invocation] = await api.claim()
    assert invocation.request.url == url


@pytest.mark.parametrize(
    ("method", "call"), [("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/replay")]
)
async def test_an_unknown_one_or_anothers_is_404(api: Api, method: str, call: str) -> None:
    async with api.another() as other:
        theirs = await other.create_id()
        for each in (theirs, UNKNOWN, "x", "%00", "sch_8" + "0" * 25):
            path = f"/schedule/{each}{call}"
            answer = await api.client.request(method, path, json={"delivery": None})
            assert refusal_of(answer) == (404, "There is no such schedule", "unknown_schedule")
        await other.holds(credits=4, waiting={theirs})


@pytest.mark.parametrize(
    ("phases", "shown"),
    [
        (None, {"connectionReused": True, "firstByteMs": 12}),
        (Phases(None, 3, None, 9, 0), {"connectMs": 3, "firstByteMs": 9, "lastByteMs": 0}),
    ],
)
async def test_what_completed_has_phases_also_where_none_are_kept(
    api: Api, phases: Phases | None, shown: dict[str, Any]
) -> None:
    schedule_id = await api.create_id(triggerAt=past())
    await api.execute(Outcome(Status.COMPLETED, 200, 12, "", phases=phases))
    names = ("resolveMs", "connectMs", "tlsMs", "firstByteMs", "lastByteMs")
    expected = {"connectionReused": False} | dict.fromkeys(names) | shown
    assert (await api.read(schedule_id))["phases"] == expected
    logged = (await api.client.get("/stats/logs", params={"scheduleId": schedule_id})).json()
    assert [each["phases"] for each in logged["logs"]] == [expected]


async def test_the_list_is_of_what_waits_by_trigger_at(api: Api) -> None:
    made = {n: await api.create_id(triggerAt=written(MOMENT + timedelta(n))) for n in (3, 1, 2)}
    await api.client.delete(f"/schedule/{await api.create_id()}")
    await api.create_id(triggerAt=past())
    await api.execute(Outcome(Status.COMPLETED, 200, 1, ""))
    rising = [made[1], made[2], made[3]]
    period = {"from": written(MOMENT + timedelta(2)), "to": written(MOMENT + timedelta(3))}
    for query, found in (
        ({}, rising),
        ({"order": "asc"}, rising),
        ({"order": "desc"}, rising[::-1]),
        ({"limit": 1}, rising),
        (period, [made[2]]),
    ):
        assert [each["scheduleId"] for each in await api.listed(**query)] == found
    [first, *_] = await api.listed()
    assert first == await api.read(rising[0])


async def test_ended_schedules_are_listed_as_they_are_read(api: Api) -> None:
    waiting = await api.create_id(triggerAt=NEW_YEAR)
    cancelled = await api.create_id(triggerAt=NEW_YEAR, targetBody={"n": 1})
    await api.client.delete(f"/schedule/{cancelled}")
    failed = await api.store.schedules.create(api.account_id, Request(1, "GET", URL))
    await api.execute(Outcome(Status.FAILED, 404, 1, "Not Found"))
    for path, expected in (
        ("/schedule?status=cancelled", [cancelled]),
        ("/schedule?status=cancelled,executed", [failed, cancelled]),
        ("/schedule?status=executed&status=scheduled", [waiting, failed]),
        (f"/schedule?status=completed,failed&order=asc&targetUrl={URL}", [failed]),
    ):
        answer = await api.client.get(path)
        assert answer.json()["schedules"] == [await api.read(each) for each in expected]
    answer = await api.client.get("/schedule?status=retrying")
    assert (answer.status_code, bad_fields(answer)) == (400, ["status"])


async def test_a_cursor_is_good_for_the_list_and_the_order_that_gave_it(api: Api) -> None:
    rule = new_recurring_id(1)
    ended = Request(1, "GET", URL, lane="a", reference="a", recurring=Occurrence(rule))
    waiting = replace(ended, trigger_at_ms=api.store.clock.now_ms() + 3_600_000)
    await api.store.schedules.create_all(api.account_id, [ended] * 5)
    await api.execute(Outcome(Status.FAILED, 500, 1, "Internal Server Error"))
    await api.store.schedules.create_all(api.account_id, [waiting] * 9)
    named = ("lane=a", "reference=a", "reference=a*", f"recurringId={rule}")
    lists = [
        *(f"{path}?limit=2&{each}" for path in ("/schedule", "/stats/logs") for each in named),
        "/schedule?limit=2",
        "/schedule?limit=2&order=desc",
        "/schedule?limit=2&status=failed",
        "/schedule?limit=2&status=executed,scheduled",
        "/stats/logs?limit=2",
        f"/stats/logs?limit=2&targetUrl={URL}",
        "/stats/logs?limit=2&status=scheduled",
        "/stats/logs?limit=2&status=executed,scheduled",
    ]
    cursors = {path: (await api.client.get(path)).json()["nextCursor"] for path in lists}
    for path in lists:
        for giver, cursor in cursors.items():
            answer = await api.client.get(f"{path}&cursor={cursor}")
            if path == giver:
                assert answer.status_code == 200
                assert [len(page) for page in answer.json().values() if type(page) is list] == [2]
            else:
                assert answer.status_code == 400, (path, giver)
                assert [detail["field"] for detail in answer.json()["details"]] == ["cursor"]
