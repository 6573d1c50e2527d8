"""Cursors that lead to the entry which another one leaves behind."""

from __future__ import annotations

import pytest

from scheduler.store.queries.timeline import (
    ENDED,
    WAITING,
    Place,
    decode_cursor,
    encode_cursor,
    just_before,
    place_in,
    rest_of,
    span,
    stream_place,
)

IDS = ["01k8zv5x7nfxqv3d1m2c4b5a60", "01k8zv5x7nfxqv3d1m2c4b5a61", "01k8zv5x7nfxqv3d1m2c4b5a6z"]


@pytest.mark.parametrize("down", [True, False])
@pytest.mark.parametrize("place", range(1, 5))
def test_what_a_cursor_names_comes_first_behind_the_one_before_it(place: int, down: bool) -> None:
    chunk = stream_place(b"1700000000000-7")
    around = [stream_place(b"1700000000000-6", last=True), *(place_in(chunk, n) for n in range(3))]
    around += [stream_place(b"1700000000000-8"), *(Place(chunk.ms, WAITING, each) for each in IDS)]
    for one in (around[place], around[-1 - place % len(IDS)]):
        behind = span(None, None, just_before(encode_cursor(one), down=down), down=down)
        left = [each for each in around if behind.has(each)]
        assert left == [each for each in around if (each <= one if down else each >= one)]


@pytest.mark.parametrize("down", [True, False])
def test_so_do_entries_of_a_chunk(down: bool) -> None:
    chunk = stream_place(b"1700000000000-0")
    for index in range(3):
        cursor = just_before(encode_cursor(place_in(chunk, index)), down=down)
        rest = rest_of(chunk, 3, span(None, None, cursor, down=down))
        assert list(rest) == list(range(index, -1, -1) if down else range(index, 3))


def test_before_the_first_entry_of_a_moment_is_its_edge() -> None:
    first = encode_cursor(Place(1_700_000_000_000, ENDED, "0" * 25))
    assert decode_cursor(just_before(first, down=False)) == Place(1_700_000_000_000)
