"""Callbacks of ended schedules: set with the end, claimed, attempted, ended, and sent again."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.callbacks import (
    Callback,
    CallbackAttempt,
    CallbackOn,
    CallbackState,
    CallbackStatus,
)
from scheduler.errors import Unreadable
from scheduler.models import Request
from scheduler.store.callback_state import open_callback, pack_callback
from scheduler.store.secrecy import Secrecy
from scheduler.store.stored import open_request, pack_request, seal_request
from tests.store.scene import URL

# An earlier attempt at no moment.
DAMAGED = b"p" + bytes(6) + msgspec.msgpack.encode([1, 0, 0, "", 1, 5, [[1, -(2**60), 0, 0, ""]]])
WISHES = (
    None,
    Callback("https://example.com/ended"),
    Callback("https://example.com/ended", CallbackOn.FAILED),
    Callback(None, CallbackOn.FAILED),
    Callback(""),
)


@pytest.mark.parametrize("wish", WISHES)
def test_a_stored_request_says_where_its_end_is_reported(wish: Callback | None) -> None:
    request = Request(1, "POST", URL, callback=wish, lane="a", reference="b")
    assert open_request(seal_request(request, Secrecy()), Secrecy()) == request


def test_a_request_without_a_callback_has_not_a_byte_of_it() -> None:
    request = Request(1, "POST", URL, timeout_s=5)
    assert len(pack_request(Request(1, "POST", URL, timeout_s=5, callback=Callback(None)))) > len(
        pack_request(request)
    )
    assert pack_request(request)[-1:] == b"\5"


@pytest.mark.parametrize(
    ("wish", "reported"),
    [
        (WISHES[1], [False, True]),
        (WISHES[2], [True]),
        (WISHES[3], [True]),
        (WISHES[4], []),
    ],
)
def test_a_callback_reports_the_ends_that_it_is_for(wish: Callback, reported: list[bool]) -> None:
    assert [failed for failed in (False, True) if wish.reports(failed=failed)] == reported


@pytest.mark.parametrize("status", CallbackStatus)
def test_a_stored_state_is_read_as_it_was(status: CallbackStatus) -> None:
    state = CallbackState(status, 3, 503, 12, "Service Unavailable", 5000, 9000, 2)
    letter, packed = pack_callback(state)
    assert open_callback(letter.encode() + (5000).to_bytes(6, "big") + packed) == state


def test_a_stored_state_has_its_earlier_attempts_and_no_byte_for_none() -> None:
    state = CallbackState(CallbackStatus.PENDING, 3, 503, 12, "Service Unavailable", 5000, 9000, 2)
    earlier = (CallbackAttempt(1, 3000, 0, 1, "Reset"), CallbackAttempt(2, 4000, 500, 7, "Oh"))
    letter, packed = pack_callback(replace(state, earlier=earlier))
    found = open_callback(letter.encode() + (5000).to_bytes(6, "big") + packed)
    assert found == replace(state, earlier=earlier)
    last = CallbackAttempt(3, 5000, 503, 12, "Service Unavailable")
    assert found.made == (*earlier, last)
    assert replace(state, earlier=()).made == (last,)
    plain = msgspec.msgpack.decode(pack_callback(state)[1])
    assert plain == [3, 503, 12, "Service Unavailable", 2, 9000]


def test_a_state_before_the_first_attempt_says_when_that_is_due() -> None:
    state = open_callback(b"p" + (5000).to_bytes(6, "big"))
    assert state == CallbackState(CallbackStatus.PENDING, next_attempt_at_ms=5000)


@pytest.mark.parametrize("packed", [b"", b"x" + bytes(6), b"p" + bytes(6) + b"\xc1", DAMAGED])
def test_a_damaged_state_is_unreadable(packed: bytes) -> None:
    with pytest.raises(Unreadable):
        open_callback(packed)
