"""Accounts that are renamed or deleted, and the state after an interruption."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from scheduler.callbacks import Callback
from scheduler.callers import Role
from scheduler.errors import InsufficientCredits, NotFound, StoreUnavailable
from scheduler.models import Idempotency, Plan, Request
from scheduler.store import Store, keys
from scheduler.store.accounts.sign_in.sessions import Purpose
from scheduler.store.lifecycle.callback.callbacks import CallbackAck
from scheduler.store.verdict import Verdict
from tests.store.scene import FAILED, URL, Scene, settled
from tests.support.plain import redis_of

pytestmark = pytest.mark.usefixtures("checks_at_once")
MINUTE_MS = 60_000


async def furnished(scene: Scene) -> tuple[str, str, str]:
    """Something of everything; a key, a session's secret and a link's."""
    store, account_id = scene.store, scene.account_id
    await scene.run()
    await scene.create(MINUTE_MS)
    await scene.create()
    await scene.store.canceller.cancel(account_id, await scene.create(MINUTE_MS))
    await scene.claim_one()
    for lane in ("a", "b"):
        await scene.create(MINUTE_MS, lane=lane)
    local, prefix = keys.parts(account_id).local, keys.shard(scene.shard)
    await scene.redis.zadd(prefix + keys.HEADS, {f"!{local}": 2**42})
    await scene.redis.zadd(prefix + keys.RESUMED, {local: 1})
    request = Request(await scene.clock.now_ms() + MINUTE_MS, "GET", URL)
    await store.schedules.create_all(account_id, [request], Idempotency("once", "x"))
    _, key = await store.api_keys.create(account_id, "key")
    invitation = await store.members.invite(account_id, "eve@example.com", Role.OWN, "us")
    opened = await store.members.join(invitation, "hash")
    await store.members.invite(account_id, "bob@example.com", Role.READ, "us")
    await store.api_keys.admit(key)
    return key, opened.secret, await store.sessions.make_link(account_id, opened.session.member_id)


async def everything(store: Store) -> set[bytes]:
    """The names of all keys but those that are not the account's."""
    await redis_of(store).delete(keys.META, keys.WORKERS)
    return {key async for key in redis_of(store).scan_iter() if b"link:" not in key}


async def test_nothing_of_it_is_left(scene: Scene) -> None:
    key, session, link = await furnished(scene)
    gone = await scene.store.changes.delete("first")
    assert (gone.account_id, gone.name, gone.unended) == (scene.account_id, "first", 5)
    assert await scene.store.api_keys.admit(key) is None
    assert await scene.store.sessions.find(session) is None
    assert not await scene.store.sessions.leads_to(link)
    assert await scene.store.sessions.redeem(link, Purpose.SET_PASSWORD, "hash") is None
    assert await scene.store.members.find("eve@example.com") is None
    assert await scene.claim() == []
    assert await everything(scene.store) == set()
    assert await scene.store.check() == []
    for again in ("first", scene.account_id):
        with pytest.raises(NotFound):
            await scene.store.changes.delete(again)


async def test_from_the_first_step_on_it_can_do_nothing(scene: Scene) -> None:
    key, session, link = await furnished(scene)
    waiting = await scene.create(MINUTE_MS)
    with cut_off(scene.store, 1), pytest.raises(StoreUnavailable):
        await scene.store.changes.delete("first")
    store, account_id = scene.store, scene.account_id
    assert await store.api_keys.admit(key) is None
    assert await store.sessions.find(session) is None
    assert not await store.sessions.leads_to(link)
    request = Request(0, "GET", URL)
    for refused in (
        lambda: store.accounts.find("first"),
        lambda: store.api_keys.create(account_id, "x"),
        lambda: store.accounts.grant(account_id, 1),
        lambda: store.schedules.create(account_id, request),
        lambda: store.canceller.cancel(account_id, waiting),
        lambda: store.sessions.open(account_id),
        lambda: store.changes.resume(account_id),
    ):
        assert isinstance(await settled(refused), NotFound)
    assert await scene.claim() == []
    assert not isinstance(await settled(lambda: scene.account("first")), str)
    [told] = await store.check()
    assert f"postdate account delete {account_id}" in told


@pytest.mark.parametrize("steps", range(7))
@pytest.mark.parametrize("by", ["id", "name"])
async def test_what_is_cut_off_is_ended_by_the_same_call(scene: Scene, by: str, steps: int) -> None:
    """Its name and address are free again, and nothing that it had is the next one's."""
    await furnished(scene)
    create = partial(scene.store.accounts.create, "ada", plan=Plan.FREE, email="ada@example.com")
    before = await create(credits=5)
    await scene.create(MINUTE_MS, account_id=before.account_id)
    await scene.store.api_keys.create(before.account_id, "key")
    wanted = before.name if by == "name" else before.account_id
    with cut_off(scene.store, steps), pytest.raises(StoreUnavailable):
        await scene.store.changes.delete(wanted)
    gone = await scene.store.changes.delete(wanted)
    assert (gone.name, gone.unended) == ("ada", 1)
    assert await scene.store.check() == []
    poor = await create(credits=0)
    assert poor.account_id != before.account_id
    with pytest.raises(InsufficientCredits):
        await scene.create(account_id=poor.account_id)


async def test_what_is_being_fired_then_is_recorded_nowhere(scene: Scene) -> None:
    await scene.create()
    held = await scene.claim_one()
    await scene.store.changes.delete("first")
    assert await scene.ack([held]) == [Verdict.UNKNOWN]
    await scene.release([held])
    assert await everything(scene.store) == set()


async def test_a_deletion_under_way_takes_what_is_sent_from_no_worker(scene: Scene) -> None:
    """A worker is told that the account is gone, and not that another worker has it."""
    await scene.run(FAILED, callback=Callback(URL))
    called = await scene.claim_one()
    await scene.create()
    held = await scene.claim_one()
    with cut_off(scene.store, 1), pytest.raises(StoreUnavailable):
        await scene.store.changes.delete("first")
    assert await scene.ack([held]) == [Verdict.UNKNOWN]
    assert await scene.retry([held], MINUTE_MS) == [Verdict.UNKNOWN]
    [verdict] = await scene.store.callbacks.ack(scene.shard, [CallbackAck(called, FAILED)])
    assert verdict == Verdict.UNKNOWN
    await scene.store.changes.delete(scene.account_id)


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("then", ["second", "third", "first"])
async def test_a_rename_that_was_cut_off_leaves_no_name_behind(
    scene: Scene, steps: int, then: str
) -> None:
    rename = partial(scene.store.changes.rename, scene.account_id)
    with cut_off(scene.store, steps), pytest.raises(StoreUnavailable):
        await rename("second")
    assert (await rename(then)).name == then
    assert (await scene.store.accounts.find(then)).account_id == scene.account_id
    for free in {"first", "second", "third"} - {then}:
        assert await scene.redis.get(keys.NAME + free) is None
    assert await scene.store.check() == []


def cut_off(store: Store, after: int) -> Any:
    """The process dies after so many scripts and commands that write."""
    left = iter(range(after))

    def dying(send: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def send_or_die(*arguments: Any) -> Any:
            if next(left, None) is None:
                raise StoreUnavailable("died")
            return await send(*arguments)

        return send_or_die

    server = store.server
    return patch.multiple(server, run=dying(server.run), call=dying(server.call))
