"""Statistics: the same as counting the log, for any period, to the millisecond."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from scheduler.models import LogEntry, Outcome, Status
from scheduler.rollups import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Usage
from tests.store.scene import COMPLETED, FAILED, Scene

SEED = 20_261_120


def counted(entries: Sequence[LogEntry], from_ms: int, to_ms: int) -> Usage:
    """What the log says of a period."""
    those = [
        entry
        for entry in entries
        if entry.status in (Status.COMPLETED, Status.FAILED)
        and from_ms <= (entry.executed_at_ms or 0) < to_ms
    ]
    return Usage(
        sum(entry.status == Status.COMPLETED for entry in those),
        sum(entry.status == Status.FAILED for entry in those),
        sum(entry.response_time_ms for entry in those),
        from_ms,
        to_ms,
    )


async def executions_over(
    scene: Scene, length_ms: int, count: int, chance: random.Random
) -> list[LogEntry]:
    """Executions (and some cancellations) at random moments, often near borders of a level."""
    await scene.store.accounts.grant(scene.account_id, count * 4)
    start_ms = await scene.clock.now_ms()
    moments = [start_ms + chance.randrange(length_ms) for _ in range(count)]
    for n in range(0, count, 3):
        width = chance.choice([SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS])
        border = -(-moments[n] // width) * width + chance.choice([-1, 0, 1])
        moments[n] = max(start_ms, border)
    for moment in sorted(moments):
        await scene.clock.pass_ms(moment - await scene.clock.now_ms())
        for _ in range(chance.randrange(1, 4)):
            await scene.create()
        cancelled = await scene.create()
        batch = await scene.claim(most=chance.randrange(1, 4))
        outcome = Outcome(
            chance.choice([Status.COMPLETED, Status.FAILED]), 200, chance.randrange(30_000), ""
        )
        await scene.ack(batch, outcome)
        if cancelled not in [each.schedule_id for each in batch] and chance.random() < 0.3:
            await scene.cancel(cancelled)
    await scene.store.tick()
    return [entry for entry in await scene.log() if entry.status != Status.SCHEDULED]


@pytest.mark.slow
async def test_any_period_of_five_days_equals_the_log(fake_scene: Scene) -> None:
    """Long enough that single seconds are gone at its beginning."""
    scene, chance = fake_scene, random.Random(SEED)
    start_ms = await scene.clock.now_ms()
    entries = await executions_over(scene, 5 * DAY_MS, 120, chance)
    end_ms = await scene.clock.now_ms() + 1
    whole = await scene.store.stats.usage(scene.account_id, start_ms, end_ms)
    assert whole == counted(entries, start_ms, end_ms)
    assert whole.executed > 140
    executed = [entry.executed_at_ms or 0 for entry in entries if entry.executed_at_ms]

    def bound() -> int:
        near = chance.choice(executed) + chance.choice([-1, 0, 1, 999, -999])
        return chance.choice([near, chance.randrange(start_ms - DAY_MS, end_ms + DAY_MS)])

    for _ in range(300):
        from_ms, to_ms = sorted((bound(), bound()))
        found = await scene.store.stats.usage(scene.account_id, from_ms, to_ms)
        assert found == counted(entries, from_ms, to_ms)
    await scene.assert_sound()


@pytest.mark.time_passes
async def test_periods_within_seconds_equal_the_log(scene: Scene) -> None:
    start_ms = await scene.clock.now_ms()
    for n in range(40):
        await scene.run(Outcome(Status.FAILED if n % 3 else Status.COMPLETED, 200, n, ""))
        await scene.clock.pass_ms(n % 4 * 5)
    await scene.store.tick()
    entries = await scene.log()
    end_ms = await scene.clock.now_ms() + 1
    chance = random.Random(SEED)
    for _ in range(200):
        bounds = (chance.randrange(start_ms - 5, end_ms + 5) for _ in range(2))
        from_ms, to_ms = sorted(bounds)
        found = await scene.store.stats.usage(scene.account_id, from_ms, to_ms)
        assert found == counted(entries, from_ms, to_ms)
    await scene.assert_sound()


async def test_only_executions_count_and_the_average_is_over_all_of_them(scene: Scene) -> None:
    await scene.create(60_000)
    await scene.cancel(await scene.create(60_000))
    now_ms = await scene.clock.now_ms()
    usage = await scene.store.stats.usage(scene.account_id, 0, now_ms + 1)
    assert usage == Usage(0, 0, 0, 0, now_ms + 1)
    assert (usage.executed, usage.average_response_time_ms) == (0, 0.0)
    await scene.run(COMPLETED)
    await scene.run(FAILED)
    other, now_ms = await scene.account("other"), await scene.clock.now_ms()
    usage = await scene.store.stats.usage(scene.account_id, now_ms - 10_000, now_ms + 1)
    assert (usage.executed, usage.average_response_time_ms) == (2, 21)
    assert (await scene.store.stats.usage(other, 0, now_ms + 1)).executed == 0


@pytest.mark.parametrize("bounds", [(5, 5), (10, 5), (-(10**15), -1), (2**52, 2**53)])
async def test_an_odd_period_has_nothing(scene: Scene, bounds: tuple[int, int]) -> None:
    await scene.run()
    usage = await scene.store.stats.usage(scene.account_id, *bounds)
    assert usage == Usage(0, 0, 0, *bounds)


async def test_statistics_speak_of_what_is_kept_and_no_more(fake_scene: Scene) -> None:
    scene = fake_scene
    await scene.run()
    first_ms = await scene.clock.now_ms()
    await scene.clock.pass_ms(30 * DAY_MS - 1)
    await scene.run()
    await scene.store.tick()
    now_ms = await scene.clock.now_ms()
    assert (await scene.store.stats.usage(scene.account_id, 0, now_ms + 1)).executed == 2
    await scene.clock.pass_ms(MINUTE_MS + 1)
    await scene.store.tick()
    assert (await scene.store.stats.usage(scene.account_id, 0, now_ms + 1)).executed == 1
    assert [entry.executed_at_ms for entry in await scene.log(from_ms=first_ms)] == [now_ms]
    assert await scene.store.check() == []


async def test_a_log_that_was_trimmed_by_age_is_counted_from_its_totals(fake_scene: Scene) -> None:
    scene = fake_scene
    await scene.run()
    await scene.clock.pass_ms(16 * DAY_MS)
    await scene.run()  # an idle log expires as a whole
    await scene.clock.pass_ms(16 * DAY_MS)
    for outcome in (COMPLETED, FAILED):
        await scene.run(outcome)
        await scene.clock.pass_ms(1)
    await scene.redis.delete(*await scene.redis.keys(scene.base + "day:*"))
    await scene.store.tick()
    usage = await scene.store.stats.usage(scene.account_id, 0, await scene.clock.now_ms())
    assert (usage.completed, usage.failed) == (2, 1)


@pytest.mark.parametrize("damaged", [0, 1, 2])
async def test_a_damaged_chunk_moves_nothing_into_a_period_or_out_of_it(
    fake_scene: Scene, damaged: int
) -> None:
    """The first execution is before the period, the last one after it."""
    scene, moments = fake_scene, []
    for _ in range(3):
        await scene.run()
        moments.append(await scene.clock.now_ms())
        await scene.clock.pass_ms(MINUTE_MS)
    await scene.store.tick()
    log = scene.base + "log"
    chunk, fields = (await scene.redis.xrange(log))[damaged]
    others = [each for each in await scene.redis.xrange(log) if each[0] != chunk]
    await scene.redis.delete(log)
    for each in sorted([*others, (chunk, fields | {b"e": b"\x93"})]):
        await scene.redis.xadd(log, each[1], id=each[0])
    bounds = (moments[1] // MINUTE_MS * MINUTE_MS, moments[2] // MINUTE_MS * MINUTE_MS)
    assert (await scene.store.stats.usage(scene.account_id, *bounds)).executed == 1
