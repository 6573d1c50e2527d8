"""Replies that get lost on the way: the call is carried out exactly once, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from scheduler.errors import OutcomeUnknown, StoreError
from scheduler.models import Idempotency, Plan, Request
from scheduler.settings import Settings
from scheduler.store import Store
from scheduler.store.accounts.sessions import Purpose
from scheduler.store.verdict import Verdict
from tests.scheduler.clocks import ServerClock
from tests.scheduler.letters import complete_all, fail, letter_ids, replay, verdicts
from tests.scheduler.scene import CREDITS, Holdings, Scene, settled
from tests.servers import DroppingProxy, script


@pytest.fixture
async def scene(proxy: DroppingProxy) -> AsyncIterator[Scene]:
    """An account in a store behind the proxy; every script has been used, so each is known."""
    store = await Store.open(Settings(redis_url=proxy.url, shards=1))
    account = await store.accounts.create("first", credits=CREDITS - 1, plan=Plan.FREE)
    scene = Scene(store, ServerClock(store), account.account_id)
    await store.accounts.grant(account.account_id, 1)
    await store.canceller.cancel(account.account_id, await scene.create(60_000))
    yield scene
    await store.aclose()


@pytest.mark.parametrize("lost", [1, 2, 3])
async def test_a_create_is_done_once(scene: Scene, proxy: DroppingProxy, lost: int) -> None:
    proxy.drop_reply(script("lifecycle/create"), times=lost)
    schedule_id = await scene.create(60_000)
    assert proxy.dropped == lost
    expected = Holdings(CREDITS - 1, 1, 1, 0, {"cancelled": 1, "scheduled": 1})
    assert await scene.holdings() == expected
    assert (await scene.log(status="scheduled"))[0].schedule_id == schedule_id
    await scene.assert_sound()


async def test_a_batch_of_creates_is_done_once(scene: Scene, proxy: DroppingProxy) -> None:
    proxy.drop_reply(script("lifecycle/create"), times=2)
    due_ms = await scene.clock.now_ms() + 60_000
    made = await asyncio.gather(*(scene.create_at(due_ms) for _ in range(50)))
    assert proxy.dropped == 2
    assert len(set(made)) == 50
    expected = Holdings(CREDITS - 50, 50, 50, 0, {"cancelled": 1, "scheduled": 50})
    assert await scene.holdings() == expected
    await scene.assert_sound()


async def test_the_last_credit_is_spent_once(scene: Scene, proxy: DroppingProxy) -> None:
    """The repeat finds no credit left: it was itself that took it."""
    for _ in range(CREDITS - 1):
        await scene.create(60_000)
    proxy.drop_reply(script("lifecycle/create"))
    await scene.create(60_000)
    assert (await scene.holdings()).credits == 0
    await scene.assert_sound()


async def test_a_create_that_stays_unknown_says_so(scene: Scene, proxy: DroppingProxy) -> None:
    proxy.drop_reply(script("lifecycle/create"), times=100)
    with pytest.raises(OutcomeUnknown):
        await scene.create(60_000)
    proxy.forget_rules()
    found = await scene.holdings()
    assert (found.credits, found.waiting) == (CREDITS - 1, 1)
    await scene.assert_sound()


async def test_a_create_that_never_arrived_changes_nothing(
    scene: Scene, proxy: DroppingProxy
) -> None:
    before = await scene.holdings()
    proxy.drop_command(script("lifecycle/create"), times=100)
    assert isinstance(await settled(lambda: scene.create(60_000)), StoreError)
    proxy.forget_rules()
    assert await scene.holdings() == before
    proxy.drop_command(script("lifecycle/create"), times=2)
    await scene.create(60_000)
    assert (await scene.holdings()).waiting == 1
    await scene.assert_sound()


@pytest.mark.parametrize("lost", [1, 3])
async def test_a_cancellation_refunds_once(scene: Scene, proxy: DroppingProxy, lost: int) -> None:
    schedule_id = await scene.create(60_000)
    proxy.drop_reply(script("lifecycle/end"), times=lost)
    assert (await scene.store.canceller.cancel(scene.account_id, schedule_id)).credits == CREDITS
    assert proxy.dropped == lost
    assert await scene.holdings() == Holdings(CREDITS, 0, 0, 0, {"cancelled": 2})
    await scene.assert_sound()


@pytest.mark.parametrize("lost", [1, 3])
async def test_a_bulk_cancel_refunds_once(scene: Scene, proxy: DroppingProxy, lost: int) -> None:
    canceller = scene.store.canceller
    await canceller.by_id(scene.account_id, [await scene.create(60_000)])
    made = [await scene.create(60_000) for _ in range(5)]
    await scene.store.canceller.cancel(scene.account_id, made[2])
    proxy.drop_reply(script("lifecycle/end"), times=lost)
    done = await canceller.by_id(scene.account_id, made)
    assert proxy.dropped == lost
    refused = [each.schedule_id for each in done.each if each.refusal]
    assert refused == [made[2]]
    assert await scene.holdings() == Holdings(CREDITS, 0, 0, 0, {"cancelled": 7})
    await scene.assert_sound()


@pytest.mark.parametrize("lost", [1, 3])
@pytest.mark.parametrize("once", [None, Idempotency("key", "fingerprint")])
async def test_a_replay_is_made_once(
    scene: Scene, proxy: DroppingProxy, once: Idempotency | None, lost: int
) -> None:
    await replay(scene, await fail(scene))
    await complete_all(scene)
    failed = await fail(scene, 4)
    await replay(scene, failed[:1])
    proxy.drop_reply(script("lifecycle/create"), times=lost)
    done = await replay(scene, failed, once)
    assert proxy.dropped == lost
    assert verdicts(done) == [Verdict.REPLAYED, *[Verdict.DONE] * 3]
    assert not done.repeated
    assert len(await complete_all(scene)) == 4
    assert (await scene.holdings()).credits == CREDITS - 10
    await scene.assert_sound()


async def test_the_last_credit_pays_for_a_replay_once(scene: Scene, proxy: DroppingProxy) -> None:
    await replay(scene, await fail(scene))
    await complete_all(scene)
    failed = await fail(scene, 2)
    for _ in range(CREDITS - 5):
        await scene.create(60_000)
    proxy.drop_reply(script("lifecycle/create"))
    assert verdicts(await replay(scene, failed)) == [Verdict.DONE, Verdict.UNPAID]
    assert proxy.dropped == 1
    await scene.assert_sound()


@pytest.mark.parametrize("read", [b"EXEC", b"HSTRLEN", b"HMGET"])
async def test_reading_dead_letters_is_repeated(
    scene: Scene, proxy: DroppingProxy, read: bytes
) -> None:
    failed = await fail(scene, 2)
    await replay(scene, failed[:1])
    assert await letter_ids(scene) == failed[1:]
    proxy.drop_reply(read)
    assert await letter_ids(scene) == failed[1:]
    assert verdicts(await replay(scene, failed)) == [Verdict.REPLAYED, Verdict.DONE]
    assert proxy.dropped == 1
    await scene.assert_sound()


@pytest.mark.parametrize("lost", [1, 3])
async def test_a_grant_is_given_once(scene: Scene, proxy: DroppingProxy, lost: int) -> None:
    proxy.drop_reply(script("accounts/grant"), times=lost)
    account = await scene.store.accounts.grant(scene.account_id, 5)
    assert proxy.dropped == lost
    assert (account.credits, account.granted) == (CREDITS + 5, CREDITS + 5)
    await scene.assert_sound()


async def test_an_account_and_a_key_are_made_once(scene: Scene, proxy: DroppingProxy) -> None:
    proxy.drop_reply(script("accounts/create"))
    account = await scene.store.accounts.create("second", credits=3, plan=Plan.PRO)
    await scene.store.api_keys.create(account.account_id, "one")
    proxy.drop_reply(script("accounts/key_create"))
    key, value = await scene.store.api_keys.create(account.account_id, "two")
    assert proxy.dropped == 2
    assert account.credits == 3
    assert len(await scene.store.api_keys.of_account(account.account_id)) == 2
    proxy.drop_reply(script("accounts/key_deactivate"))
    assert not (await scene.store.api_keys.deactivate(key.key_id)).active
    proxy.drop_reply(script("accounts/admit"))
    assert await scene.store.api_keys.admit(value) is None
    await scene.assert_sound()


@pytest.mark.parametrize(("nth", "codes"), [(1, [0, 1, 1]), (2, [0, 0, 0])])
async def test_an_ack_is_counted_once(
    scene: Scene, proxy: DroppingProxy, nth: int, codes: list[int]
) -> None:
    """The worker repeats an ack whose reply was lost. One of three had ended before, so that the
    two others are recorded by a second call: which of the two calls' replies was lost tells."""
    for _ in range(3):
        await scene.create()
    claimed = await scene.claim()
    assert await scene.ack(claimed[:1]) == [1]
    proxy.drop_reply(script("lifecycle/end"), nth=nth)
    with pytest.raises(OutcomeUnknown):
        await scene.ack(claimed)
    assert await scene.ack(claimed) == codes
    assert await scene.ack(claimed) == [0, 0, 0]
    log = {"cancelled": 1, "completed": 3}
    assert await scene.holdings() == Holdings(CREDITS - 3, 3, 0, 0, log)
    await scene.assert_sound()


