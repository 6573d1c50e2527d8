"""The rate of a lane, claimed at random moments with random settings, beside a model of it."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from scheduler.lane_settings import LaneSettings
from scheduler.models import Invocation
from scheduler.store import keys
from tests.store.clocks import FakeClock
from tests.store.scene import LEASE_MS, Scene


class Start(NamedTuple):
    """When a schedule may start at the earliest and at the latest (us)."""

    first_us: int
    last_us: int


class Rate:
    """GCRA as textbooks have it: `paid_us` is when all that was started is paid for."""

    def __init__(self, interval_us: float, burst: int) -> None:
        self.interval_us, self.burst = interval_us, burst
        self.paid_us = 0.0

    def starts(self, due_us: Sequence[int], now_us: int, by_us: float, most: int) -> list[float]:
        """The slots of those of them, in order, that may start by then."""
        found: list[float] = []
        for due in due_us[:most]:
            slot = max(due, self.paid_us - (self.burst - 1) * self.interval_us)
            if slot > by_us:
                break
            self.paid_us = max(slot, now_us, self.paid_us) + self.interval_us
            found.append(slot)
        return found


def fullest(starts: Sequence[float], window_us: int) -> int:
    """The most of them within any window of that length."""
    most, within = 0, deque[float]()
    for start in sorted(starts):
        within.append(start)
        while within[0] <= start - window_us:
            within.popleft()
        most = max(most, len(within))
    return most


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_any_window_has_at_most_its_rate_and_burst(
    fake_scene: Scene, fake_clock: FakeClock, seed: int
) -> None:
    chance, scene = random.Random(seed), fake_scene
    rate = chance.choice([1, 2, 3, 10, 40])
    burst, per_ms = chance.randint(1, rate), chance.choice([1000, 2000, 10_000])
    limits = LaneSettings(rate=rate, per_ms=per_ms, burst=burst)
    await scene.store.lanes.put(scene.account_id, "a", limits)
    key = scene.base + keys.LANE + "a"
    interval_us, slack_us = map(float, await scene.redis.hmget(key, "interval", "slack"))
    model, waiting, starts = Rate(interval_us, burst), list[int](), list[Start]()
    set_us = fake_clock.ms * 1000  # from then on lateness counts
    await scene.store.accounts.grant(scene.account_id, 10_000)
    for _ in range(60):
        for _ in range(chance.choice([0, 0, 1, 5, 30])):
            due_ms = fake_clock.ms + chance.randint(-per_ms, per_ms)
            await scene.create_at(due_ms, lane="a")
            waiting.append(max(due_ms * 1000, set_us))
        fake_clock.ms += chance.choice([0, 1, 7, 50, per_ms // rate, per_ms])
        fake_clock.more_us += chance.randint(1, 900)
        ahead_ms, most = chance.choice([0, 50, -20]), chance.choice([1, 4, 128])
        claimed = await scene.claim(ahead_ms=ahead_ms, most=most)
        now_us = fake_clock.us
        if ahead_ms < 0 and not claimed:
            continue  # behind the clock, the lane's turn may not have come
        waiting.sort()
        expected = model.starts(waiting, now_us, now_us + ahead_ms * 1000, most)
        del waiting[: len(claimed)]
        found = [each.slot_us or 0 for each in claimed]
        assert found == pytest.approx(expected, abs=2), (rate, burst, per_ms, ahead_ms)
        starts += [start_of(each, now_us, slack_us) for each in claimed]
        if claimed:
            assert set(await scene.ack(claimed)) == {1}
    assert len(starts) > 20 or rate < 3
    window_us = per_ms * 1000
    for moments in (
        [each.first_us for each in starts],
        [each.last_us for each in starts],
        *([chance.uniform(*each) for each in starts] for _ in range(20)),
    ):
        assert fullest(moments, window_us) <= rate + burst


def start_of(invocation: Invocation, now_us: int, slack_us: float) -> Start:
    """The last moment is the whole slack after the slot, or after the claim."""
    first_us = max(invocation.slot_us, now_us)
    assert invocation.slot_us + invocation.slack_us <= first_us + slack_us
    assert int(invocation.token) - now_us - LEASE_MS * 1000 in (0, 1)
    return Start(first_us, first_us + int(slack_us))
