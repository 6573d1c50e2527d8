"""Callbacks of ended schedules: set with the end, claimed, attempted, ended, and sent again."""

from __future__ import annotations

import pytest

from scheduler.callbacks import Callback, CallbackOn, CallbackState, CallbackStatus
from scheduler.errors import Unreadable
from scheduler.models import Request
from scheduler.store.callback_state import open_callback, pack_callback
from scheduler.store.secrecy import Secrecy
from scheduler.store.stored import open_request, pack_request, seal_request
from tests.scheduler.scene import URL

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


def test_a_state_before_the_first_attempt_says_when_that_is_due() -> None:
    state = open_callback(b"p" + (5000).to_bytes(6, "big"))
    assert state == CallbackState(CallbackStatus.PENDING, next_attempt_at_ms=5000)


@pytest.mark.parametrize("packed", [b"", b"x" + bytes(6), b"p" + bytes(6) + b"\xc1"])
def test_a_damaged_state_is_unreadable(packed: bytes) -> None:
    with pytest.raises(Unreadable):
        open_callback(packed)
