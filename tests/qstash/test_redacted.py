"""What `Upstash-Redact-Fields` hides."""

from __future__ import annotations

import hashlib

import pytest
from msgspec.structs import replace

from api.dashboard.requests.body import BODIES, BODY, KEPT
from api.dashboard.requests.form import edited, request_given
from api.schema.fields import FIELDS
from scheduler.masks import MASK
from scheduler.models import Request
from scheduler.qstash.carried import Carried, opened, pack
from scheduler.qstash.redacted import redacted, shown_headers, shows_body

REQUEST = Request(0, "POST", "https://example.com/", {"X-One": "1", "x-two": "2"}, b"secret")


def mark(value: bytes) -> str:
    return "REDACTED:" + hashlib.sha256(value).hexdigest()


HIDDEN, ONE, TWO = mark(b"secret").encode(), mark(b"1"), mark(b"2")


@pytest.mark.parametrize(
    ("named", "headers", "body"),
    [
        ("", {"X-One": "1", "x-two": "2"}, b"secret"),
        ("body", {"X-One": "1", "x-two": "2"}, HIDDEN),
        ("header", {"X-One": ONE, "x-two": TWO}, b"secret"),
        ("headers", {"X-One": ONE, "x-two": TWO}, b"secret"),
        ("header[x-one]", {"X-One": ONE, "x-two": "2"}, b"secret"),
        ("Body,headers[X-Two]", {"X-One": "1", "x-two": TWO}, HIDDEN),
        ("body, header[ X-One], header[X-Two]", {"X-One": ONE, "x-two": TWO}, HIDDEN),
        ("header[],bodies,x", {"X-One": "1", "x-two": "2"}, b"secret"),
    ],
)
def test_only_what_is_named_is_hidden(named: str, headers: dict[str, str], body: bytes) -> None:
    found = redacted(REQUEST, Carried(redacted=named))
    assert (found.headers, found.body) == (headers, body)
    assert found.url == REQUEST.url


def test_a_schedule_that_is_no_message_is_shown_as_it_is() -> None:
    assert redacted(REQUEST, opened(None)) is REQUEST


def test_native_calls_and_pages_show_masks_and_no_body() -> None:
    door = pack(Carried(redacted="body,header[x-one]"))
    message = replace(REQUEST, door=door)
    assert shown_headers(message) == {"X-One": MASK, "x-two": "2"}
    assert [shows_body(each) for each in (message, REQUEST)] == [False, True]
    shown = {name: field.shown_in(message) for name, field in FIELDS.items() if field.show}
    assert shown["targetHeaders"] == {"X-One": MASK, "x-two": "2"}
    assert [shown[name] for name in BODIES] == [None] * 3
    given = request_given(message)
    assert given["targetHeaders"] == f"X-One: {MASK}\nx-two: 2"
    assert (given[BODY], given["bodyKind"]) == ("", KEPT)
    # What the form left as it was stays as it is.
    assert edited(given, message) == {}
    assert edited(given | {"retries": "2"}, message) == {"retries": 2}
