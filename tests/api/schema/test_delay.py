"""`delay`: due so long after the create, by the store's clock."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from api.schema.rules import NO_DURATION
from scheduler.durations import DAY_MS
from scheduler.times import format_iso8601, parse_iso8601
from tests.api.conftest import CREDITS, URL, Api, payload


async def ahead_ms(api: Api, schedule_id: str) -> int:
    """How long after its creation a schedule is due."""
    found = await api.read(schedule_id)
    assert "delay" not in found
    return parse_iso8601(found["triggerAt"]) - parse_iso8601(found["createdAt"])


def delayed(delay: Any, **fields: Any) -> dict[str, Any]:
    return {"targetUrl": URL, "delay": delay, **fields}


@pytest.mark.parametrize(
    ("delay", "ms"),
    [
        *(("250ms", 250), ("1h30m", 5_400_000), ("0s", 0), ("1830d", 1830 * DAY_MS)),
        *((0, 0), (90, 90_000), (90.0, 90_000)),
    ],
)
async def test_it_is_due_so_long_after_its_creation(api: Api, delay: Any, ms: int) -> None:
    answer = await api.client.post("/schedule", json=delayed(delay, triggerAt=None))
    assert answer.status_code == 201
    schedule_id = answer.json()["scheduleId"]
    assert await ahead_ms(api, schedule_id) == ms
    due = format_iso8601((await api.stored(schedule_id)).trigger_at_ms)
    assert answer.json()["triggerAt"] == due
    assert answer.json()["message"] == f"Scheduled for {due}"


@pytest.mark.parametrize("delay", ["90s", 90.0, -0.0])
async def test_a_repeat_counts_from_the_first_create(api: Api, delay: Any) -> None:
    for path in ("/schedule", "/schedule/batch"):
        body = delayed(delay) if path == "/schedule" else {"schedules": [delayed(delay)]}
        call = partial(api.client.post, path, json=body, headers={"Idempotency-Key": path})
        first, repeat = await call(), await call()
        assert (repeat.status_code, repeat.json()) == (first.status_code, first.json())


@pytest.mark.parametrize(
    ("delay", "says"),
    [
        *((text, NO_DURATION) for text in ("10", "-1s", "1" * 5000 + "s", -1, 1.5, True, [], {})),
        *((each, "It may be at most 1,830 days.") for each in ("1830d1ms", 1830 * 86_400 + 1)),
    ],
)
async def test_what_is_no_delay_changes_nothing(api: Api, delay: Any, says: str) -> None:
    answer = await api.client.post("/schedule", json=delayed(delay))
    assert answer.status_code == 400
    assert answer.json()["details"] == [{"field": "delay", "message": says}]
    await api.holds(credits=CREDITS, waiting=set())


async def test_both_and_neither_are_a_400_that_names_both(api: Api) -> None:
    for body, says in (
        ({"targetUrl": URL}, "One of triggerAt and delay is required."),
        (payload(delay="1s"), "Only one of triggerAt and delay may be given."),
    ):
        answer = await api.client.post("/schedule", json=body)
        assert answer.status_code == 400
        names = ("triggerAt", "delay")
        assert answer.json()["details"] == [{"field": name, "message": says} for name in names]


async def test_a_change_counts_from_the_change(api: Api) -> None:
    schedule_id = await api.create_id()
    before_ms = api.store.clock.now_ms()
    answer = await api.client.patch(f"/schedule/{schedule_id}", json={"delay": "1h"})
    assert answer.status_code == 200
    due_ms = parse_iso8601(answer.json()["triggerAt"])
    assert before_ms + 3_600_000 <= due_ms <= api.store.clock.now_ms() + 3_600_000
    both = {"delay": "1h", "triggerAt": format_iso8601(due_ms)}
    refused = await api.client.patch(f"/schedule/{schedule_id}", json=both)
    assert [each["field"] for each in refused.json()["details"]] == ["triggerAt", "delay"]
