"""Which rollups a period needs, and what lateness counts as."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.rollups import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    SECONDS_KEPT_MS,
    Cover,
    buckets_of,
    cover,
)
from tests.store.clocks import START_MS

WIDTHS = {"day": (HOUR_MS, DAY_MS), "hour": (MINUTE_MS, HOUR_MS), "minute": (SECOND_MS, MINUTE_MS)}

# Moments near now, near where single seconds are gone, and near borders of every level.
moments = st.one_of(
    st.integers(START_MS - 40 * DAY_MS, START_MS + DAY_MS),
    st.builds(
        lambda border, width, offset: border // width * width + offset,
        st.integers(START_MS - 40 * DAY_MS, START_MS),
        st.sampled_from([SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS]),
        st.integers(-2, 2),
    ),
    st.integers(START_MS - SECONDS_KEPT_MS - 2 * MINUTE_MS, START_MS - SECONDS_KEPT_MS + MINUTE_MS),
)


def pieces(found: Cover) -> list[tuple[int, int]]:
    """The stretches of time that a cover has, ranges and log alike, in order."""
    covered = list(found.stretches)
    for rollup, first, last in found.ranges:
        level, _, number = rollup.partition(":")
        width, whole = WIDTHS[level]
        start = int(number) * whole
        assert 0 <= first <= last < whole // width
        covered.append((start + first * width, start + (last + 1) * width))
    return sorted(covered)


@given(moments, moments)
def test_a_cover_has_every_millisecond_exactly_once(one: int, other: int) -> None:
    from_ms, to_ms = sorted((one, other))
    covered = pieces(cover(from_ms, to_ms, START_MS))
    position = from_ms
    for start, end in covered:
        assert start == position
        assert end > start
        position = end
    assert position == to_ms


@given(moments, moments)
def test_a_plan_never_needs_seconds_that_are_gone(one: int, other: int) -> None:
    from_ms, to_ms = sorted((one, other))
    for rollup, first, _ in cover(from_ms, to_ms, START_MS).ranges:
        level, _, number = rollup.partition(":")
        if level == "minute":
            start_ms = int(number) * MINUTE_MS + first * SECOND_MS
            assert start_ms >= START_MS - SECONDS_KEPT_MS


@pytest.mark.parametrize("length_ms", [0, -1, -DAY_MS])
def test_an_empty_period_needs_nothing(length_ms: int) -> None:
    assert cover(START_MS, START_MS + length_ms, START_MS) == Cover([], [])


@pytest.mark.parametrize(
    ("late_ms", "name"),
    [
        *((0, "b0"), (60_000, "b11"), (60_001, "b14"), (299_000, "b15"), (900_000, "b16")),
        *((1_800_000, "b17"), (3_600_000, "b12"), (3_600_001, "b13")),
    ],
)
def test_a_stored_bucket_keeps_its_bound(late_ms: int, name: str) -> None:
    assert buckets_of([], [late_ms, late_ms]) == {name: 2}