@pytest.mark.parametrize(("nth", "codes"), [(1, [0, 1, 1]), (2, [0, 0, 0])])
async def test_an_attempt_that_is_made_again_is_recorded_once(
    scene: Scene, proxy: DroppingProxy, nth: int, codes: list[int]
) -> None:
    """As above: one of three is recorded already, so that two calls are needed for the others."""
    for _ in range(3):
        await scene.create()
    claimed = await scene.claim()
    assert await scene.retry(claimed[:1], 60_000) == [1]
    proxy.drop_reply(script("lifecycle/end"), nth=nth)
    with pytest.raises(OutcomeUnknown):
        await scene.retry(claimed, 60_000)
    assert await scene.retry(claimed, 60_000) == codes
    assert await scene.retry(claimed, 60_000) == [0, 0, 0]
    log = {"cancelled": 1, "retrying": 3, "scheduled": 3}
    assert await scene.holdings() == Holdings(CREDITS - 3, 3, 3, 0, log)
    await scene.assert_sound()


async def test_a_retry_whose_reply_was_lost_may_be_claimed_before_it_is_repeated(
    scene: Scene, proxy: DroppingProxy
) -> None:
    await scene.create()
    first = await scene.claim_one()
    assert await scene.retry([], 0) == []
    await scene.retry([first], 0)
    second = await scene.claim_one()
    proxy.drop_reply(script("lifecycle/end"))
    with pytest.raises(OutcomeUnknown):
        await scene.retry([second], 0)
    third = await scene.claim_one()
    assert await scene.retry([second], 0) == [0]
    assert await scene.ack([third]) == [1]
    log = {"cancelled": 1, "retrying": 2, "completed": 1}
    assert await scene.holdings() == Holdings(CREDITS - 1, 1, 0, 0, log)
    await scene.assert_sound()


