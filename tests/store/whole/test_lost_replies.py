"""Replies that get lost on the way: the call is carried out exactly once, or not at all."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from scheduler.errors import OutcomeUnknown
from scheduler.models import Idempotency, Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.accounts.sign_in.sessions import Purpose
from tests.store.clocks import ServerClock
from tests.store.lifecycle.end.dead_letters import fail, letter_ids, replay, verdicts
from tests.store.scene import COMPLETED, CREDITS, FAILED, URL, Holdings, Scene
from tests.support.servers import DroppingProxy, script

# Prepares, yields, makes the call whose reply gets lost, and yields what came of it.
Call = Callable[[Scene], AsyncGenerator[Any]]
RECORDED = {"ack": (Scene.ack, "completed"), "retry": (Scene.retry, "retrying")}


@pytest.fixture
async def scene(proxy: DroppingProxy, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """An account in a store behind the proxy."""
    monkeypatch.setattr("scheduler.store.server.server._PAUSES_S", (0.0, 0.01, 0.05, 0.1))
    store = await Store.open(Settings(redis_url=proxy.url, shards=1))
    account = await store.accounts.create("first", credits=CREDITS, plan=Plan.FREE)
    scene = Scene(store, ServerClock(store), account.account_id)
    yield scene
    await scene.assert_sound()
    await store.aclose()


async def create(scene: Scene) -> AsyncGenerator[Any]:
    yield
    yield await scene.status(await scene.create(60_000))


async def create_with_the_last_credit(scene: Scene) -> AsyncGenerator[Any]:
    """The repeat finds no credit left: it was itself that took it."""
    for _ in range(CREDITS - 1):
        await scene.create(60_000)
    yield
    yield await scene.status(await scene.create(60_000))


async def cancel(scene: Scene) -> AsyncGenerator[Any]:
    schedule_id = await scene.create(60_000)
    yield
    yield (await scene.cancel(schedule_id)).credits


async def cancel_many(scene: Scene) -> AsyncGenerator[Any]:
    made = [await scene.create(60_000) for _ in range(5)]
    await scene.cancel(made[2])
    yield
    yield [bool(each.refusal) for each in (await scene.cancel_all(made)).each]


async def stop(scene: Scene) -> AsyncGenerator[Any]:
    schedule_id = (held := await scene.held()).schedule_id
    await scene.retry([held], 60_000)
    yield
    yield (await scene.cancel(schedule_id)).each[0].stopped is not None


async def change_between_attempts(scene: Scene) -> AsyncGenerator[Any]:
    held = await scene.held()
    await scene.retry([held], 60_000)
    yield
    changed = await scene.change(held.schedule_id, trigger_at_ms=1)
    assert changed == await scene.get(held.schedule_id)
    again = await scene.claim_one()
    yield changed.due_at_ms, again.attempt, await scene.ack([again])


async def replay_many(scene: Scene, once: Idempotency | None = None) -> AsyncGenerator[Any]:
    failed = await fail(scene, 4)
    await replay(scene, failed[:1], due_ms=2**41)
    yield
    done = await replay(scene, failed, once, due_ms=2**41)
    yield verdicts(done), done.repeated


def replay_with_a_key(scene: Scene) -> AsyncGenerator[Any]:
    return replay_many(scene, Idempotency("key", "fingerprint"))


async def forget(scene: Scene) -> AsyncGenerator[Any]:
    letters = [await scene.get(each) for each in await fail(scene, 3)]
    yield
    yield await scene.store.letters.forget(scene.account_id, letters)


async def send_callbacks_again(scene: Scene) -> AsyncGenerator[Any]:
    made = [*await fail(scene, 4), await scene.create(60_000)]
    await scene.redis.hset(scene.base + keys.CALLBACK, mapping={"url": URL, "on": "executed"})
    yield
    done = await scene.store.callbacks.resend_all(scene.account_id, made)
    yield [each.callback is not None for each in done.each], len(await scene.claim())


async def grant(scene: Scene) -> AsyncGenerator[Any]:
    yield
    account = await scene.store.accounts.grant(scene.account_id, 5)
    yield account.credits, account.granted


async def make_an_account(scene: Scene) -> AsyncGenerator[Any]:
    accounts = scene.store.accounts
    before = len((await accounts.some())[0])
    yield
    made = await accounts.create(f"of {scene.account_id}", credits=3, plan=Plan.PRO)
    yield made.credits, len((await accounts.some())[0]) - before


async def make_a_key(scene: Scene) -> AsyncGenerator[Any]:
    yield
    await scene.store.api_keys.create(scene.account_id, "one")
    yield len(await scene.store.api_keys.of_account(scene.account_id))


async def sign_in_by_link(scene: Scene) -> AsyncGenerator[Any]:
    sessions = scene.store.sessions
    link = await sessions.make_link(scene.account_id)
    yield
    opened = await sessions.redeem(link, Purpose.SIGN_IN)
    assert await sessions.find(opened.secret) == opened.session
    assert await sessions.redeem(link, Purpose.SIGN_IN) is None
    yield await sessions.count(scene.account_id)


CALLS: list[tuple[Call, str]] = [
    (create, "lifecycle/create/create"),
    (create_with_the_last_credit, "lifecycle/create/create"),
    (cancel, "lifecycle/end/end"),
    (cancel_many, "lifecycle/end/end"),
    (stop, "lifecycle/end/end"),
    (change_between_attempts, "lifecycle/create/change"),
    (replay_many, "lifecycle/create/create"),
    (replay_with_a_key, "lifecycle/create/create"),
    (forget, "lifecycle/end/forget"),
    (send_callbacks_again, "lifecycle/callback/resend"),
    (grant, "accounts/grant"),
    (make_an_account, "accounts/create"),
    (make_a_key, "accounts/key_create"),
    (sign_in_by_link, "accounts/sign_in/link_redeem"),
]


async def carry_out(
    call: Call, scene: Scene, before: Callable[[], None] = lambda: None
) -> tuple[Any, Holdings]:
    async with aclosing(call(scene)) as steps:
        await anext(steps)
        before()
        return await anext(steps), await scene.holdings()


@pytest.mark.parametrize("lost", [1, 3])
@pytest.mark.parametrize(("call", "path"), CALLS, ids=[call.__name__ for call, _ in CALLS])
async def test_a_call_is_carried_out_once(
    scene: Scene, proxy: DroppingProxy, call: Call, path: str, lost: int
) -> None:
    """It leaves an account as it does where no reply is lost."""
    twin = Scene(scene.store, scene.clock, await scene.account("twin"))
    expected = await carry_out(call, twin)
    found = await carry_out(call, scene, lambda: proxy.drop_reply(script(path), times=lost))
    assert (found, proxy.dropped) == (expected, lost)


@pytest.mark.parametrize("read", [b"EXEC", b"HMGET"])
async def test_a_read_is_repeated(scene: Scene, proxy: DroppingProxy, read: bytes) -> None:
    failed = await fail(scene, 2)
    proxy.drop_reply(read)
    assert await letter_ids(scene) == failed
    assert proxy.dropped == 1


@pytest.mark.parametrize("what", RECORDED)
@pytest.mark.parametrize(("nth", "codes"), [(1, [0, 1, 1]), (2, [0, 0, 0])])
async def test_what_a_worker_records_is_recorded_once(
    scene: Scene, proxy: DroppingProxy, what: str, nth: int, codes: list[int]
) -> None:
    """It repeats a call whose reply was lost. One of three is recorded before, so that the two
    others are recorded by a second call: which of the two replies was lost shows."""
    method, status = RECORDED[what]
    wait = [60_000] if method is Scene.retry else []

    async def record(count: int) -> Any:
        return await method(scene, claimed[:count], *wait, FAILED if wait else COMPLETED)

    for _ in range(3):
        await scene.create()
    claimed = await scene.claim()
    assert await record(1) == [1]
    proxy.drop_reply(script("lifecycle/end/end"), nth=nth)
    with pytest.raises(OutcomeUnknown):
        await record(3)
    assert await record(3) == codes
    assert await record(3) == [0, 0, 0]
    found = await scene.holdings()
    assert (found.spent, found.log[status], found.waiting) == (3, 3, len(wait) * 3)


async def test_a_lost_claim_waits_for_its_leases_end(scene: Scene, proxy: DroppingProxy) -> None:
    schedule_id = await scene.create()
    await scene.claim(pass_over=[scene.account_id])
    proxy.drop_reply(script("lifecycle/claim/claim"))
    with pytest.raises(OutcomeUnknown):
        await scene.claim(lease_ms=50)
    lease_end_ms = await scene.visible_at_ms(schedule_id)
    assert lease_end_ms is not None
    await scene.claim_nothing_before(lease_end_ms)
    await scene.clock.pass_ms(60)
    invocation = await scene.claim_one()
    assert (invocation.schedule_id, invocation.attempt) == (schedule_id, 2)
