"""What `Upstash-Redact-Fields` hides."""

from __future__ import annotations

import hashlib

import pytest

from scheduler.models import Request
from scheduler.qstash.carried import Carried
from scheduler.qstash.redacted import redacted

REQUEST = Request(0, "POST", "https://example.com/", {"X-One": "1", "x-two": "2"}, b"secret")


def mark(value: bytes) -> str:
    return "REDACTED:" + hashlib.sha256(value).hexdigest()


BODY, ONE, TWO = mark(b"secret").encode(), mark(b"1"), mark(b"2")


@pytest.mark.parametrize(
    ("named", "headers", "body"),
    [
        ("", {"X-One": "1", "x-two": "2"}, b"secret"),
        ("body", {"X-One": "1", "x-two": "2"}, BODY),
        ("header", {"X-One": ONE, "x-two": TWO}, b"secret"),
        ("headers", {"X-One": ONE, "x-two": TWO}, b"secret"),
        ("header[x-one]", {"X-One": ONE, "x-two": "2"}, b"secret"),
        ("body,headers[X-Two]", {"X-One": "1", "x-two": TWO}, BODY),
        ("body, header[X-One], header[X-Two]", {"X-One": ONE, "x-two": TWO}, BODY),
        ("header[],bodies,x", {"X-One": "1", "x-two": "2"}, b"secret"),
    ],
)
def test_only_what_is_named_is_hidden(named: str, headers: dict[str, str], body: bytes) -> None:
    found = redacted(REQUEST, Carried(redacted=named))
    assert (found.headers, found.body) == (headers, body)
    assert found.url == REQUEST.url


def test_a_schedule_that_is_no_message_is_shown_as_it_is() -> None:
    assert redacted(REQUEST, None) is REQUEST
