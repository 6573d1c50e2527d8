"""Identifiers and API keys."""

from __future__ import annotations

import re
import time
import uuid

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler import ids
from tests.store.scene import new_id

shards = st.integers(min_value=0, max_value=16_383)


def test_a_schedule_id_is_a_typeid_of_a_uuid7() -> None:
    schedule_id = new_id()
    assert re.fullmatch(r"sch_[0-7][0-9a-hjkmnp-tv-z]{25}", schedule_id)
    assert ids.is_schedule_id(schedule_id)
    assert ids.invocation_id(schedule_id) == "inv_" + schedule_id.removeprefix("sch_")
    assert uuid.UUID(bytes=ids.to_bytes(schedule_id)).version == 7


def test_schedule_ids_are_unique_and_sort_by_creation() -> None:
    """By the millisecond of their creation, and within it as they were asked for, even if ids were
    made for a later moment before the clock went back."""
    now_ms = time.time_ns() // 1_000_000
    ids.new_schedule_ids(1, now_ms + 10_000)
    calls = [ids.new_schedule_ids(1 + n % 9, now_ms + n // 100) for n in range(2000)]
    made = [each for call in calls for each in call]
    assert len(set(made)) == len(made)
    assert made == sorted(made)
    assert [ids.created_at_ms(each) for each in made] == [
        now_ms + n // 100 for n, call in enumerate(calls) for _ in call
    ]


@given(st.integers(0, (1 << 128) - 3000), st.integers(1, 2100))
@example((5 << 20) - 3, 1030)
def test_each_id_follows_the_one_before(first: int, count: int) -> None:
    made = ids.schedule_ids_from(first, count)
    numbers = [int.from_bytes(ids.to_bytes(each), "big") for each in made]
    assert numbers == list(range(first, first + count))
    assert all(map(ids.is_schedule_id, made))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "inv_01jd3v9x8kfw3s9s2m2v2v2v2v",
        "sch_01JD3V9X8KFW3S9S2M2V2V2V2V",
        "sch_81jd3v9x8kfw3s9s2m2v2v2v2v",
        "sch_01jd3v9x8kfw3s9s2m2v2v2v2",
        "sch_01jd3v9x8kfw3s9s2m2v2v2v2v\n",
        "sch_01jd3v9x8kfw3s9s2m2v2v2v2v:x",
        "sch_\u06601jd3v9x8kfw3s9s2m2v2v2v2v",
    ],
)
def test_what_is_no_schedule_id_is_told_apart(text: str) -> None:
    assert not ids.is_schedule_id(text)


@given(shards)
def test_account_and_key_ids_carry_their_shard(shard: int) -> None:
    for make, prefix, other in ((ids.new_account_id, "acc", "key"), (ids.new_key_id, "key", "acc")):
        made = make(shard)
        assert ids.parse_sharded(made, prefix) == (shard, made.rpartition("_")[2])
        assert made.startswith(f"{prefix}_{shard:02d}_")
        assert ids.parse_sharded(made, other) is None


@given(shards)
def test_an_api_key_names_its_shard_and_has_43_safe_characters(shard: int) -> None:
    key = ids.new_api_key(shard)
    assert re.fullmatch(r"pd_[0-9]{2,5}_[A-Za-z0-9_-]{43}", key)
    assert ids.api_key_shard(key) == shard
    assert ids.api_key_prefix(key) == key[: len(f"pd_{shard:02d}_") + 6]
