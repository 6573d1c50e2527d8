"""What the answer to a message that failed says of its next attempt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.qstash.heeded import NEVER, heeded, says_something
from worker.send.outcome import asked_ms

NOW_MS = 1_795_161_600_000  # 2026-11-20T08:00:00Z


def head(*lines: str) -> bytes:
    return "\r\n".join(("HTTP/1.1 500 X", *lines, "", "")).encode("latin-1")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), ""),
        (("Content-Type: text/plain",), ""),
        (("Retry-After: 7",), "7"),
        (("retry-after:7",), "7"),
        (("Retry-After: Fri, 20 Nov 2026 08:00:30 GMT",), "Fri, 20 Nov 2026 08:00:30 GMT"),
        (("Retry-After: 6m5s",), "365"),
        (("Retry-After: 1.5s",), "2"),
        (("Retry-After: 200ms",), "1"),
        (("Retry-After: 2s120ms",), "3"),
        (("Retry-After: never",), ""),
        (("X-RateLimit-Reset: 9",), "9"),
        (("x-ratelimit-reset-requests: 1m", "x-ratelimit-reset-tokens: 2m"), "60"),
        (("X-RateLimit-Reset-Tokens: 30",), "30"),
        (("X-RateLimit-Reset: 9", "Retry-After: 8"), "8"),
        (("X-RateLimit-Reset: 9", "Retry-After: "), "9"),
        (("X-RateLimit-Reset-Other: 9",), ""),
        (("Retry-After: " + "9" * 65,), ""),
        (("Upstash-NonRetryable-Error: true",), NEVER),
        (("Retry-After: 8", "upstash-nonretryable-error: TRUE"), NEVER),
        (("Upstash-NonRetryable-Error: false", "Retry-After: 8"), "8"),
    ],
)
def test_the_header_that_counts(lines: tuple[str, ...], said: str) -> None:
    assert heeded(head(*lines)) == said
    assert heeded(bytearray(head(*lines))) == said
    assert says_something(head(*lines)) or not said


@given(st.binary(max_size=80))
def test_any_value_is_a_wait_of_a_day_at_most(value: bytes) -> None:
    said = heeded(head("Retry-After: ")[:-4] + value + b"\r\n\r\n")
    assert 0 <= asked_ms(said, NOW_MS) <= 86_400_000
