"""POST /schedule/cancel."""

from __future__ import annotations

from typing import Any

from scheduler.models import Request
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.store.lifecycle.end.end_rows import Ack
from tests.api.conftest import CREDITS, URL, YEAR, Api, client_of, past
from tests.api.errors import error_of
from tests.api.letters import BROKEN, UNKNOWN, fail, failed
from tests.support.apps import app_of
from tests.support.servers import DroppingProxy, script


async def cancel(api: Api, body: Any) -> Any:
    answer = await api.client.post("/schedule/cancel", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_each_is_answered_in_order_and_refunded_once(api: Api) -> None:
    [ended] = await fail(api)
    held = await api.create_id(triggerAt=past())
    await api.claim()
    first, second, cancelled = [await api.create_id() for _ in range(3)]
    await api.client.delete(f"/schedule/{cancelled}")
    asked = [first, UNKNOWN, ended, held, cancelled, second, "nonsense", first]
    answer = await cancel(api, {"ids": asked})
    assert answer == {
        "schedules": [
            {"scheduleId": first, "status": "cancelled"},
            _refused(UNKNOWN, 404, "There is no such schedule", "unknown_schedule", None),
            _refused(ended, 409, "The schedule is failed already", "already_ended", "failed"),
            _refused(held, 409, "Execution has started", "already_started", "scheduled"),
            {"scheduleId": cancelled, "status": "cancelled"},
            {"scheduleId": second, "status": "cancelled"},
            _refused("nonsense", 404, "There is no such schedule", "unknown_schedule", None),
            {"scheduleId": first, "status": "cancelled"},
        ],
        "creditsRemaining": CREDITS - 2,
        "nextCursor": None,
        "occurrencesLeft": 0,
    }
    await api.holds(credits=CREDITS - 2, waiting={held})


def _refused(
    schedule_id: str, code: int, error: str, reason: str, status: str | None
) -> dict[str, Any]:
    told = {"code": code, "error": error, "reason": reason, "details": []}
    return {**told, "scheduleId": schedule_id, "status": status}


async def test_a_filter_is_over_what_waits_and_goes_on_at_its_cursor(api: Api) -> None:
    days = [f"{YEAR}-01-0{day}T00:00:00Z" for day in range(1, 6)]
    made = [await api.create_id(triggerAt=day) for day in days]
    other = await api.create_id(triggerAt=days[1], targetUrl=URL + "?other")
    body: dict[str, Any] = {"status": "scheduled", "targetUrl": URL, "from": days[1], "to": days[4]}
    seen: list[str] = []
    while True:
        answer = await cancel(api, {**body, "limit": 2})
        seen += [each["scheduleId"] for each in answer["schedules"]]
        if answer["nextCursor"] is None:
            break
        body["cursor"] = answer["nextCursor"]
    assert seen == made[1:4]
    await api.holds(credits=CREDITS - 3, waiting={made[0], made[4], other})


async def test_one_between_two_attempts_is_stopped_and_not_refunded(api: Api) -> None:
    attempted = await api.store.schedules.create(api.account_id, Request(1, "GET", URL))
    waiting = await api.create_id()
    [held] = await api.claim()
    now_ms = api.store.clock.now_ms()
    again = Ack(held, BROKEN, 0, now_ms + 60_000)
    assert await api.store.ends.ack(held.shard, [again]) == [1]
    answer = await cancel(api, {"ids": [attempted, waiting]})
    assert answer["schedules"] == [
        {"scheduleId": attempted, "status": "failed"},
        {"scheduleId": waiting, "status": "cancelled"},
    ]
    assert await failed(api) == [attempted]
    await api.holds(credits=CREDITS - 1, waiting=set())


async def test_an_unknown_outcome_needs_no_key(api: Api, proxy: DroppingProxy) -> None:
    made = await api.create_id()
    settings = Settings(redis_url=proxy.url)
    store = await Store.open(settings)
    async with client_of(app_of(settings, store), api.key) as client:
        for each in (UNKNOWN, await api.create_id()):  # then every script is known
            await client.post("/schedule/cancel", json={"ids": [each]})
        proxy.drop_reply(script("lifecycle/end/end"), times=99)
        answer = await client.post("/schedule/cancel", json={"ids": [made]})
        assert answer.status_code == 503
        assert error_of(answer) == {
            "error": "Outcome unknown; repeat the request",
            "reason": "outcome_unknown",
        }
    proxy.forget_rules()
    await store.aclose()
    [item] = (await cancel(api, {"ids": [made]}))["schedules"]
    assert item["status"] == "cancelled"
    await api.holds(credits=CREDITS, waiting=set())
