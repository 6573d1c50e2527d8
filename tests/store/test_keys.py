"""Names of keys: tags that are even over the slots, and never change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler import ids
from scheduler.store import keys
from tests.store.scene import new_id

SLOTS = 16_384


def test_the_first_tags_are_what_they_always_were() -> None:
    """Data is found by them: a change here is a change of the stored format."""
    assert " ".join(keys.tag(n) for n in range(8)) == "1bz fjl 17p 356 5nw 7l1 h85 b3k"


@given(st.integers(0, SLOTS - 1))
def test_a_shards_slot_is_its_bit_reversed_number(shard: int) -> None:
    assert keys.slot(keys.tag(shard)) == int(f"{shard:014b}"[::-1], 2)


def test_all_of_a_shard_lies_in_one_slot_and_no_other_shards() -> None:
    account_id, schedule_id = ids.new_account_id(3), new_id()
    names = [keys.shard(3) + "x", keys.account(account_id), keys.schedule(account_id, schedule_id)]
    assert {name[name.index("{") + 1 : name.index("}")] for name in names} == {keys.tag(3)}
    assert len({keys.tag(shard) for shard in range(256)}) == 256


def test_a_prefix_tells_itself_from_a_key() -> None:
    account_id = ids.new_account_id(3)
    for each in (keys.shard(3), keys.account(account_id)):
        assert keys.is_prefix(each)
        assert keys.is_prefix(each.encode())
    beside = (keys.META, keys.WORKERS, keys.SERVICE_EVENTS, keys.ACTS, keys.NAME + "a}")
    below = (keys.shard(3) + keys.HEADS, keys.schedule(account_id, new_id()))
    for each in (*beside, *below):
        assert not keys.is_prefix(each)
        assert not keys.is_prefix(each.encode())


@given(st.text().map(lambda name: keys.NAME + name) | st.just(keys.ACTS) | st.just(keys.META))
def test_what_is_written_before_a_wait_lies_in_the_keys_slot_and_is_of_no_user(key: str) -> None:
    marker = keys.waited(key)
    assert keys.slot_of(marker) == keys.slot_of(key)
    tag = marker.removeprefix("pd:{").removesuffix("}waited")
    assert tag.isascii()
    assert tag.isalnum()
    assert marker == f"pd:{{{tag}}}waited"


def test_a_shard_has_one_key_to_write_before_a_wait() -> None:
    account_id = ids.new_account_id(3)
    of_it = [keys.shard(3), keys.account(account_id), keys.account(account_id) + keys.EVENTS]
    assert {keys.waited(key) for key in of_it} == {keys.shard(3) + keys.WAITED}
