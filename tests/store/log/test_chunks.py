"""The log in chunks: all entries of an account in a call lie in one, and no answer shows it."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.errors import Unreadable
from scheduler.models import Request, Status
from scheduler.store.log.entries import entry, pack_chunk, unpack_chunk
from tests.store.log.chunks import logged
from tests.store.scene import COMPLETED, URL, Scene, ids_of, new_id

REQUEST = Request(5, "GET", URL)


async def test_what_one_call_records_of_an_account_is_one_chunk(scene: Scene) -> None:
    [other] = await scene.neighbours(1)
    for n in range(5):
        await scene.create(-100 + n)
        await scene.create(-100 + n, account_id=other)
    claimed = await scene.claim()
    assert await scene.ack(claimed) == [1] * 10
    for account_id in (scene.account_id, other):
        theirs = Scene(scene.store, scene.clock, account_id)
        assert await logged(theirs) == [5]
        entries = await theirs.log(descending=False)
        assert ids_of(entries) == ids_of(c for c in claimed if c.account_id == account_id)
        moments = {entry.executed_at_ms for entry in entries}
        assert len(moments) == 1
        ended = [await scene.store.schedules.get(account_id, each) for each in ids_of(entries)]
        assert {each.ended_at_ms for each in ended} == moments
        await theirs.assert_sound()


async def test_of_hundreds_logged_one_by_one_the_index_has_all(valkey_scene: Scene) -> None:
    """A server trims an index by whole nodes of a hundred entries, so that fewer would not show."""
    scene, count = valkey_scene, 250
    made = await scene.create_many(count, await scene.clock.now_ms() - 1000)
    for invocation in await scene.claim(most=count):
        assert await scene.ack([invocation]) == [1]
    for query in ({"statuses": (Status.COMPLETED,)}, {"url": URL}):
        assert sorted(ids_of(await scene.log(**query))) == sorted(made)


@pytest.mark.parametrize("size", [1, 7, 8, 15, 16, 200])
def test_a_chunk_of_many_entries_is_compressed_and_one_that_is_cut_is_no_chunk(size: int) -> None:
    entries = [entry(new_id(), REQUEST, COMPLETED, n) for n in range(size)]
    packed = pack_chunk(entries)
    assert [each.lateness_ms for _, each in unpack_chunk(packed)] == list(range(size))
    assert (len(packed) < len(msgspec.msgpack.encode(entries)) / 2) is (size >= 8)
    for length in range(len(packed)):
        with pytest.raises(Unreadable):
            unpack_chunk(packed[:length])
