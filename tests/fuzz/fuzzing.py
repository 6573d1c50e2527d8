"""One subject, fed for a while: no input breaks a promise, or costs more than its length allows."""

from __future__ import annotations

import time
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.subjects import SUBJECTS

# CPU of this thread, whatever else the machine does. Generous: real faults grow faster.
_BASE_NS = 5_000_000
_NS_A_BYTE = 3_000
_AGAIN = 3

# The largest of inputs; what takes longer than its length allows shows here.
MOST_BYTES = 200_000

_JSON = [
    b'{"targetUrl":"https://example.com/a","triggerAt":"2026-11-20T09:00:00Z"}',
    b'{"targetUrl":"https://example.com/a","delay":"10s","targetHeaders":{"A":"b"}}',
    b'{"targetUrl":"https://example.com/a","delay":9,"reference":"a","onExisting":"replace"}',
    b'{"targetUrl":', b'"triggerAt":', b'"targetHeaders":', b'"targetBody":', b'"targetMethod":',
    b'"delay":', b'"delivery":', b'"expiresAt":', b'"targetBodyText":', b'"targetBodyBase64":',
    b'"schedules":', b'"https://example.com/"', b'"http://[::1]:80/"', b'"http://a.b:99999/"',
    b'"2026-11-20T09:00:00.123+01:00"', b'"0000-00-00T00:00:00Z"', b'"at-most-once"', b'"POST"',
    b'"P1DT2H"', b"{", b"}", b"[", b"]", b",", b":", b'""', b'"\\u0000"', b'"\\ud800"', b'"\\n"',
    b'"timeout":"5s"', b'"timeout":', b'"retries":3', b'"reference":"order-1"', b'"reference":',
    b'"labels":["a"]', b'"labels":[', b'"labels":', b'"retryOn":"any"', b'"retryOn":',
    b'"onExisting":"keep"', b'"onExisting":"replace"', b'"onExisting":', b'"maxWait":"1m"',
    b'"maxWait":', b'"lane":"a:1"', b'"lane":',
    b'"callbackUrl":"https://example.com/b"', b'"callbackUrl":null', b'"callbackOn":"failed"',
    b'"callbackUrl":"default"',
    b"null", b"true", b"1e999", b"-0", b"99999999999999999999", b'"a"', b'{"a":1}', b"\xff",
    b'"\xe2\x80\xae"', b'"Host"', b'"content-length"', b" ", b'"xn--a"', b'"%00%ff"', b"\\",
]  # fmt: skip
_QUERY = [
    b"status=failed", b"status=failed,completed", b",", b"reference=order-1", b"reference=order-*",
    b"scheduleId=sch_01jd3m0000e0080000000000a0", b"scheduleId=", b"lane=a:1", b"lane=",
    b"label=a", b"label=",
    b"targetUrl=http://a/", b"from=2026-11-20T08:00:00Z", b"to=now", b"limit=10",
    b"limit=1e3", b"order=asc", b"cursor=", b"cursor=k88AAAGh_rNOEwC5", b"&", b"=", b"%", b"%00",
    b"%ff", b"+", b";", b"a", b"\xff", b"%2", b"-1", b"from=9999-12-31T23:59:59Z", b"#", b"limit=",
]  # fmt: skip
_ANSWER = [
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 101 Up\r\n",
    b"HTTP/1.0 404 \r\n", b"HTTP/1.1 204 No Content\r\n", b"HTTP/2 200\r\n",
    b"HTTP/1.1 999 \x01\r\n", b"Content-Length: 3\r\n", b"Content-Length: -1\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n",
    b"http/1.1  200 OK\n", b"Content-Length: 3, 3\n", b"A\n",
    b"transfer-encoding : x", b"chunked", b"Connection: close\r\n", b"Upgrade: h2c\r\n", b"\r\n",
    b"\r\n\r\n", b"\n", b"\r", b"3\r\nabc\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n",
    b"1;a=b\r\nx\r\n",
    b"abc", b"A: b\r\n", b" folded\r\n", b"\0", b"\xff", b":", b" ", b"\t", b"1\r\nx\r\n",
]  # fmt: skip
_SETTINGS = [
    b'{"rate":10,"per":"1s"', b'{"rate":1,"per":86400,"burst":1}', b'"rate":', b'"per":',
    b'"burst":',
    b'"parallelism":', b'"note":', b'"paused":true', b'"calmUntil":null', b'"1d"', b'"1h30m"', b"{",
    b"}", b",", b":", b"1", b"100000", b"100001", b"0", b"-1", b"1.5", b"1e5", b"1e999", b"null",
    b"true", b'"x"', b'"\\u0000"', b'"\\ud800"', b"\xff", b" ", b'"a":1', b"[",
]  # fmt: skip
_GRAMMARS = {
    "payload": _JSON,
    "batch": [*_JSON, b'{"schedules":[', b"]}"],
    "query": _QUERY,
    "settings": _SETTINGS,
    "answer": _ANSWER,
}


def run(subject: str, examples: int, number: int | None = None) -> None:
    """Feeds it so many inputs, the same for the same number. Raises what broke, with the smallest
    input that does it."""
    feed = SUBJECTS[subject]

    @given(_inputs(subject))
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=number is None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    def fed(data: bytes) -> None:
        allowed_ns = _BASE_NS + _NS_A_BYTE * len(data)
        took_ns = _cpu_ns(feed, data)
        if took_ns > allowed_ns:  # or something else happened at that moment
            took_ns = min(_cpu_ns(feed, data) for _ in range(_AGAIN))
        assert took_ns <= allowed_ns, f"{len(data):,} bytes took {took_ns / 1e6:.1f} ms"

    (fed if number is None else seed(number)(fed))()


def _cpu_ns(feed: Callable[[bytes], None], data: bytes) -> int:
    began_ns = time.thread_time_ns()
    feed(data)
    return time.thread_time_ns() - began_ns


def _inputs(subject: str) -> st.SearchStrategy[bytes]:
    """Short ones of all kinds, and long ones that say one thing again and again."""
    part = st.sampled_from(_GRAMMARS[subject]) | st.binary(max_size=4)
    short = st.lists(part, max_size=14).map(b"".join)
    bent = st.builds(_bend, short, st.integers(0, 400), st.binary(max_size=2))
    unit = st.lists(part, min_size=1, max_size=3).map(b"".join)
    long = st.builds(_repeat, short, unit, st.integers(1, 50_000), short)
    return short | bent | long


def _bend(data: bytes, at: int, other: bytes) -> bytes:
    """Some bytes of it are others."""
    at = at % (len(data) + 1)
    return data[:at] + other + data[at + 1 :]


def _repeat(before: bytes, unit: bytes, times: int, after: bytes) -> bytes:
    return before + unit * min(times, MOST_BYTES // max(1, len(unit))) + after
