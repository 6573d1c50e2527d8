"""Query strings: typed values, or every bad parameter."""

from __future__ import annotations

from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.masks import MASK
from api.query import OF_LOGS, PERIOD, read_query
from api.stats import log_query, period
from scheduler.errors import InvalidRequest
from scheduler.models import Status
from scheduler.store.log.logs import LogQuery
from scheduler.times import parse_iso8601

NOW_MS = 1_795_161_612_345  # 2026-11-20T08:00:12.345Z


def logs(text: str) -> LogQuery:
    return log_query(read_query(text.encode(), OF_LOGS))


def stats(text: str) -> tuple[int, int]:
    return period(read_query(text.encode(), PERIOD), NOW_MS)


def bad_fields(text: str, read: object = logs) -> list[str]:
    with pytest.raises(InvalidRequest) as caught:
        read(text)  # type: ignore[operator]
    return [detail.field for detail in caught.value.details]


def test_the_defaults_are_50_newest_first() -> None:
    assert logs("") == LogQuery(None, None, None, None, 50, True, None)


def test_every_parameter_is_read() -> None:
    text = urlencode(
        {
            "status": "failed",
            "targetUrl": "https://example.com/a?b=c&d=é+ f",
            "from": "2026-11-20T08:00:00Z",
            "to": "2026-11-20T10:00:00+01:00",
            "limit": "100",
            "order": "asc",
            "cursor": "opaque=",
        }
    )
    assert logs(text) == LogQuery(
        status=Status.FAILED,
        url="https://example.com/a?b=c&d=é+ f",
        from_ms=parse_iso8601("2026-11-20T08:00:00Z"),
        to_ms=parse_iso8601("2026-11-20T09:00:00Z"),
        limit=100,
        descending=False,
        cursor="opaque=",
    )


def test_a_plus_that_was_not_escaped_is_still_an_offset() -> None:
    assert logs("from=2026-11-20T10:00:00+02:00").from_ms == parse_iso8601("2026-11-20T08:00:00Z")


@pytest.mark.parametrize("limit", ["1", "50", "100", "007"])
def test_a_limit_from_1_to_100_is_taken(limit: str) -> None:
    assert logs(f"limit={limit}").limit == int(limit)


@pytest.mark.parametrize(
    "text",
    [
        "limit=0",
        "limit=101",
        "limit=-1",
        "limit=",
        "limit=ten",
        "limit=5.0",
        "limit=%D9%A3",
        "limit=%C2%B2",
        "limit=" + "9" * 5000,
        "limit=1_0",
        "order=up",
        "order=ASC",
        "status=done",
        "status=",
        "targetUrl=" + "a" * 8193,
        f"targetUrl=https://a.example/?token={quote(MASK)}",
        "from=yesterday",
        "from=",
        "to=2026-13-01T00:00:00Z",
        "page=2",
        "Limit=5",
        "limit=5&limit=5",
        "status=failed&status=completed",
        "page=1&page=2",
    ],
)
def test_a_bad_parameter_is_named(text: str) -> None:
    assert bad_fields(text) == [text.partition("=")[0]]


def test_every_bad_parameter_is_named_at_once() -> None:
    text = "limit=0&order=up&status=done&from=x&to=y&page=2&cursor=a&cursor=b"
    assert set(bad_fields(text)) == {"limit", "order", "status", "from", "to", "page", "cursor"}


@pytest.mark.parametrize("text", ["limit=%FF", "%FF=1", "a=1&" * 200])
def test_what_is_no_query_string_is_refused(text: str) -> None:
    assert bad_fields(text) == ["query"]


def test_a_query_string_that_is_not_ascii_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        read_query("limit=é".encode(), OF_LOGS)


@pytest.mark.parametrize("read", [logs, stats])
def test_a_period_may_not_end_before_it_begins(read: object) -> None:
    text = "from=2026-11-20T08:00:00.001Z&to=2026-11-20T08:00:00Z"
    assert bad_fields(text, read) == ["from"]


def test_a_period_that_ends_where_it_begins_is_empty_not_wrong() -> None:
    moment_ms = parse_iso8601("2026-11-20T08:00:00Z")
    text = "from=2026-11-20T08:00:00Z&to=2026-11-20T08:00:00Z"
    assert stats(text) == (moment_ms, moment_ms)
    wanted = logs(text)
    assert (wanted.from_ms, wanted.to_ms) == (moment_ms, moment_ms)


def test_the_default_period_is_30_days_from_a_whole_minute_to_this_second() -> None:
    from_ms, to_ms = stats("")
    assert to_ms == parse_iso8601("2026-11-20T08:00:13Z")
    assert from_ms == parse_iso8601("2026-10-21T08:01:00Z")


def test_the_default_period_holds_what_a_clock_slightly_ahead_has_recorded() -> None:
    query = read_query(b"", PERIOD)
    assert period(query, parse_iso8601("2026-11-20T08:00:12.999Z"))[1] == parse_iso8601(
        "2026-11-20T08:00:14Z"
    )


def test_without_to_a_period_ends_now_and_without_from_it_has_30_days() -> None:
    from_ms = parse_iso8601("2026-11-01T00:00:00.007Z")
    assert stats("from=2026-11-01T00:00:00.007Z") == (
        from_ms,
        parse_iso8601("2026-11-20T08:00:13Z"),
    )
    assert stats("to=2026-11-01T00:00:00Z") == (
        parse_iso8601("2026-10-02T00:00:00Z"),
        parse_iso8601("2026-11-01T00:00:00Z"),
    )


def test_what_lies_before_1970_becomes_1970() -> None:
    assert stats("from=0001-01-01T00:00:00%2B23:59&to=2026-11-01T00:00:00Z")[0] == 0


def test_a_period_from_the_future_needs_an_end() -> None:
    assert bad_fields("from=2027-01-01T00:00:00Z", stats) == ["from"]


@given(
    st.binary(max_size=60)
    | st.text(alphabet="limitordfgus=&%+;0123456789", max_size=60).map(str.encode)
)
def test_any_query_string_is_a_query_or_an_invalid_request(text: bytes) -> None:
    try:
        log_query(read_query(text, OF_LOGS))
        details = None
    except InvalidRequest as refusal:
        details = refusal.details
    assert details != []
