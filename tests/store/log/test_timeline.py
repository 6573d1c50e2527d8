"""Places, cursors and merging: nothing skipped, nothing repeated, whatever the pages."""

from __future__ import annotations

import base64
import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.errors import InvalidRequest
from scheduler.store.queries.timeline import (
    EDGE,
    ENDED,
    WAITING,
    Found,
    Place,
    Span,
    decode_cursor,
    encode_cursor,
    merge,
    span,
)

ms = st.integers(0, 2**53)
digits = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 99_999)).map(
    lambda each: f"{each[0]:020}{each[1]:05}"
)
places = st.one_of(
    st.builds(Place, ms),
    st.builds(Place, ms, st.just(ENDED), digits),
    st.builds(Place, ms, st.just(WAITING), st.text(max_size=26)),
)
few_places = st.builds(
    Place, st.integers(0, 5), st.sampled_from([ENDED, WAITING]), st.sampled_from("abc")
)


@given(places)
def test_a_cursor_leads_back_to_its_place(place: Place) -> None:
    cursor = encode_cursor(place)
    assert decode_cursor(cursor) == place
    assert cursor.replace("-", "").replace("_", "").isalnum()


@given(st.text())
def test_any_other_text_is_refused_or_a_place_that_can_be(text: str) -> None:
    with contextlib.suppress(InvalidRequest):
        assert 0 <= decode_cursor(text).ms <= 2**53


MADE_UP = [
    [], [1], {"ms": 1}, [-1, EDGE, ""], [2**53 + 1, EDGE, ""], [2**70, EDGE, ""], [1, 2, ""],
    [1, -2, ""], [1, EDGE, "x"], [1, ENDED, ""], [1, ENDED, "abc"], [1, ENDED, "-1"],
    [1, ENDED, "²"], [1, ENDED, "1".zfill(20)], [1, ENDED, "-1".zfill(25)],
    [1, ENDED, f"{2**64}00000"], [1, ENDED, "1".zfill(26)], ["1", EDGE, ""],
]  # fmt: skip


@pytest.mark.parametrize("values", MADE_UP, ids=repr)
def test_a_made_up_cursor_is_refused(values: object) -> None:
    try:
        packed = msgspec.msgpack.encode(values)
    except OverflowError:
        packed = b"\xcf"
    text = base64.urlsafe_b64encode(packed).rstrip(b"=").decode()
    if values == [1]:
        assert decode_cursor(text) == Place(1)
        return
    with pytest.raises(InvalidRequest, match="not a cursor"):
        decode_cursor(text)


def test_a_cursor_never_leads_out_of_the_period() -> None:
    place = Place(50, ENDED, "1".zfill(25))
    cursor = encode_cursor(place)
    assert span(10, 90, cursor, down=False) == Span(place, 90, False)
    assert span(10, 90, cursor, down=True) == Span(place, 10, True)
    assert span(60, 90, cursor, down=False).after == Place(60)
    assert span(10, 40, cursor, down=True).after == Place(40)


@given(
    st.lists(st.sets(few_places, max_size=12), min_size=1, max_size=3),
    st.integers(1, 4),
    st.booleans(),
    st.data(),
)
def test_pages_of_several_sources_are_whole_in_order_and_without_repeats(
    sets: list[set[Place]], limit: int, down: bool, data: st.DataObject
) -> None:
    """Sources may stop wherever they like, as long as they get on."""
    sources = [sorted(each, reverse=down) for each in sets]
    expected = sorted((p for each in sources for p in each), reverse=down)
    expected = list(dict.fromkeys(expected))
    sources = [
        [p for p in each if not any(p in b for b in sets[:n])] for n, each in enumerate(sources)
    ]
    stretch = span(None, None, None, down=down)
    found: list[Place] = []
    for _ in range(200):
        read = []
        for source in sources:
            rest = [p for p in source if stretch.past(p, stretch.after)]
            stop = data.draw(st.integers(1, len(rest) + 1))
            part = rest[:stop]
            read.append(Found([(p, p) for p in part], part[-1] if stop < len(rest) else None))
        page = merge(read, limit, stretch)
        assert len(page.entries) <= limit
        found += page.entries
        if page.next is None:
            break
        stretch = stretch._replace(after=page.next)
    assert found == expected
