"""Names of keys: tags that are even over the slots, and never change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler import ids
from scheduler.store import keys
from tests.scheduler.scene import new_id

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
