"""How full the store was, and when it will be full at that rate."""

from __future__ import annotations

import random

import pytest

from scheduler.rollups import DAY_MS, HOUR_MS
from scheduler.store import keys
from scheduler.store.operators.filling import Sample, full_in_ms
from tests.store.scene import Scene

STEP_MS = HOUR_MS // 2
NOW_MS = 20_000 * DAY_MS
GIB = 1 << 30


def history(used: list[float]) -> list[Sample]:
    """One sample each half hour, the last one half an hour ago."""
    begin_ms = NOW_MS - len(used) * STEP_MS
    return [Sample(begin_ms + i * STEP_MS, round(each)) for i, each in enumerate(used)]


def days_left(used: list[float], now: float) -> float | None:
    found = full_in_ms(history(used), Sample(NOW_MS, round(now)), 100 * GIB)
    return None if found is None else round(found / DAY_MS, 1)


STEADY = [GIB * (10 + i * 10 / 48) for i in range(48)]  # 10 GiB a day, 20 GiB now


@pytest.mark.parametrize(
    ("used", "now", "left"),
    [
        (STEADY, 20 * GIB, 8.0),
        ([*STEADY[:20], 50 * GIB, *STEADY[21:]], 20 * GIB, 8.0),  # a copy for a while
        (STEADY[-5:], 20 * GIB, None),  # too short a time
        (STEADY, 100 * GIB, 0.0),
        (STEADY[::-1], 10 * GIB, None),  # it falls
        ([GIB] * 48, GIB, None),  # flat
        ([GIB * (1 + i / 1e6) for i in range(48)], GIB * 1.000048, None),  # lasts for years
        ([GIB] * 250 + STEADY, 20 * GIB, 8.0),  # it has begun to grow this day
        ([], GIB, None),
    ],
)
def test_the_time_left_is_of_the_last_day_or_week(
    used: list[float], now: float, left: float | None
) -> None:
    assert days_left(used, now) == left


def test_noise_and_a_daily_rhythm_are_no_growth() -> None:
    dice = random.Random(1)
    for _ in range(20):
        noise = [GIB * (50 + dice.gauss(0, 2)) for _ in range(336)]
        assert days_left(noise, 50 * GIB) is None
    rhythm = [GIB * (50 + 10 * abs(i % 48 - 24) / 24) for i in range(336)]
    assert days_left(rhythm, 60 * GIB) is None


async def test_one_sample_is_kept_for_each_half_hour_of_a_week(scene: Scene) -> None:
    store, client = scene.store, scene.redis
    await store.tick()
    step = store.clock.now_ms() // STEP_MS
    for old in (step - 337, step + 5):  # out of date, and from before the clock was set back
        await client.hset(keys.FILLING, old, b'{"":1}')
    await client.hset(keys.FILLING, step - 336, b'{"":2}')
    for _ in range(2):
        await store.filling.note()
    found = (await store.filling.history())[""]
    assert [each.at_ms // STEP_MS for each in found] == [step - 336, step]
    assert found[0].used_bytes == 2
    assert found[1].used_bytes > 500_000
    await client.hdel(keys.FILLING, step)
    await store.filling.note()
    assert len((await store.filling.history())[""]) == 1, "a process asks once a half hour"
