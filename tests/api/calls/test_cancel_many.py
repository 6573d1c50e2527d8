"""POST /schedule/cancel."""

from __future__ import annotations

from typing import Any

from scheduler.store.lifecycle.end.end_rows import Ack
from tests.api.conftest import CREDITS, URL, YEAR, Api, past
from tests.api.letters import BROKEN, UNKNOWN, fail


async def cancel(api: Api, body: Any) -> Any:
    answer = await api.client.post("/schedule/cancel", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_each_is_answered_in_order_and_refunded_once(api: Api) -> None:
    """One between two attempts is stopped, and not refunded."""
    [ended] = await fail(api)
    attempted = await api.create_id(triggerAt=past())
    [attempt] = await api.claim()
    again_ms = api.store.clock.now_ms() + 60_000
    assert await api.store.ends.ack(attempt.shard, [Ack(attempt, BROKEN, 0, again_ms)]) == [1]
    held = await api.create_id(triggerAt=past())
    await api.claim()
    first, second, cancelled = [await api.create_id() for _ in range(3)]
    await api.client.delete(f"/schedule/{cancelled}")
    asked = [first, UNKNOWN, ended, held, cancelled, attempted, second, "nonsense", first]
    answer = await cancel(api, {"ids": asked})
    assert answer == {
        "schedules": [
            {"scheduleId": first, "status": "cancelled"},
            _refused(UNKNOWN, 404, "There is no such schedule", "unknown_schedule", None),
            _refused(ended, 409, "The schedule is failed already", "already_ended", "failed"),
            _refused(held, 409, "Execution has started", "already_started", "scheduled"),
            {"scheduleId": cancelled, "status": "cancelled"},
            {"scheduleId": attempted, "status": "failed"},
            {"scheduleId": second, "status": "cancelled"},
            _refused("nonsense", 404, "There is no such schedule", "unknown_schedule", None),
            {"scheduleId": first, "status": "cancelled"},
        ],
        "creditsRemaining": CREDITS - 3,
        "nextCursor": None,
        "occurrencesLeft": 0,
    }
    await api.holds(credits=CREDITS - 3, waiting={held})


def _refused(
    schedule_id: str, code: int, error: str, reason: str, status: str | None
) -> dict[str, Any]:
    told = {"code": code, "error": error, "reason": reason, "details": []}
    return {**told, "scheduleId": schedule_id, "status": status}


async def test_a_filter_is_over_what_waits_and_goes_on_at_its_cursor(api: Api) -> None:
    days = [f"{YEAR}-01-0{day}T00:00:00Z" for day in range(1, 6)]
    made = [await api.create_id(triggerAt=day) for day in days]
    other = await api.create_id(triggerAt=days[1], targetUrl=URL + "?other")
    body = {"status": "scheduled", "targetUrl": URL, "from": days[1], "to": days[4], "limit": 2}
    first = await cancel(api, body)
    last = await cancel(api, body | {"cursor": first["nextCursor"]})
    assert [each["scheduleId"] for each in first["schedules"] + last["schedules"]] == made[1:4]
    assert last["nextCursor"] is None
    await api.holds(credits=CREDITS - 3, waiting={made[0], made[4], other})