@pytest.mark.parametrize("lost", [1, 3])
async def test_what_is_stopped_between_attempts_is_counted_once(
    scene: Scene, proxy: DroppingProxy, lost: int
) -> None:
    other = await scene.create()
    await scene.retry([await scene.claim_one()], 60_000)
    await scene.store.canceller.cancel(scene.account_id, other)  # so that the script is known
    schedule_id = await scene.create()
    await scene.retry([await scene.claim_one()], 60_000)
    proxy.drop_reply(script("lifecycle/end"), times=lost)
    stopped = await scene.store.canceller.cancel(scene.account_id, schedule_id)
    assert (proxy.dropped, stopped.credits, stopped.each[0].stopped is not None) == (
        lost,
        CREDITS - 2,
        True,
    )
    log = {"cancelled": 1, "retrying": 2, "failed": 2}
    assert await scene.holdings() == Holdings(CREDITS - 2, 2, 0, 0, log)
    await scene.assert_sound()


async def test_a_next_attempt_is_moved_once(scene: Scene, proxy: DroppingProxy) -> None:
    schedule_id = await scene.create()
    await scene.retry([await scene.claim_one()], 60_000)
    due_ms = await scene.clock.now_ms()

    def moved(request: Request) -> Request:
        return msgspec.structs.replace(request, trigger_at_ms=due_ms)

    schedules = scene.store.schedules
    await schedules.change(scene.account_id, await scene.create(60_000), lambda r: r)
    proxy.drop_reply(script("lifecycle/change"), times=2)
    changed = await schedules.change(scene.account_id, schedule_id, moved)
    assert proxy.dropped == 2
    assert changed == await schedules.get(scene.account_id, schedule_id)
    assert changed.due_at_ms == due_ms
    assert (await scene.claim_one()).attempt == 2
    await scene.assert_sound()


