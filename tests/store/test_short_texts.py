"""Common texts of a stored request are short, and come back as they were spelt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.models import Request
from scheduler.store.secrecy import Secrecy
from scheduler.store.stored import open_claimed, open_request, pack_request, unpack_request
from scheduler.target.http import TOKEN, VALUE
from scheduler.target.short_texts import NAMES, VALUES, short_headers, spelt_headers

# Any letter case of a common name, and any name and value that a header may have.
_CASES = st.sampled_from(NAMES).flatmap(lambda name: st.sampled_from([name, *_cases(name)]))
_NAME = _CASES | st.from_regex(TOKEN, fullmatch=True)
_VALUE = st.sampled_from(VALUES) | st.from_regex(VALUE, fullmatch=True)


def _cases(name: str) -> tuple[str, ...]:
    return name.upper(), name.lower(), name.title(), name.swapcase()


def _request(headers: dict[str, str]) -> Request:
    return Request(2**41, "POST", "https://example.com/", headers, b"{}")


@given(st.dictionaries(_NAME, _VALUE, max_size=8))
def test_headers_come_back_in_their_spelling_and_order(headers: dict[str, str]) -> None:
    found = unpack_request(pack_request(_request(headers)))
    assert [*found.headers.items()] == [*headers.items()]


@given(st.dictionaries(_NAME, _VALUE, max_size=8))
def test_what_is_short_or_spelt_already_stays_as_it_is(headers: dict[str, str]) -> None:
    short = short_headers(headers)
    assert short_headers(short) == short
    assert spelt_headers(spelt_headers(short)) == headers


def test_the_character_of_a_text_is_what_it_always_was() -> None:
    """Stored requests have it: a change here is a change of the stored format."""
    assert [*short_headers(dict.fromkeys(NAMES, ""))] == [*map(chr, range(1, len(NAMES) + 1))]
    values = short_headers({f"X-{n}": text for n, text in enumerate(VALUES)}).values()
    assert [*values] == [*map(chr, range(1, len(VALUES) + 1))]
    begin = short_headers({"Content-Type": "application/json", "Authorization": "*/*"})
    assert begin == {"\1": "\1", "\2": "\7"}


def test_no_header_can_have_such_a_character_and_no_text_is_there_twice() -> None:
    for code in range(1, 32):
        assert TOKEN.fullmatch(chr(code)) is None
        assert VALUE.fullmatch(chr(code)) is None
    assert len({*NAMES}) == len(NAMES) < 32
    assert len({*VALUES}) == len(VALUES) < 32
    assert all(TOKEN.fullmatch(name) for name in NAMES)


def test_a_claim_leaves_them_short_and_a_read_does_not() -> None:
    headers = {"content-type": "application/json", "X-Order": "8"}
    stored = pack_request(_request(headers))
    assert open_request(stored, Secrecy()).headers == headers
    claimed = open_claimed(stored, Secrecy())
    assert claimed.headers == short_headers(headers) != headers
    assert pack_request(claimed) == stored
