"""What the overview and the credits page read."""

from __future__ import annotations

import math
from bisect import bisect_left

import pytest

from scheduler.models import Outcome, Status
from scheduler.rollups import (
    LATENESS_BOUNDS_MS,
    RESPONSE_BOUNDS_MS,
    lateness_quantile_ms,
    response_quantile_ms,
)
from scheduler.store import keys
from scheduler.store.log.overview import ChartRange
from tests.store.lanes.lanes import Lane
from tests.store.scene import (
    LAST_DAY,
    LAST_HOUR,
    LAST_MONTH,
    Scene,
    until_now,
)


async def test_what_waits_is_forecast_where_it_is_due(fake_scene: Scene) -> None:
    overview, account_id = fake_scene.store.overview, fake_scene.account_id
    for due_in_ms in (-5000, 30_000, 90_000, 170 * 60_000, 24 * 3_600_000):
        await fake_scene.create(due_in_ms)
    pulse = await overview.pulse(account_id)
    assert (pulse.waiting, pulse.due_soon, pulse.credits) == (5, 2, 95)
    minute_ms = pulse.now_ms // 60_000 * 60_000
    minutes = await overview.forecast(account_id, ChartRange(minute_ms - 120_000, 60_000, 180))
    assert (len(minutes), sum(minutes), minutes[:2]) == (180, 4, [0, 0])
    due = [2 + (pulse.now_ms + ms) // 60_000 - minute_ms // 60_000 for ms in (30_000, 90_000)]
    assert minutes[2] >= 1, "what is overdue is due now"
    assert all(minutes[minute] >= 1 for minute in due)
    days = ChartRange(minute_ms, 24 * 3_600_000, 3)
    assert sum(await overview.forecast(account_id, days)) == 5
    laned = {f"{ms}": pulse.now_ms + ms for ms in (-9000, 40_000, 90_000)}
    await fake_scene.redis.zadd(fake_scene.base + keys.LANED, laned)
    pulse = await overview.pulse(account_id)
    assert (pulse.waiting, pulse.due_soon) == (8, 4)
    expected = 7  # what a lane holds back comes at no known minute
    assert sum(await overview.forecast(account_id, days)) == expected


@pytest.mark.parametrize(
    ("resumed_s", "lane", "overdue", "since_s", "lateness"),
    [
        (None, Lane(), 2, 9, {5000: 1, 60_000: 1}),
        (-20, Lane(), 2, 9, {5000: 1, 60_000: 1}),
        (-6, Lane(), 2, 6, {5000: 1, 60_000: 1}),
        (-3, Lane(), 2, 3, {5000: 2}),
        (-0.5, Lane(), 0, None, {}),
        (None, Lane(3 * (-9.0,), head_s=-20), 3, 20, {5000: 1, 60_000: 2}),
        (None, Lane(3 * (-9.0,), head_s=-0.5), 2, 9, {5000: 1, 60_000: 1}),
        (None, Lane(3 * (-9.0,), head_s=-math.inf), 2, 9, {5000: 1, 60_000: 1}),
        (-0.5, Lane(3 * (-9.0,), head_s=-4), 1, 4, {5000: 1}),
    ],
)
async def test_what_is_held_back_by_a_limit_or_a_pause_is_not_overdue(
    fake_scene: Scene,
    resumed_s: float | None,
    lane: Lane,
    overdue: int,
    since_s: float | None,
    lateness: dict[int, int],
) -> None:
    for due_in_ms in (-9000, -4000):
        await fake_scene.create(due_in_ms)
    now_ms = await fake_scene.clock.now_ms()
    if resumed_s is not None:
        at = {keys.parts(fake_scene.account_id).local: now_ms + 1000 * resumed_s}
        await fake_scene.redis.zadd(keys.shard(fake_scene.shard) + keys.RESUMED, at)
    await lane.make(fake_scene, "lane")
    pulse = await fake_scene.store.overview.pulse(fake_scene.account_id)
    found = dict(zip(LATENESS_BOUNDS_MS, pulse.overdue_lateness, strict=False))
    assert {bound: count for bound, count in found.items() if count} == lateness
    ago_ms = None if pulse.overdue_since_ms is None else now_ms - pulse.overdue_since_ms
    expected_ms = None if since_s is None else pytest.approx(1000 * since_s, abs=2)
    assert (pulse.overdue, ago_ms) == (overdue, expected_ms)
    row = await fake_scene.store.roster.of(fake_scene.account_id)
    since_ms = None if row.overdue_since_ms is None else now_ms - row.overdue_since_ms
    assert (row.overdue, since_ms) == (overdue, expected_ms), "as operators see it"


@pytest.mark.parametrize(
    ("stop", "overdue", "held", "due_soon"),
    [
        ({}, 2, 2, 5),
        ({"paused": 1}, 0, 4, 0),
        ({"paused": 1, "paused_until": 30_000}, 0, 4, 5),
        ({"paused": 1, "paused_until": 90_000}, 0, 4, 0),
        ({"paused": 1, "paused_until": -1}, 2, 2, 5),
        ({"suspended": 1}, 0, 4, 0),
        ({"hold": 1}, 2, 2, 0),
    ],
    ids=["none", "paused", "half a minute", "longer", "over", "suspended", "hold"],
)
async def test_what_is_held_is_counted_and_cannot_start_soon(
    fake_scene: Scene, stop: dict[str, int], overdue: int, held: int, due_soon: int
) -> None:
    """One is due outside of lanes and three in one, of which the first may have started."""
    await fake_scene.create(-9000)
    await Lane((-9.0, -9.0, -9.0), head_s=-4).make(fake_scene, "lane")
    now_ms = await fake_scene.clock.now_ms()
    laned = {"0": now_ms - 9000, "1": now_ms - 9000, "2": now_ms - 9000, "3": now_ms + 9000}
    await fake_scene.redis.zadd(fake_scene.base + keys.LANED, laned)
    fields = stop | {n: now_ms + at for n, at in stop.items() if n == "paused_until"}
    if fields.pop("hold", 0):
        await fake_scene.store.hold.begin()
    elif fields:
        await fake_scene.redis.hset(fake_scene.base + keys.ACCOUNT, mapping=fields)
    pulse = await fake_scene.store.overview.pulse(fake_scene.account_id)
    assert (pulse.overdue, pulse.held, pulse.due_soon) == (overdue, held, due_soon)
    assert (pulse.overdue_since_ms is None) == (not overdue) == (not sum(pulse.overdue_lateness))
    assert pulse.soon_in_lanes == (4 if due_soon else 0)


async def test_executions_are_in_every_series(scene: Scene) -> None:
    """Each point has its own lateness and response times."""
    for status, late_ms, took_ms in (
        (Status.COMPLETED, 0, 12),
        (Status.COMPLETED, 0, 12),
        (Status.COMPLETED, 40, 12),
        (Status.FAILED, None, 30_000),
    ):
        await scene.ack([await scene.held()], Outcome(status, 200, took_ms, ""), late_ms)
    for period in (LAST_HOUR, LAST_DAY, LAST_MONTH):
        series = await until_now(scene.store, scene.account_id, period)
        assert len(series.points) == period[1]
        assert (series.completed, series.failed) == (3, 1)
        assert sum(series.lateness) == 3, "what was not sent was not late"
        assert lateness_quantile_ms(series.lateness, 0.5) == 0
        assert lateness_quantile_ms(series.lateness, 0.95) == 50
        steps = {b.at_ms - a.at_ms for a, b in zip(series.points, series.points[1:], strict=False)}
        assert steps == {period[0]}
        point = series.points[-1]
        assert point.at_ms <= scene.store.clock.now_ms()
        if point.completed + point.failed < 4:  # a minute began in between
            continue
        assert series.lateness == point.lateness
        assert 10 < (point.response_ms(0.5) or 0) <= 15
        assert 20_000 < (point.response_ms(0.95) or 0) <= 30_000
        assert series.response == point.response


async def test_what_is_overdue_is_counted_and_how_late_it_is_by_now(fake_scene: Scene) -> None:
    pulse = await fake_scene.store.overview.pulse(fake_scene.account_id)
    assert (pulse.overdue, pulse.overdue_since_ms, sum(pulse.overdue_lateness)) == (0, None, 0)
    await fake_scene.create()
    await fake_scene.clock.pass_ms(70_000)
    await fake_scene.create()
    await fake_scene.clock.pass_ms(3000)
    await fake_scene.create()  # due just now, so not late yet
    pulse = await fake_scene.store.overview.pulse(fake_scene.account_id)
    assert pulse.overdue == 2
    assert pulse.now_ms - (pulse.overdue_since_ms or 0) >= 73_000
    late = dict(zip(LATENESS_BOUNDS_MS, pulse.overdue_lateness, strict=False))
    assert {bound_ms: count for bound_ms, count in late.items() if count} == {5000: 1, 120_000: 1}
    assert len(pulse.overdue_lateness) == len(LATENESS_BOUNDS_MS) + 1


def test_a_response_time_is_told_to_a_quarter() -> None:
    assert response_quantile_ms([0] * 20, 0.5) is None
    for took_ms in (1, 8, 62, 480, 30_000):
        histogram = [0] * (len(RESPONSE_BOUNDS_MS) + 1)
        histogram[bisect_left(RESPONSE_BOUNDS_MS, took_ms)] = 100
        assert abs((response_quantile_ms(histogram, 0.5) or 0) - took_ms) <= max(1, took_ms / 4)
    assert response_quantile_ms([0] * len(RESPONSE_BOUNDS_MS) + [1], 0.5) == 60_000


async def test_the_ledger_tells_what_moved_by_day(fake_scene: Scene) -> None:
    store, account_id = fake_scene.store, fake_scene.account_id
    waiting = await fake_scene.create(3_600_000)
    await fake_scene.create(3_600_000)
    await store.canceller.cancel(account_id, waiting)
    await fake_scene.clock.pass_ms(2 * 86_400_000)
    await store.accounts.grant(account_id, 7)
    await store.tick()
    today, before = await store.accounts.movements(account_id)
    assert today[1:] == (7, 0, 0)
    assert before[1:] == (100, 2, 1)
    assert today.change + before.change == (await store.accounts.get(account_id)).credits
