"""GET /schedule/{scheduleId} and GET /schedule."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.masks import MASK
from scheduler import ids
from scheduler.models import Outcome, Request, Status
from scheduler.times import format_iso8601
from tests.api.conftest import CREDITS, URL, Api, bad_fields, past, payload
from tests.api.letters import UNKNOWN, fail, failed

MOMENT = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=7000)
OUTCOME_NAMES = ("executedAt", "statusCode", "responseTimeMs", "errorMessage")

# Ids that could be, if their moments could: the years 10889, 3084 and 1970; and one of 129 bits.
ABSURD = ["sch_7" + "z" * 25, "sch_0" + "z" * 25, "sch_" + "0" * 26, "sch_8" + "0" * 25]


def written(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


async def test_a_schedule_comes_back_as_it_was_asked_for(api: Api) -> None:
    schedule_id = await api.create_id(
        triggerAt=MOMENT.isoformat(),
        targetMethod="put",
        targetHeaders={"X-Order": "12"},
        targetBody={"n": 1.0, "é": [None]},
        delivery="at-most-once",
        expiresAt=(MOMENT + timedelta(hours=1)).isoformat(),
    )
    body = await api.read(schedule_id)
    created_at = datetime.fromisoformat(body.pop("createdAt"))
    assert timedelta(0) <= datetime.now(UTC) - created_at < timedelta(minutes=1)
    assert body == {
        "scheduleId": schedule_id,
        "invocationId": "inv_" + schedule_id.removeprefix("sch_"),
        "status": "scheduled",
        "triggerAt": written(MOMENT),
        "targetUrl": URL,
        "targetMethod": "PUT",
        "targetHeaders": {"X-Order": "12"},
        "targetBody": {"n": 1.0, "é": [None]},
        "targetBodyText": None,
        "targetBodyBase64": None,
        "delivery": "at-most-once",
        "expiresAt": written(MOMENT + timedelta(hours=1)),
        "retries": 0,
        "retryDelays": None,
        **dict.fromkeys(OUTCOME_NAMES),
        **dict.fromkeys(("responseBody", "responseContentType", "phases")),
        "attempts": 0,
        "nextAttemptAt": None,
        "replayOf": None,
        "replayedAs": None,
    }


async def test_created_at_is_the_moment_in_the_id_wherever_it_is_told(api: Api) -> None:
    earliest_ms = api.store.clock.now_ms()
    due, moved, cancelled = [
        await api.create_id(triggerAt=at) for at in (past(), written(MOMENT), written(MOMENT))
    ]
    latest_ms = api.store.clock.now_ms()
    await api.execute(Outcome(Status.COMPLETED, 200, 1, ""))
    later = {"triggerAt": written(MOMENT)}
    told = [(await api.client.patch(f"/schedule/{moved}", json=later)).json()]
    await api.client.delete(f"/schedule/{cancelled}")
    told += [await api.read(each) for each in (due, moved, cancelled)]
    told += await api.listed()
    told += (await api.client.get("/stats/logs")).json()["logs"]
    assert len(told) == 1 + 3 + 1 + 3
    for each in told:
        created_ms = ids.created_at_ms(each["scheduleId"])
        assert each["createdAt"] == format_iso8601(created_ms)
        assert earliest_ms <= created_ms <= latest_ms


async def test_what_was_left_out_is_told_as_what_it_stands_for(api: Api) -> None:
    names = ("targetMethod", "targetHeaders", "targetBody", "delivery", "expiresAt")
    body = await api.read(await api.create_id())
    assert [body[name] for name in names] == ["GET", {}, None, "at-least-once", None]


async def test_the_body_comes_back_as_the_very_text_that_came_in(api: Api) -> None:
    text = '{"big": 1e400, "exact": 12345678901234567890.10}'
    content = f'{{"targetUrl":"{URL}","triggerAt":"{payload()["triggerAt"]}","targetBody":{text}}}'
    created = await api.client.post("/schedule", content=content)
    answer = await api.client.get(f"/schedule/{created.json()['scheduleId']}")
    assert f'"targetBody":{text},' in answer.text


async def test_header_values_that_look_like_secrets_are_masked(api: Api) -> None:
    secrets = {"Authorization": "hush", "X-TOKEN": "hush"}
    schedule_id = await api.create_id(targetHeaders={**secrets, "X-Order": "12"})
    shown = (await api.read(schedule_id))["targetHeaders"]
    assert shown == {**dict.fromkeys(secrets, MASK), "X-Order": "12"}
    assert [each["targetHeaders"] for each in await api.listed()] == [shown]
    assert (await api.stored(schedule_id)).headers == {**secrets, "X-Order": "12"}


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
    back = await api.client.patch(
        f"/schedule/{schedule_id}", json={"targetUrl": shown["targetUrl"]}
    )
    assert bad_fields(back) == ["targetUrl"]
    [invocation] = await api.claim()
    assert invocation.request.url == url


@pytest.mark.parametrize(
    "outcome",
    [Outcome(Status.COMPLETED, 204, 12, ""), Outcome(Status.FAILED, 0, 30_000, "Timeout")],
)
async def test_an_executed_one_has_the_outcome_of_the_log(api: Api, outcome: Outcome) -> None:
    schedule_id = await api.create_id(triggerAt=past())
    await api.execute(outcome)
    body = await api.read(schedule_id)
    assert body["executedAt"] is not None
    told = Outcome(*(body[name] for name in ("status", *OUTCOME_NAMES[1:])))
    assert told == outcome
    [entry] = (await api.client.get("/stats/logs")).json()["logs"]
    assert {name: entry[name] for name in OUTCOME_NAMES} == {n: body[n] for n in OUTCOME_NAMES}
    await api.holds(credits=CREDITS - 1, waiting=set())


async def test_what_is_held_or_cancelled_has_no_outcome(api: Api) -> None:
    held, cancelled = await api.create_id(triggerAt=past()), await api.create_id()
    assert len(await api.claim()) == 1
    await api.client.delete(f"/schedule/{cancelled}")
    for schedule_id, status in ((held, "scheduled"), (cancelled, "cancelled")):
        body = await api.read(schedule_id)
        assert body["status"] == status
        assert {name: body[name] for name in OUTCOME_NAMES} == dict.fromkeys(OUTCOME_NAMES)
    await api.holds(credits=CREDITS - 1, waiting={held})


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
async def test_an_unknown_one_or_anothers_is_404(api: Api, method: str) -> None:
    async with api.another() as other:
        theirs = await other.create_id()
        for each in (theirs, UNKNOWN, "sch_", "x", "%00", "é", "a" * 3000, *ABSURD):
            path = f"/schedule/{each}"
            answer = await api.client.request(method, path, json={"delivery": None})
            assert answer.status_code == 404
            assert answer.json() == {"error": "There is no such schedule"}
        await other.holds(credits=4, waiting={theirs})


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


async def test_a_page_has_50_unless_told_otherwise(api: Api) -> None:
    due_ms = api.store.clock.now_ms() + 3_600_000
    await api.store.schedules.create_all(api.account_id, [Request(due_ms, "GET", URL)] * 120)
    for limit, pages in (({}, [50, 50, 20]), ({"limit": 100}, [100, 20])):
        sizes, cursor = [], {}
        while cursor != {"cursor": None}:
            body = (await api.client.get("/schedule", params={**limit, **cursor})).json()
            sizes.append(len(body["schedules"]))
            cursor = {"cursor": body["nextCursor"]}
        assert sizes == pages


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_a_walk_through_one_millisecond_misses_nothing(api: Api, order: str) -> None:
    """Others come and go meanwhile, the last of each page, to which its cursor points, too."""
    due_ms = api.store.clock.now_ms() + 3_600_000

    async def make(count: int, at_ms: int = due_ms) -> list[str]:
        requests = [Request(at_ms, "GET", URL)] * count
        return (await api.store.schedules.create_all(api.account_id, requests)).schedule_ids

    stays = set(await make(500) + await make(50, due_ms + 1))
    goes = await make(60)
    seen: list[str] = []
    query: dict[str, Any] = {"order": order, "limit": 50}
    while True:
        body = (await api.client.get("/schedule", params=query)).json()
        page = [each["scheduleId"] for each in body["schedules"]]
        seen += page
        if body["nextCursor"] is None:
            break
        query["cursor"] = body["nextCursor"]
        stays.discard(page[-1])
        await api.store.canceller.cancel(api.account_id, page[-1])
        goes = [each for each in goes if each != page[-1]]
        for each in goes[:5]:
            await api.store.canceller.cancel(api.account_id, each)
        goes = goes[5:]
        await make(2)
        await make(1, due_ms - 1)
    assert [each for each, times in Counter(seen).items() if times > 1] == []
    assert stays <= set(seen)


async def test_a_cursor_is_good_for_the_list_and_the_order_that_gave_it(api: Api) -> None:
    due_ms = api.store.clock.now_ms() + 3_600_000
    await api.store.schedules.create_all(api.account_id, [Request(1, "GET", URL)] * 5)
    await api.execute(Outcome(Status.FAILED, 500, 1, "Internal Server Error"))
    await api.store.schedules.create_all(api.account_id, [Request(due_ms, "GET", URL)] * 9)

    async def cursor_of(path: str) -> str:
        return str((await api.client.get(path)).json()["nextCursor"])

    lists = [
        "/schedule?limit=2",
        "/schedule?limit=2&order=desc",
        f"/schedule?limit=2&targetUrl={URL}",
        "/schedule?limit=2&status=failed",
        "/schedule?limit=2&status=failed&order=asc",
        f"/schedule?limit=2&status=failed&targetUrl={URL}",
        "/stats/logs?limit=2",
        "/stats/logs?limit=2&order=asc",
        "/stats/logs?limit=2&status=scheduled",
        f"/stats/logs?limit=2&targetUrl={URL}",
        f"/stats/logs?limit=2&targetUrl={URL}&status=scheduled",
    ]
    cursors = {path: await cursor_of(path) for path in lists}
    for path in lists:
        for giver, cursor in cursors.items():
            answer = await api.client.get(f"{path}&cursor={cursor}")
            if path == giver:
                assert answer.status_code == 200
                assert [len(page) for page in answer.json().values() if type(page) is list] == [2]
            else:
                assert answer.status_code == 400, (path, giver)
                assert [detail["field"] for detail in answer.json()["details"]] == ["cursor"]
    # The default order said aloud, and another period or limit, keep a cursor good.
    query = {"order": "asc", "cursor": cursors[lists[0]], "from": "2020-01-01T00:00:00Z"}
    answer = await api.client.get("/schedule", params=query)
    assert len(answer.json()["schedules"]) == 7


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("cursor=AAAAAAAAAAAAAAAAAAAA", ["cursor"]),
        ("limit=101&order=up", ["limit", "order"]),
        ("status=completed", ["status"]),
        ("status=failed&order=up&x=1", ["order", "x"]),
        ("status=failed&cursor=AAAAAAAAAAAAAAAAAAAA", ["cursor"]),
        ("from=2026-11-02T00:00:00Z&to=2026-11-01T00:00:00Z", ["from"]),
        ("cursor=!!", ["cursor"]),
        ("cursor=", ["cursor"]),
    ],
)
async def test_a_bad_query_is_a_400_that_names_all(api: Api, query: str, fields: list[str]) -> None:
    answer = await api.client.get(f"/schedule?{query}")
    assert bad_fields(answer) == fields


async def test_what_failed_is_listed_with_its_outcome_and_its_secrets_masked(api: Api) -> None:
    [schedule_id] = await fail(api, targetHeaders={"Authorization": "Bearer x", "X-Order": "1"})
    [listed] = await api.listed(status="failed")
    read = await api.read(schedule_id)
    assert listed == read
    assert (read["status"], read["statusCode"]) == ("failed", 503)
    assert read["errorMessage"] == "Service Unavailable"
    assert read["targetHeaders"]["Authorization"] == "\u2022" * 8
    assert (read["replayOf"], read["replayedAs"]) == (None, None)


async def test_the_newest_come_first_unless_asked_otherwise(api: Api) -> None:
    made = await fail(api, 5)
    assert await failed(api, limit=2) == made[::-1]
    assert await failed(api, limit=2, order="asc") == made


async def test_a_url_and_a_period_select(api: Api) -> None:
    await fail(api, 2)
    other = await fail(api, 2, targetUrl=URL + "?b=%20")
    assert sorted(await failed(api, targetUrl=URL + "?b=%20")) == other
    ended = (await api.listed(status="failed", targetUrl=URL))[0]["executedAt"]
    assert other[0] not in await failed(api, to=ended)
    assert await failed(api, **{"from": "2100-01-01T00:00:00Z"}) == []


async def test_what_waits_is_selected_by_its_url_too(api: Api) -> None:
    await api.create_id()
    other = await api.create_id(targetUrl=URL + "?other")
    for query in ({}, {"status": "scheduled"}):
        found = await api.listed(targetUrl=URL + "?other", **query)
        assert [each["scheduleId"] for each in found] == [other]
    assert await api.listed(targetUrl="https://example.com") == []
