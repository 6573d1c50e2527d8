"""Names of keys: tags that are even over the slots, and never change."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import ids
from scheduler.store import keys
from tests.scheduler.scene import new_id

SLOTS = 16_384


def test_the_first_tags_are_what_they_always_were() -> None:
    """Data is found by them: a change here is a change of the stored format."""
    assert " ".join(keys.tag(n) for n in range(8)) == "1bz fjl 17p 356 5nw 7l1 h85 b3k"


def test_a_tags_slot_is_what_redis_says() -> None:
    # From the Redis Cluster specification, and `CLUSTER KEYSLOT`.
    assert keys.slot("123456789") == 0x31C3
    assert keys.slot("foo") == 12182


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 6])
def test_shards_are_even_over_the_nodes(nodes: int) -> None:
    for shards in (1, 2, 3, 5, 8, 16, 24, 64, 100, 256):
        on = Counter(keys.slot(keys.tag(shard)) * nodes // SLOTS for shard in range(shards))
        counts = [on[node] for node in range(nodes)]
        assert max(counts) - min(counts) <= (1 if shards in (16, 64, 256) and nodes != 6 else 3)


@given(st.integers(0, SLOTS - 1))
def test_a_shards_slot_is_its_bit_reversed_number(shard: int) -> None:
    assert keys.slot(keys.tag(shard)) == int(f"{shard:014b}"[::-1], 2)


def test_all_of_a_shard_lies_in_one_slot_and_no_other_shards() -> None:
    account_id, schedule_id = ids.new_account_id(3), new_id()
    names = [keys.shard(3) + "x", keys.account(account_id), keys.schedule(account_id, schedule_id)]
    assert {name[name.index("{") + 1 : name.index("}")] for name in names} == {keys.tag(3)}
    assert len({keys.tag(shard) for shard in range(256)}) == 256


@pytest.mark.parametrize("text", ["", "acc_", "acc_1_x", "key_00_00000000", "acc_00_00000000\n"])
def test_what_is_no_account_has_no_keys(text: str) -> None:
    with pytest.raises(ValueError, match="not an account id"):
        keys.account(text)
