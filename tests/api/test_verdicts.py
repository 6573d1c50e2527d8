"""The stored verdicts on a batch's items."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from api.batch import pack_verdicts, unpack_verdicts
from api.limits import MAX_ITEMS

NOW_MS = 1_795_161_600_000


@given(st.lists(st.booleans(), min_size=1, max_size=MAX_ITEMS), st.integers(0, 2**48 - 1))
def test_they_come_back_as_they_were(accepted: list[bool], at_ms: int) -> None:
    packed = pack_verdicts(accepted, at_ms)
    expected = (accepted, None if all(accepted) else at_ms)
    assert unpack_verdicts(packed, len(accepted)) == expected


def test_where_all_were_accepted_nothing_is_kept_and_else_a_bit_for_each() -> None:
    assert pack_verdicts([True] * MAX_ITEMS, NOW_MS) == b""
    assert len(pack_verdicts([True] * (MAX_ITEMS - 1) + [False], NOW_MS)) == 6 + MAX_ITEMS // 8
    assert len(pack_verdicts([False, True], NOW_MS)) == 6 + 1
