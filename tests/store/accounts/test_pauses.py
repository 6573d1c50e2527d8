"""An account's own pause: nothing of it starts, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from scheduler import ids
from scheduler.callbacks import CallbackOn
from scheduler.errors import NotFound, OutcomeUnknown, PreconditionFailed, Unreadable
from scheduler.lane_settings import AccountCallback, AccountSettings, LaneSettings, Pause
from scheduler.store import keys
from scheduler.store.server import Script
from tests.store.scene import Scene, ids_of

MINUTE_MS = 60_000
PAUSED, RESUMED = "paused", "resumed"
LANED: dict[str, Any] = {"lane": "a"}


def paused(
    by: str = "ci", until_ms: int | None = None
) -> Callable[[AccountSettings], AccountSettings]:
    return lambda before: replace(before, pause=Pause(by, until_ms))


def resumed(before: AccountSettings) -> AccountSettings:
    return replace(before, pause=None)


@pytest.mark.parametrize("fields", [{}, LANED])
async def test_what_is_due_waits_and_goes_out_when_it_is_resumed(
    scene: Scene, fields: dict[str, Any]
) -> None:
    pauses, first = scene.store.pauses, await scene.create(**fields)
    began = await pauses.change(scene.account_id, paused("ops"))
    assert began.pause is not None
    assert (began.pause.by, began.pause.until_ms) == ("ops", None)
    assert await scene.claim() == []
    second = await scene.create(**fields)
    [neighbour] = await scene.neighbours(1)
    theirs = await scene.create(account_id=neighbour, **fields)
    assert ids_of(await scene.claim()) == [theirs]
    resumed_us = 1000 * await scene.clock.now_ms()
    assert (await pauses.change(scene.account_id, resumed)).pause is None
    claimed = await scene.claim()
    assert ids_of(claimed) == [first, second]
    assert all((each.slot_us or 0) >= resumed_us for each in claimed)


@pytest.mark.parametrize("fields", [{}, LANED])
@pytest.mark.parametrize("order", [(PAUSED, "suspended"), ("suspended", PAUSED)])
@pytest.mark.parametrize("last", ["pause", "suspension"])
async def test_it_starts_when_neither_is_on(
    scene: Scene, fields: dict[str, Any], order: tuple[str, str], last: str
) -> None:
    made, (changes, pauses) = (
        await scene.create(**fields),
        (scene.store.changes, scene.store.pauses),
    )
    for what in order:
        if what == PAUSED:
            await pauses.change(scene.account_id, paused())
        else:
            await changes.suspend(scene.account_id)
    for what in ("suspension", "pause") if last == "pause" else ("pause", "suspension"):
        assert await scene.claim() == []
        if what == "pause":
            await pauses.change(scene.account_id, resumed)
        else:
            await changes.resume(scene.account_id)
    assert ids_of(await scene.claim()) == [made]


async def test_a_paused_lane_stays_so_when_the_account_is_resumed(scene: Scene) -> None:
    def pause_lane(before: LaneSettings) -> LaneSettings:
        return replace(before, pause=Pause("x"))

    await scene.create(lane="a")
    await scene.store.lanes.change(scene.account_id, "a", pause_lane)
    await scene.store.pauses.change(scene.account_id, paused())
    await scene.store.pauses.change(scene.account_id, resumed)
    assert await scene.claim() == []


@pytest.mark.time_passes
@pytest.mark.parametrize("fields", [{}, LANED])
async def test_a_pause_with_an_end_lets_go_by_itself(scene: Scene, fields: dict[str, Any]) -> None:
    pauses, until_ms = scene.store.pauses, await scene.clock.now_ms() + 200
    made = await scene.create(**fields)
    await pauses.change(scene.account_id, paused("ops", until_ms))
    batch = await scene.batch()
    assert (batch.invocations, batch.next_look_ms) == ([], until_ms)
    await scene.clock.pass_ms(201)
    assert (await pauses.read(scene.account_id)).pause is None
    claimed = await scene.claim() or await scene.claim()
    assert ids_of(claimed) == [made]
    assert claimed[0].slot_us == 1000 * until_ms


@pytest.mark.time_passes
async def test_a_change_after_its_end_ends_it_before_a_claim_does(scene: Scene) -> None:
    pauses, made = scene.store.pauses, await scene.create()
    await pauses.change(scene.account_id, paused("ops", await scene.clock.now_ms() + 100))
    await scene.clock.pass_ms(101)
    noted = await pauses.change(scene.account_id, lambda before: replace(before, note="x"))
    assert replace(noted, etag=None) == AccountSettings(note="x")
    assert ids_of(await scene.claim()) == [made]


@pytest.mark.time_passes
async def test_an_end_that_is_taken_away_does_not_come(scene: Scene) -> None:
    pauses, until_ms = scene.store.pauses, await scene.clock.now_ms() + 100
    await scene.create()
    first = (await pauses.change(scene.account_id, paused("ops", until_ms))).pause
    now = (await pauses.change(scene.account_id, paused("ops"))).pause
    assert first is not None
    assert now == replace(first, until_ms=None)
    await scene.clock.pass_ms(101)
    assert await scene.claim() + await scene.claim() == []
    await pauses.change(scene.account_id, resumed)


async def test_a_write_bound_to_other_settings_changes_nothing(scene: Scene) -> None:
    pauses, key = scene.store.pauses, scene.base + keys.ACCOUNT
    old = (await pauses.read(scene.account_id)).etag or ""
    await pauses.change(scene.account_id, paused(), [old])
    before = await scene.redis.hgetall(key)
    with pytest.raises(PreconditionFailed):
        await pauses.change(scene.account_id, resumed, [old])
    assert await scene.redis.hgetall(key) == before


def reported(callback: AccountCallback | None) -> Callable[[AccountSettings], AccountSettings]:
    return lambda before: replace(before, callback=callback)


async def test_the_default_callback_stays_beside_a_pause_and_its_etag_covers_it(
    scene: Scene,
) -> None:
    pauses, account_id = scene.store.pauses, scene.account_id
    etags = [(await pauses.read(account_id)).etag]
    for callback in (
        AccountCallback("https://example.com/ended"),
        AccountCallback("https://example.com/ended", CallbackOn.FAILED),
        AccountCallback("https://example.com/ended-too", CallbackOn.FAILED),
    ):
        assert (await pauses.change(account_id, reported(callback))).callback == callback
        for other in (paused(), resumed):
            assert (await pauses.change(account_id, other)).callback == callback
        etags.append((await pauses.read(account_id)).etag)
    assert len(set(etags)) == 4
    removed = await pauses.change(account_id, reported(None))
    assert (removed.callback, removed.etag) == (None, etags[0])
    # What is pending still has where to go.
    left = await scene.redis.hgetall(scene.base + keys.CALLBACK)
    assert left == {b"url": b"https://example.com/ended-too"}


async def test_of_two_that_set_the_callback_at_once_both_changes_stand(scene: Scene) -> None:
    pauses, callback = scene.store.pauses, AccountCallback("https://example.com/ended")
    await asyncio.gather(
        pauses.change(scene.account_id, reported(callback)),
        pauses.change(scene.account_id, lambda before: replace(before, note="x")),
    )
    found = await pauses.read(scene.account_id)
    assert (found.callback, found.note) == (callback, "x")


async def test_a_repeat_after_a_lost_reply_undoes_no_later_write(scene: Scene) -> None:
    pauses, server, lost = scene.store.pauses, scene.store.server, list[Script]()
    run = server.run

    async def lossy(script: Script, key: str, arguments: Any) -> Any:
        reply = await run(script, key, arguments)
        if script.path == "accounts/pause" and len(arguments) > 1 and not lost:
            lost.append(script)
            await pauses.change(scene.account_id, resumed)
            raise OutcomeUnknown("The reply was lost")
        return reply

    old = (await pauses.read(scene.account_id)).etag or ""
    with patch.object(server, "run", lossy):
        assert (await pauses.change(scene.account_id, paused(), [old])).pause is None
    assert lost


async def test_no_account_and_a_damaged_one(scene: Scene) -> None:
    nobody = ids.account_id(scene.shard, "22222222")
    for call in (scene.store.pauses.read(nobody), scene.store.pauses.change(nobody, paused())):
        with pytest.raises(NotFound):
            await call
    await scene.redis.hset(scene.base + keys.ACCOUNT, mapping={"paused": 1, "paused_until": "x"})
    with pytest.raises(Unreadable):
        await scene.store.pauses.read(scene.account_id)
    await scene.redis.hdel(scene.base + keys.ACCOUNT, "paused", "paused_until")
    for on, url in ((b"never", b"https://example.com/"), (b"failed", b"\xff")):
        await scene.redis.hset(scene.base + keys.CALLBACK, mapping={"on": on, "url": url})
        with pytest.raises(Unreadable):
            await scene.store.pauses.read(scene.account_id)
