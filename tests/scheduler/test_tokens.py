"""Tokens: the end of a lease names it. Who lost a reply knows several, of which one is right."""

from __future__ import annotations

import asyncio
from unittest.mock import patch

import pytest

from scheduler.errors import OutcomeUnknown, StoreUnavailable
from scheduler.models import Invocation, Status
from scheduler.store.lifecycle.end_rows import Ack
from scheduler.store.verdict import Verdict
from tests.scheduler.clocks import FakeClock
from tests.scheduler.losses import COMMAND, REPLY, losing
from tests.scheduler.scene import (
    COMPLETED,
    CREDITS,
    FAILED,
    LEASE_MS,
    Holdings,
    Scene,
    ids_of,
    lease_end_ms,
)

pytestmark = pytest.mark.sound
SHORT_MS = 5


@pytest.fixture
def calls(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The scripts that the scene's store runs, by name."""
    seen: list[str] = []
    run = scene.store.server.run

    async def noted(script: object, *arguments: object) -> object:
        seen.append(script.path)
        return await run(script, *arguments)

    monkeypatch.setattr(scene.store.server, "run", noted)
    return seen


async def extend(
    scene: Scene, invocations: list[Invocation], lease_ms: int = LEASE_MS
) -> list[str]:
    """The ids of the lost leases."""
    await scene.clock.pass_ms(2)  # no two leases end at one moment
    return ids_of(await scene.extend(lease_ms, invocations))


async def unanswered(scene: Scene, invocations: list[Invocation], *losses: str) -> None:
    for lost in losses:
        with losing(scene.store, lost), pytest.raises(OutcomeUnknown):
            await extend(scene, invocations)


LOSSES = [[REPLY], [COMMAND], [COMMAND, REPLY], [REPLY, REPLY, COMMAND]]


@pytest.mark.time_passes
@pytest.mark.parametrize("losses", LOSSES, ids="-".join)
async def test_an_ack_is_taken_whichever_extension_was_lost(
    scene: Scene, losses: list[str]
) -> None:
    invocation = await scene.held()
    await unanswered(scene, [invocation], *losses)
    assert len(invocation.token.split(":")) == 1 + len(losses)
    assert await scene.ack([invocation]) == [1]
    assert await scene.status(invocation.schedule_id) == Status.COMPLETED


@pytest.mark.time_passes
@pytest.mark.parametrize("losses", LOSSES, ids="-".join)
async def test_after_a_lost_extension_it_can_be_extended_again_or_given_back(
    scene: Scene, losses: list[str]
) -> None:
    """Another extension leaves one token, and a release none."""
    due_ms = await scene.clock.now_ms() - 1000
    schedule_id = await scene.create_at(due_ms)
    invocation = await scene.claim_one(lease_ms=60_000)
    await unanswered(scene, [invocation], *losses)
    assert await extend(scene, [invocation]) == []
    assert await scene.visible_at_ms(schedule_id) == lease_end_ms(invocation)
    await unanswered(scene, [invocation], *losses)
    await scene.release([invocation])
    assert await scene.visible_at_ms(schedule_id) == due_ms
    assert await scene.ack([invocation]) == [Verdict.HELD]
    assert (await scene.claim_one()).attempt == 1


@pytest.mark.time_passes
async def test_none_of_several_tokens_holds_what_was_taken_over(scene: Scene) -> None:
    first = await scene.held(lease_ms=SHORT_MS)
    schedule_id = first.schedule_id
    with losing(scene.store, REPLY), pytest.raises(OutcomeUnknown):
        await extend(scene, [first], SHORT_MS)
    await scene.clock.pass_ms(SHORT_MS + 2)
    second = await scene.claim_one()
    assert await extend(scene, [first]) == [schedule_id]
    assert await scene.ack([first]) == [Verdict.HELD]
    await scene.release([first])
    assert await scene.visible_at_ms(schedule_id) == lease_end_ms(second)
    assert await scene.ack([second]) == [1]


@pytest.mark.time_passes
async def test_a_stale_ack_does_not_keep_the_others_from_being_recorded(
    scene: Scene, calls: list[str]
) -> None:
    """An account's are recorded together or not at all: without the stale one, in a second call.
    What another account has in the first call is recorded by that."""
    [other] = await scene.neighbours(1)
    stale = await scene.create(-5000)
    [mine] = await scene.claim(lease_ms=SHORT_MS)
    await scene.clock.pass_ms(SHORT_MS + 1)
    [theirs] = await scene.claim()
    made = [await scene.create(-1000 + n) for n in range(3)]
    beside = await scene.create(account_id=other)
    batch = [mine, *await scene.claim()]
    assert sorted(ids_of(batch)) == sorted([stale, *made, beside])
    calls.clear()
    codes = dict(zip(ids_of(batch), await scene.ack(batch), strict=True))
    assert codes == {stale: Verdict.HELD, **dict.fromkeys(made, 1), beside: 1}
    assert calls.count("lifecycle/end") == 2
    assert await scene.status(stale) == Status.SCHEDULED
    assert len(await scene.redis.xrange(scene.base + "log")) == 1
    assert await scene.holdings() == Holdings(
        CREDITS - 4, 4, 1, 1, {"completed": 3, "scheduled": 1}
    )
    assert await scene.ack([theirs]) == [1]
    assert await scene.ack(batch) == [0] * 5


@pytest.mark.time_passes
async def test_outcomes_of_which_none_is_held_write_nothing(scene: Scene, calls: list[str]) -> None:
    await scene.create(-2000)
    ended = await scene.claim_one()
    assert await scene.ack([ended]) == [1]
    lost = await scene.lapsed()
    await scene.claim_one()
    before = await scene.holdings()
    calls.clear()
    assert await scene.ack([ended, lost], FAILED) == [Verdict.ENDED, Verdict.HELD]
    assert calls == ["lifecycle/end"]
    assert await scene.holdings() == before


@pytest.mark.time_passes
async def test_who_claimed_the_same_again_acks_both_in_one_call(scene: Scene) -> None:
    """Its own first lease had ended, and it claimed the schedule once more."""
    first = await scene.lapsed()
    second = await scene.claim_one()
    acks = [Ack(first, FAILED, 0), Ack(second, COMPLETED, 0)]
    assert await scene.store.ends.ack(scene.shard, acks) == [Verdict.HELD, Verdict.DONE]
    assert (await scene.holdings()).log == {"completed": 1}


@pytest.mark.time_passes
async def test_an_extension_by_a_clock_that_is_off_is_done_by_the_right_one(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    invocation = await scene.held()
    claimed_at_ms = lease_end_ms(invocation) - LEASE_MS
    await scene.store.tick()
    clock, calls = scene.store.clock, 0
    now_us = clock.now_us

    def an_hour_behind_at_first() -> int:
        nonlocal calls
        calls += 1
        return now_us() - 3_600_000_000 * (calls == 1)

    monkeypatch.setattr(clock, "now_us", an_hour_behind_at_first)
    assert await extend(scene, [invocation], 60_000) == []
    assert calls == 2
    assert await scene.visible_at_ms(invocation.schedule_id) == lease_end_ms(invocation)
    assert claimed_at_ms <= lease_end_ms(invocation) - 60_000 <= await scene.clock.now_ms() + 1
    assert await scene.ack([invocation]) == [1]


@pytest.mark.parametrize("off_us", [-31_000_000, 31_000_000])
async def test_a_lease_never_ends_at_a_wrong_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, off_us: int
) -> None:
    invocation = await scene.held(lease_ms=60_000)
    await scene.store.tick()
    before, clock = lease_end_ms(invocation), scene.store.clock
    now_us = clock.now_us
    with monkeypatch.context() as wrong:
        wrong.setattr(clock, "now_us", lambda: now_us() + off_us)
        with pytest.raises(StoreUnavailable, match="clock"):
            await extend(scene, [invocation], 60_000)
    assert await scene.visible_at_ms(invocation.schedule_id) == before == lease_end_ms(invocation)
    assert await extend(scene, [invocation]) == []


async def test_no_extension_of_nothing_is_sent(scene: Scene, calls: list[str]) -> None:
    assert await scene.extend(LEASE_MS, []) == []
    assert await scene.store.ends.ack(scene.shard, []) == []
    assert calls == []


async def test_no_token_names_a_moment_that_a_waiting_schedule_stands_at(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    """Schedules wait at whole milliseconds, and leases end between them. Else an old token could
    hold a schedule that was given back and then moved to the very end of its former lease."""
    scene, fake_clock.more_us = fake_scene, 0
    invocation = await scene.held()
    assert int(invocation.token) % 1000 != 0
    assert await scene.extend(LEASE_MS, [invocation]) == []
    assert int(invocation.token) % 1000 != 0
    assert await scene.visible_at_ms(invocation.schedule_id) == lease_end_ms(invocation)
    await scene.release([invocation])
    await scene.store.schedules.change(
        scene.account_id,
        invocation.schedule_id,
        lambda request: type(request)(int(invocation.token) // 1000, "GET", request.url),
    )
    assert await scene.ack([invocation]) == [Verdict.HELD]
    assert await scene.status(invocation.schedule_id) == Status.SCHEDULED


@pytest.mark.parametrize("ends", [True, False], ids=["ended", "given back"])
async def test_what_happens_while_a_lease_is_being_prolonged_counts(
    valkey_scene: Scene, ends: bool
) -> None:
    """The extension is carried out first, and its reply is not here yet when the next is sent."""
    scene = valkey_scene
    invocation = await scene.held()
    extension = asyncio.create_task(scene.extend(LEASE_MS, [invocation]))
    await asyncio.sleep(0)
    if ends:
        assert await scene.ack([invocation]) == [1]
        assert await extension == []
    else:
        await scene.release([invocation])
        await extension
        assert ids_of(await scene.claim()) == [invocation.schedule_id]


async def test_a_lease_that_is_prolonged_twice_at_a_time_stays_ours(valkey_scene: Scene) -> None:
    scene, claims = valkey_scene, valkey_scene.store.claims
    schedule_id = await scene.create()
    invocation = await scene.claim_one()
    lost = await asyncio.gather(
        *(claims.extend(scene.shard, LEASE_MS + n, [invocation]) for n in range(3))
    )
    assert lost == [[], [], []]
    assert await scene.visible_at_ms(schedule_id) == lease_end_ms(invocation)
    assert await scene.ack([invocation]) == [1]


async def test_an_extension_that_certainly_was_not_made_leaves_the_token(scene: Scene) -> None:
    invocation = await scene.held()
    before = invocation.token

    async def away(*_: object) -> object:
        raise StoreUnavailable("away")

    with patch.object(scene.store.server, "run", away), pytest.raises(StoreUnavailable):
        await scene.extend(LEASE_MS, [invocation])
    assert invocation.token == before