async def test_a_lost_claim_waits_for_its_leases_end(scene: Scene, proxy: DroppingProxy) -> None:
    schedule_id = await scene.create()
    await scene.claim(pass_over=[scene.account_id])
    proxy.drop_reply(script("lifecycle/claim"))
    with pytest.raises(OutcomeUnknown):
        await scene.claim(lease_ms=50)
    lease_end_ms = await scene.visible_at_ms(schedule_id)
    assert lease_end_ms is not None
    await scene.claim_nothing_before(lease_end_ms)
    await scene.clock.pass_ms(60)
    invocation = await scene.claim_one()
    assert (invocation.schedule_id, invocation.attempt) == (schedule_id, 2)
    await scene.assert_sound()


async def test_extensions_and_releases_can_be_repeated(scene: Scene, proxy: DroppingProxy) -> None:
    await scene.create()
    claims, [invocation] = scene.store.claims, await scene.claim()
    await claims.extend(scene.shard, 1000, [invocation])
    proxy.drop_reply(script("lifecycle/lease"))
    with pytest.raises(OutcomeUnknown):
        await claims.extend(scene.shard, 60_000, [invocation])
    assert await claims.extend(scene.shard, 60_000, [invocation]) == []
    await claims.release(scene.shard, [invocation])
    [invocation] = await scene.claim()
    proxy.drop_reply(script("lifecycle/lease"))
    with pytest.raises(OutcomeUnknown):
        await claims.release(scene.shard, [invocation])
    await claims.release(scene.shard, [invocation])
    assert (await scene.claim_one()).attempt == 1
    await scene.assert_sound()


async def test_a_link_whose_reply_was_lost_still_signs_in_once(
    scene: Scene, proxy: DroppingProxy
) -> None:
    sessions = scene.store.sessions
    # Every script once, so that the proxy sees calls by hash.
    warm = await sessions.make_link(scene.account_id, Purpose.SIGN_IN)
    assert await sessions.redeem(warm, Purpose.SIGN_IN) is not None
    link = await sessions.make_link(scene.account_id, Purpose.SIGN_IN)
    proxy.drop_reply(script("accounts/link_redeem"), times=2)
    opened = await sessions.redeem(link, Purpose.SIGN_IN)
    assert proxy.dropped == 2
    assert opened is not None
    assert await sessions.find(opened.secret) == opened.session
    assert await sessions.redeem(link, Purpose.SIGN_IN) is None
    assert await sessions.count(scene.account_id) == 2
