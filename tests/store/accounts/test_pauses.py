"""What stops an account or a lane of it, a suspension or a pause: nothing of it starts, and nothing
is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import permutations
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from scheduler import ids
from scheduler.callbacks import CallbackOn
from scheduler.errors import NotFound, OutcomeUnknown, PreconditionFailed, Unreadable
from scheduler.lane_settings import AccountCallback, AccountSettings, Pause
from scheduler.models import Plan
from scheduler.store import keys
from scheduler.store.preconditions import Precondition, quoted
from scheduler.store.server import Script
from tests.store.scene import Scene, ids_of

pytestmark = pytest.mark.sound
MINUTE_MS = 60_000
LANED: dict[str, Any] = {"lane": "a"}


class Stop(NamedTuple):
    name: str
    begin: Callable[[Scene], Awaitable[Any]]
    end: Callable[[Scene], Awaitable[Any]]


SUSPENSION = Stop(
    "a suspension",
    lambda scene: scene.store.changes.suspend(scene.account_id),
    lambda scene: scene.store.changes.resume(scene.account_id),
)
PAUSE = Stop("a pause", lambda scene: scene.pause(), lambda scene: scene.resume())
OF_LANE = Stop("a lane's pause", lambda scene: scene.pause("a"), lambda scene: scene.resume("a"))
# Of the account itself, and of a lane.
PAUSABLE = pytest.mark.parametrize("lane", [None, "a"])


@pytest.mark.parametrize(
    ("stop", "fields"),
    [(SUSPENSION, {}), (SUSPENSION, LANED), (PAUSE, {}), (PAUSE, LANED), (OF_LANE, LANED)],
)
async def test_what_is_due_waits_and_goes_out_when_that_is_over(
    scene: Scene, stop: Stop, fields: dict[str, Any]
) -> None:
    first, _ = await scene.create(**fields), await scene.create(MINUTE_MS, **fields)
    await stop.begin(scene)
    assert await scene.claim() == []
    second = await scene.create(**fields)
    [neighbour] = await scene.neighbours(1)
    theirs = await scene.create(account_id=neighbour, **fields)
    assert ids_of(await scene.claim()) == [theirs]
    await scene.assert_sound()
    over_us = 1000 * await scene.clock.now_ms()
    await stop.end(scene)
    claimed = await scene.claim()
    assert ids_of(claimed) == [first, second]
    late_us = [each.slot_us or 0 for each in claimed]
    assert stop is SUSPENSION or min(late_us) >= over_us, "lateness counts from then on"
    assert await scene.ack(claimed) == [1, 1]


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize(
    ("stops", "fields"),
    [
        *((each, LANED) for each in permutations((SUSPENSION, PAUSE, OF_LANE), 2)),
        *((each, {}) for each in permutations((SUSPENSION, PAUSE), 2)),
    ],
)
async def test_it_starts_when_none_is_on(
    scene: Scene, stops: tuple[Stop, Stop], fields: dict[str, Any], last: int
) -> None:
    made = await scene.create(**fields)
    for each in stops:
        await each.begin(scene)
    for each in (stops[1 - last], stops[last]):
        assert await scene.claim() == []
        await each.end(scene)
    assert ids_of(await scene.claim()) == [made]


@pytest.mark.parametrize("stop", [SUSPENSION, PAUSE])
async def test_no_worker_looks_for_it_and_none_is_kept_awake(scene: Scene, stop: Stop) -> None:
    await scene.create()
    [neighbour] = await scene.neighbours(1)
    due_ms = await scene.clock.now_ms() + MINUTE_MS
    await scene.create_at(due_ms, account_id=neighbour)
    await stop.begin(scene)
    assert (await scene.look()).next_look_ms == due_ms
    batch = await scene.batch()
    assert (batch.invocations, batch.next_look_ms, batch.full) == ([], due_ms, False)
    [shard] = [s for s in await scene.store.system.shards() if s.number == scene.shard]
    assert (shard.busy_accounts, shard.next_look_ms) == (1, due_ms)


@pytest.mark.parametrize("stop", [SUSPENSION, PAUSE])
async def test_what_is_held_ends_and_what_is_given_back_waits(scene: Scene, stop: Stop) -> None:
    for _ in range(2):
        await scene.create()
    ended, given_back = await scene.claim()
    await stop.begin(scene)
    assert await scene.ack([ended]) == [1]
    await scene.release([given_back])
    assert await scene.claim() == []
    await scene.store.claims.realign(scene.shard)
    assert await scene.claim() == []
    await stop.end(scene)
    assert ids_of(await scene.claim()) == [given_back.schedule_id]


@pytest.mark.parametrize("stop", [SUSPENSION, PAUSE])
async def test_its_schedules_can_be_changed_and_cancelled_all_the_same(
    scene: Scene, stop: Stop
) -> None:
    """Calls that came just before do not wake the account."""
    changed, cancelled = await scene.create(MINUTE_MS), await scene.create(MINUTE_MS)
    await stop.begin(scene)
    await scene.change(changed, trigger_at_ms=await scene.clock.now_ms())
    await scene.cancel(cancelled)
    assert await scene.claim() == []


async def test_its_key_says_so_and_its_plan_from_the_next_request_on(scene: Scene) -> None:
    changes, account_id = scene.store.changes, scene.account_id
    _, value = await scene.store.api_keys.create(account_id, "x")
    for change, suspended, limit in (
        (changes.suspend(account_id), True, 10),
        (changes.resume(account_id), False, 10),
        (changes.plan(account_id, Plan.PRO), False, 100),
    ):
        assert (await change).suspended == suspended
        caller = await scene.store.api_keys.admit(value)
        assert (caller.suspended, caller.rate.limit) == (suspended, limit)


@pytest.mark.time_passes
@pytest.mark.parametrize(("lane", "fields"), [(None, {}), (None, LANED), ("a", LANED)])
async def test_a_pause_with_an_end_lets_go_by_itself(
    scene: Scene, lane: str | None, fields: dict[str, Any]
) -> None:
    until_ms, made = await scene.clock.now_ms() + 200, await scene.create(**fields)
    await scene.pause(lane, until_ms)
    batch = await scene.batch()
    assert (batch.invocations, batch.next_look_ms) == ([], until_ms)
    await scene.clock.pass_ms(201)
    assert (await scene.settings(lane)).pause is None
    [claimed] = await scene.claim() or await scene.claim()
    assert (claimed.schedule_id, claimed.slot_us) == (made, 1000 * until_ms)


@pytest.mark.time_passes
async def test_a_change_after_its_end_ends_it_before_a_claim_does(scene: Scene) -> None:
    made = await scene.create()
    await scene.pause(until_ms=await scene.clock.now_ms() + 100)
    await scene.clock.pass_ms(101)
    callback = AccountCallback("https://example.com/ended")
    changed = await scene.set(None, reported(callback))
    assert replace(changed, etag=None) == AccountSettings(callback=callback)
    assert ids_of(await scene.claim()) == [made]


@pytest.mark.time_passes
@PAUSABLE
async def test_who_paused_first_stays_and_the_last_end_holds(
    scene: Scene, lane: str | None
) -> None:
    await scene.create(lane=lane)
    began_ms = await scene.clock.now_ms()
    first = (await scene.pause(lane, began_ms + 100, "ops")).pause
    assert (first.by, first.until_ms) == ("ops", began_ms + 100)
    assert began_ms <= first.since_ms <= await scene.clock.now_ms()
    for until_ms in (began_ms + MINUTE_MS, None):
        pause = replace(first, until_ms=until_ms)
        ended = await scene.set(lane, lambda before: replace(before, pause=pause))  # noqa: B023
        assert ended.pause == pause
    await scene.clock.pass_ms(101)
    assert await scene.claim() + await scene.claim() == []


@PAUSABLE
async def test_a_write_bound_to_other_settings_changes_nothing(
    scene: Scene, lane: str | None
) -> None:
    key = scene.base + (keys.LANE + lane if lane else keys.ACCOUNT)
    old = (await scene.settings(lane)).etag
    new = (await scene.set(lane, paused, Precondition.of(old))).etag
    before = await scene.redis.hgetall(key)
    with pytest.raises(PreconditionFailed):
        await scene.set(lane, resumed, Precondition.of(old))
    assert await scene.redis.hgetall(key) == before
    either = Precondition(frozenset((quoted(old), quoted(new))))
    assert (await scene.set(lane, resumed, either)).pause is None


def paused(before: Any) -> Any:
    return replace(before, pause=Pause("ci"))


def resumed(before: Any) -> Any:
    return replace(before, pause=None)


@PAUSABLE
async def test_a_repeat_after_a_lost_reply_undoes_no_later_write(
    scene: Scene, lane: str | None
) -> None:
    server, lost = scene.store.server, list[Script]()
    run = server.run

    async def lossy(script: Script, key: str, arguments: Any) -> Any:
        reply = await run(script, key, arguments)
        writes = script.path in ("lanes/set", "accounts/pause") and len(arguments) > 1
        if writes and not lost:
            lost.append(script)
            await scene.resume(lane)
            raise OutcomeUnknown("The reply was lost")
        return reply

    old = (await scene.settings(lane)).etag
    with patch.object(server, "run", lossy):
        assert (await scene.set(lane, paused, Precondition.of(old))).pause is None
    assert lost


def reported(callback: AccountCallback | None) -> Callable[[AccountSettings], AccountSettings]:
    return lambda before: replace(before, callback=callback)


async def test_the_default_callback_stays_beside_a_pause_and_its_etag_covers_it(
    scene: Scene,
) -> None:
    etags = [(await scene.settings()).etag]
    for callback in (
        AccountCallback("https://example.com/ended"),
        AccountCallback("https://example.com/ended", CallbackOn.FAILED),
        AccountCallback("https://example.com/ended-too", CallbackOn.FAILED),
    ):
        for change in (reported(callback), paused, resumed):
            assert (await scene.set(None, change)).callback == callback
        etags.append((await scene.settings()).etag)
    assert len(set(etags)) == 4
    removed = await scene.set(None, reported(None))
    assert (removed.callback, removed.etag) == (None, etags[0])
    # What is pending still has where to go.
    left = await scene.redis.hgetall(scene.base + keys.CALLBACK)
    assert left == {b"url": b"https://example.com/ended-too"}


async def test_of_two_that_set_the_callback_at_once_both_changes_stand(scene: Scene) -> None:
    callback = AccountCallback("https://example.com/ended")
    await asyncio.gather(
        scene.set(None, reported(callback)),
        scene.pause(),
    )
    found = await scene.settings()
    assert (found.callback, found.pause is None) == (callback, False)


@pytest.mark.harmed
async def test_no_account_and_a_damaged_one(scene: Scene) -> None:
    nobody = ids.account_id(scene.shard, "22222222")
    for call in (scene.store.pauses.read(nobody), scene.store.pauses.change(nobody, paused)):
        with pytest.raises(NotFound):
            await call
    await scene.redis.hset(scene.base + keys.ACCOUNT, mapping={"paused": 1, "paused_until": "x"})
    with pytest.raises(Unreadable):
        await scene.settings()
    await scene.redis.hdel(scene.base + keys.ACCOUNT, "paused", "paused_until")
    for on, url in ((b"never", b"https://example.com/"), (b"failed", b"\xff")):
        await scene.redis.hset(scene.base + keys.CALLBACK, mapping={"on": on, "url": url})
        with pytest.raises(Unreadable):
            await scene.settings()
