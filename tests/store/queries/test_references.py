"""References: kept with a schedule whatever becomes of it, counted, and out of the list when it
ends; then dead letters are listed by them, and gone from there when they leave the others.
`Scene.assert_sound` compares both lists with the schedules, and the weights, after each test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from scheduler.errors import Unreadable
from scheduler.models import LogStatus, Request, Schedule
from scheduler.rollups import HOUR_MS
from scheduler.runtime.settings import Settings
from scheduler.store import keys
from scheduler.store.queries.listing import Selection
from scheduler.store.verdict import Verdict
from tests.store.clocks import FakeClock
from tests.store.conftest import SHARDS, open_fake
from tests.store.lifecycle.end.dead_letters import (
    due_at,
    fail,
    letter_ids,
    new_ids,
    replay,
    verdicts,
)
from tests.store.queries.test_searches import NAMES
from tests.store.scene import COMPLETED, FAILED, URL, Scene

pytestmark = pytest.mark.sound
MOST = 6


async def members(scene: Scene, index: str = keys.REFERENCES) -> list[str]:
    found = await scene.redis.zrange(scene.base + index, 0, -1)
    return [each.decode().split("\0")[0] for each in found]


@pytest.mark.parametrize("reference", NAMES)
async def test_what_is_read_is_what_was_given(scene: Scene, reference: str) -> None:
    schedule_id = await scene.create(reference=reference, retries=2)
    assert (await scene.get(schedule_id)).request.reference == reference
    held = await scene.claim_one()
    assert held.request.reference == reference
    [entry] = await scene.log()
    assert entry.reference == reference
    await scene.retry([held], 0)
    await scene.ack([await scene.claim_one()], FAILED)
    assert (await scene.get(schedule_id)).request.reference == reference
    entries = await scene.log(statuses=(LogStatus.RETRYING, LogStatus.FAILED))
    assert [each.reference for each in entries] == [reference] * 2
    assert await members(scene) == []


async def test_without_one_nothing_more_is_stored(scene: Scene) -> None:
    schedule_id = await scene.create()
    stored = await scene.redis.hget(scene.key(schedule_id), "r")
    assert stored[0] == 0x95  # an array of five, and nothing before it
    assert not await scene.redis.exists(scene.base + keys.REFERENCES)


async def cancel(scene: Scene, schedule_id: str) -> object:
    return await scene.cancel(schedule_id)


async def stop(scene: Scene, schedule_id: str) -> object:
    await scene.retry([await scene.claim_one()], 60_000)
    return await scene.cancel(schedule_id)


async def complete(scene: Scene, _: str) -> object:
    return await scene.ack([await scene.claim_one()])


async def fail_it(scene: Scene, _: str) -> object:
    return await scene.ack([await scene.claim_one()], FAILED)


async def lose(scene: Scene, schedule_id: str) -> object:
    return await scene.change(schedule_id, reference=None)


@pytest.mark.parametrize("leave", [cancel, stop, complete, fail_it, lose])
async def test_it_leaves_the_list_as_the_schedule_ends(
    scene: Scene, leave: Callable[[Scene, str], Awaitable[object]]
) -> None:
    """And only that one, of two that have it."""
    schedule_id = await scene.create(reference="order-1")
    other = await scene.create(60_000, reference="order-1")
    await leave(scene, schedule_id)
    [left] = await scene.listed(scene.store.unended, reference="order-1")
    assert left.schedule_id == other


@pytest.mark.parametrize(("before", "after"), [("a", "b"), (None, "b"), ("a", None), ("a", "a")])
async def test_a_change_moves_it(scene: Scene, before: str | None, after: str | None) -> None:
    schedule_id = await scene.create(60_000, reference=before)
    changed = await scene.change(schedule_id, reference=after)
    assert changed.request.reference == after
    assert await scene.get(schedule_id) == changed
    assert await members(scene) == [after] * (after is not None)


@pytest.fixture
def settings() -> Settings:
    return Settings(shards=SHARDS, failed_max=MOST)


async def fail_each(scene: Scene, *references: str | None, **fields: Any) -> list[str]:
    return [(await fail(scene, reference=each, **fields))[0] for each in references]


async def test_a_dead_letter_without_one_has_no_byte_more(scene: Scene) -> None:
    [failed] = await fail(scene)
    assert await scene.redis.zrange(scene.base + keys.FAILED, 0, -1) == [failed[4:].encode()]
    assert not await scene.redis.exists(scene.base + keys.FAILED_REFERENCES)


@pytest.mark.parametrize("after", ["order-1", "order-2", None])
async def test_a_replay_takes_it_out_whatever_reference_it_gets(
    scene: Scene, after: str | None
) -> None:
    replayed, other = await fail_each(scene, "order-1", "order-1")

    def remake(original: Schedule) -> Request:
        made: Request = due_at(2**40)(original)
        return msgspec.structs.replace(made, reference=after)

    for _ in range(2):
        await scene.store.schedules.replay(scene.account_id, replayed, remake)
        assert await letter_ids(scene, reference="*") == [other]
        assert await letter_ids(scene) == [other]


@pytest.mark.harmed
async def test_a_damaged_index_of_references_holds_up_only_what_stands_in_it(
    fake_scene: Scene,
) -> None:
    scene = fake_scene
    [plain], [named] = await fail(scene), await fail_each(scene, "order-1")
    index = scene.base + keys.FAILED_REFERENCES
    await scene.spoil(index)
    with pytest.raises(Unreadable):
        await replay(scene, [named])
    assert verdicts(await replay(scene, [plain])) == [Verdict.DONE]


async def test_all_of_a_reference_are_replayed_each_once(fake_scene: Scene) -> None:
    """Also where the replays fail again during the walk."""
    scene = fake_scene
    made = await fail_each(scene, "b", "a-2", "a-1", None, "a-1")
    cursor, found = None, list[str]()
    while cursor is not None or not found:
        asked = Selection(limit=1, cursor=cursor, reference="a-*")
        done = await scene.store.schedules.replay_failed(scene.account_id, asked, due_at(1))
        found += [each.original for each in done.each]
        cursor = done.next_cursor
        await scene.clock.pass_ms(2)
        await scene.ack(await scene.claim(), FAILED)
    assert found == [*sorted((made[2], made[4])), made[1]]
    assert await members(scene, keys.FAILED_REFERENCES) == ["a-1", "a-1", "a-2", "b"]


async def test_the_oldest_go_by_number_and_only_their_references(fake_scene: Scene) -> None:
    made = list[str]()
    for n in range(3 * MOST):
        made += await fail_each(fake_scene, None if n % 3 == 0 else f"r-{n:02}")
        await fake_scene.clock.pass_ms(5)
        await fake_scene.assert_sound()
    assert await letter_ids(fake_scene) == made[-MOST:]
    assert await members(fake_scene, keys.FAILED_REFERENCES) == ["r-13", "r-14", "r-16", "r-17"]


async def test_the_old_ones_go_by_age(fake_scene: Scene) -> None:
    """They are not listed when they are too old, and are deleted when others come."""
    scene = fake_scene
    await fail_each(scene, "r-1", None, "r-2")
    await scene.clock.pass_ms(100 * HOUR_MS)
    kept = await fail_each(scene, "r-3")
    await scene.clock.pass_ms(69 * HOUR_MS)
    assert await letter_ids(scene, reference="*") == kept
    await fail(scene, 2)
    assert await members(scene, keys.FAILED_REFERENCES) == ["r-3"]
    await scene.clock.pass_ms(100 * HOUR_MS)
    assert await members(scene, keys.FAILED_REFERENCES) == []


async def test_they_are_listed_no_longer_than_dead_letters_are_kept(
    fake_clock: FakeClock, settings: Settings
) -> None:
    """Also where other ended schedules are kept for longer, and they are there as well."""
    changed = {"failed_retention_hours": 1, "schedule_retention_hours": 48}
    store = await open_fake(msgspec.structs.replace(settings, **changed))
    scene = await Scene.of(store, fake_clock, credits=1000)
    [old] = await fail_each(scene, "order-1")
    await scene.clock.pass_ms(HOUR_MS - 1000)
    [new] = await fail_each(scene, "order-2")
    assert await letter_ids(scene, reference="*") == [old, new]
    await scene.clock.pass_ms(2000)
    assert await letter_ids(scene, reference="*") == [new]
    await scene.assert_sound()
    await store.aclose()


async def test_the_reference_counts_until_the_schedule_is_forgotten(fake_scene: Scene) -> None:
    scene, bytes_ = fake_scene, []

    async def stored() -> int:
        return (await scene.store.accounts.stored_bytes(scene.account_id)) or 0

    await fail(scene, reference="order-1", url=URL)
    bytes_.append(await stored())
    await scene.clock.pass_ms(167 * HOUR_MS)
    bytes_.append(await stored())
    await scene.clock.pass_ms(3 * HOUR_MS)
    bytes_.append(await stored())
    weight = keys_weight("order-1")
    plain = await fail(scene, url=URL)
    assert plain
    bytes_.append(await stored())
    assert bytes_[0] == bytes_[1] == bytes_[3] + weight
    assert bytes_[2] == 0


def keys_weight(reference: str) -> int:
    """The reference before the request, 2 bytes; and 64, and the member of the index."""
    return 2 + len(reference) + 64 + len(reference) + 27


async def test_a_replayed_one_counts_as_long_as_others_that_ended(fake_scene: Scene) -> None:
    made = await fail_each(fake_scene, "order-1", "order-2")
    done = await replay(fake_scene, made)
    assert len(new_ids(done)) == 2
    await fake_scene.ack(await fake_scene.claim(most=10), COMPLETED)
    await fake_scene.assert_sound()
    await fake_scene.clock.pass_ms(26 * HOUR_MS)
    assert not await fake_scene.store.accounts.stored_bytes(fake_scene.account_id)
