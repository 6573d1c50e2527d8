"""Tokens: the end of a lease names it. Who lost a reply knows several, of which one is right."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.errors import OutcomeUnknown, StoreUnavailable
from scheduler.models import Invocation, Status
from scheduler.store.verdict import Verdict
from tests.store.losses import COMMAND, REPLY, losing
from tests.store.scene import (
    CREDITS,
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
    for name in ("run", "run_each"):
        run = getattr(scene.store.server, name)

        async def noted(script: Any, *arguments: object, run: Any = run) -> object:
            seen.append(script.path)
            return await run(script, *arguments)

        monkeypatch.setattr(scene.store.server, name, noted)
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
    assert calls.count("lifecycle/end/end") == 2
    assert await scene.status(stale) == Status.SCHEDULED
    assert len(await scene.redis.xrange(scene.base + "log")) == 1
    assert await scene.holdings() == Holdings(
        CREDITS - 4, 4, 1, 1, {"completed": 3, "scheduled": 1}
    )
    assert await scene.ack([theirs]) == [1]
    assert await scene.ack(batch) == [0] * 5


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


async def test_no_token_names_a_moment_that_a_waiting_schedule_stands_at(fake_scene: Scene) -> None:
    """Schedules wait at whole milliseconds, and leases end between them. Else an old token could
    hold a schedule that was given back and then moved to the very end of its former lease."""
    scene, fake_scene.clock.more_us = fake_scene, 0
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
