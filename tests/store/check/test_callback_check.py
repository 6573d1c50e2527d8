"""`Store.check` of callbacks: each index, broken by hand, gives a sentence; those that are pending,
held, put off, ended or full give none."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import pytest

from scheduler.callbacks import Callback, CallbackOn
from scheduler.models import Outcome
from scheduler.store import keys
from tests.store.scene import COMPLETED, FAILED, OWN, Scene

FAR_MS = 3_600_000
pytestmark = pytest.mark.usefixtures("checks_at_once")
Breakage = Callable[[Scene, str], Awaitable[object]]


async def answer(scene: Scene, outcome: Outcome, wait_ms: int | None = None) -> None:
    """Of the callback that is due."""
    assert await scene.answer(await scene.claim_one(), outcome, wait_ms) == 1


async def pending(scene: Scene) -> None: ...


async def held(scene: Scene) -> None:
    await scene.claim_one()


async def put_off(scene: Scene) -> None:
    await answer(scene, FAILED, FAR_MS)


async def delivered(scene: Scene) -> None:
    await answer(scene, COMPLETED)


async def given_up(scene: Scene) -> None:
    await answer(scene, FAILED)


async def lost(scene: Scene) -> None:
    await scene.claim_one(lease_ms=5)
    await scene.clock.pass_ms(10)


async def suspended(scene: Scene) -> None:
    await scene.store.changes.suspend(scene.account_id)


async def sent_again(scene: Scene) -> None:
    await given_up(scene)
    await scene.store.callbacks.resend(scene.account_id, (await ended_ones(scene))[0])


async def ended_ones(scene: Scene) -> list[str]:
    names = await scene.redis.keys(scene.base.replace("{", "\\{") + "[0-7]*")
    return ["sch_" + name.decode()[-26:] for name in names]


@pytest.mark.parametrize("reference", [None, "a"])
@pytest.mark.parametrize("outcome", [COMPLETED, FAILED])
@pytest.mark.parametrize(
    "step", [pending, held, put_off, delivered, given_up, lost, suspended, sent_again]
)
async def test_a_callback_at_each_step_of_its_life_is_sound(
    scene: Scene,
    outcome: Outcome,
    reference: str | None,
    step: Callable[[Scene], Awaitable[None]],
) -> None:
    await scene.run(outcome, callback=OWN, reference=reference, lane=reference)
    await step(scene)
    assert await scene.store.check() == []


async def test_an_end_that_is_not_to_be_reported_lacks_nothing(scene: Scene) -> None:
    only_failed = Callback(OWN.url, CallbackOn.FAILED)
    elsewhere = Callback("", failure_url=OWN.url)
    for callback in (only_failed, elsewhere, Callback(""), Callback(None), None):
        await scene.run(COMPLETED, callback=callback)
    await scene.cancel(await scene.create(FAR_MS, callback=OWN))
    await scene.redis.hset(scene.base + keys.CALLBACK, mapping={"url": "x", "on": "executed"})
    assert await scene.store.check() == []


async def test_an_account_of_which_as_many_run_as_may_is_sound(scene: Scene) -> None:
    """Claims look again when the first lease ends."""
    await scene.ended(66)
    for _ in range(20):
        await scene.claim()
    assert await scene.redis.zcard(scene.base + keys.CALLING) == 64
    assert await scene.store.check() == []


def moved(key: str, at_ms: float | None) -> Breakage:
    """The schedule stands so far from now in it; None: not at all."""

    async def harm(scene: Scene, schedule_id: str) -> None:
        member = schedule_id[4:]
        if at_ms is None:
            await scene.redis.zrem(scene.base + key, member)
        else:
            at = await scene.clock.now_ms() + at_ms
            await scene.redis.zadd(scene.base + key, {member: at})

    return harm


def turn(of: str, at_ms: float | None) -> Breakage:
    """That of the account, or of all callbacks; None: there is none."""

    async def harm(scene: Scene, schedule_id: str) -> None:
        name = keys.parts(scene.account_id).local if of == keys.CALLBACK_HEADS else "#"
        key = keys.shard(scene.shard) + of
        if at_ms is None:
            await scene.redis.zrem(key, name)
        else:
            await scene.redis.zadd(key, {name: await scene.clock.now_ms() + at_ms})

    return harm


def added(key: str, member: str) -> Breakage:
    return lambda scene, _: scene.redis.zadd(scene.base + key, {member: 2**42})


def without(field: str) -> Breakage:
    return lambda scene, schedule_id: scene.redis.hdel(scene.key(schedule_id), field)


async def forgotten_soon(scene: Scene, schedule_id: str) -> None:
    await scene.redis.pexpire(scene.key(schedule_id), FAR_MS)


async def suspended_alone(scene: Scene, _: str) -> None:
    await scene.redis.hset(scene.base + keys.ACCOUNT, "suspended", 1)


STRANGER = "01jd3m0000e0080000000000a0"


@pytest.mark.parametrize(
    ("breakage", "sentence"),
    [
        (moved(keys.CALLBACKS, None), "has a pending callback, but is not among those that do"),
        (moved(keys.CALLING, 1), "in calling is another"),
        (without("c"), "has ended, and its callback is missing"),
        (without("c"), "is among its callbacks, and should not be"),
        (without("o"), "has a callback, but has not ended"),
        (forgotten_soon, "will be forgotten before that ends"),
        (added(keys.CALLBACKS, STRANGER), f"sch_{STRANGER} is among its callbacks, and should not"),
        (added(keys.CALLING, STRANGER), f"sch_{STRANGER} is among its calling, and should not be"),
        (added(keys.CALLBACKS, "?"), "among its callbacks is '?', which can be no schedule"),
        (turn(keys.CALLBACK_HEADS, None), "no worker will look for them (no head)"),
        (turn(keys.CALLBACK_HEADS, FAR_MS), "the head is later than the first of its callbacks"),
        (turn(keys.CALLBACK_HEADS, -math.inf), "no worker will look for its callbacks, as if"),
        (suspended_alone, "claims look at its callbacks, though it is suspended"),
        (turn(keys.HEADS, None), "claims do not come to its callbacks in time"),
        (turn(keys.HEADS, FAR_MS), "claims do not come to its callbacks in time"),
    ],
)
async def test_a_broken_index_of_callbacks_is_reported(
    scene: Scene, breakage: Breakage, sentence: str
) -> None:
    made = await scene.run(COMPLETED, callback=OWN)
    await breakage(scene, made)
    found = await scene.store.check()
    assert any(sentence in each for each in found), found
    assert all(scene.account_id in each for each in found)


@pytest.mark.parametrize(
    "breakage",
    [
        *(turn(keys.CALLBACK_HEADS, at_ms) for at_ms in (None, FAR_MS, -math.inf)),
        *(turn(keys.HEADS, at_ms) for at_ms in (None, FAR_MS)),
    ],
)
async def test_a_worker_finds_callbacks_that_no_claim_would_look_at(
    scene: Scene, breakage: Breakage
) -> None:
    made = await scene.run(COMPLETED, callback=OWN)
    await breakage(scene, made)
    assert await scene.store.check() != []
    for _ in range(2):
        await scene.store.claims.realign(scene.shard)
        assert await scene.store.check() == []
    assert len(await scene.claim()) == 1


async def test_a_worker_leaves_callbacks_of_a_suspended_account_alone(scene: Scene) -> None:
    made = await scene.run(COMPLETED, callback=OWN)
    for breakage in (suspended_alone, turn(keys.CALLBACK_HEADS, None)):
        await breakage(scene, made)
        assert await scene.store.check() != []
        await scene.store.claims.realign(scene.shard)
        assert await scene.store.check() == []
    assert await scene.claim() == []


@pytest.mark.parametrize(
    ("step", "score_ms", "sentence"),
    [
        (given_up, None, "has a callback that failed, but is not among those that do"),
        (given_up, 1, "is among its failed_callbacks with another moment"),
        (delivered, 0, "is among its failed_callbacks with another moment"),
        (pending, 0, "is among its failed_callbacks with another moment"),
    ],
)
async def test_a_broken_list_of_failed_callbacks_is_reported(
    scene: Scene,
    step: Callable[[Scene], Awaitable[None]],
    score_ms: int | None,
    sentence: str,
) -> None:
    made = await scene.run(COMPLETED, callback=OWN)
    await step(scene)
    await moved(keys.FAILED_CALLBACKS, score_ms)(scene, made)
    assert await scene.store.check() == [f"{scene.account_id}: {made} {sentence}"]
    await scene.redis.delete(scene.key(made))
    assert not any("failed" in each for each in await scene.store.check())


async def test_one_whose_callback_has_ended_is_to_be_forgotten(scene: Scene) -> None:
    made = await scene.run(COMPLETED, callback=OWN)
    await delivered(scene)
    await scene.redis.persist(scene.key(made))
    assert any("is never forgotten" in each for each in await scene.store.check())
