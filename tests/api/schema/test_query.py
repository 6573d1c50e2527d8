"""Query strings: typed values, or every bad parameter."""

from __future__ import annotations

import json
from urllib.parse import quote, urlencode

import pytest

from api.calls.bulk import FAILED, parse_selection
from api.calls.stats import log_query, period
from api.schema.query import LOGGED_BY_DEFAULT, OF_LOGS, OF_SCHEDULES, PERIOD, read_query
from scheduler.errors import FieldError, InvalidRequest
from scheduler.masks import MASK
from scheduler.models import LogStatus
from scheduler.store.log.logs import LogQuery
from scheduler.times import parse_iso8601
from tests.api.schema.test_fields import NO_LABEL, NO_LANE
from tests.store.scene import new_id

NOW, AT = "2026-11-20T08:00:12.345Z", "2026-11-20T08:00:00Z"
BEFORE_1970 = "1970-01-01T00:00:00Z 2026-11-01T00:00:00Z"


def logs(text: str) -> LogQuery:
    return log_query(read_query(text.encode(), OF_LOGS))


def stats(text: str) -> tuple[int, int]:
    return period(read_query(text.encode(), PERIOD), parse_iso8601(NOW))


def bad_fields(text: str, read: object = logs) -> list[str]:
    with pytest.raises(InvalidRequest) as caught:
        read(text)  # type: ignore[operator]
    return [detail.field for detail in caught.value.details]


def test_the_defaults_are_50_newest_first() -> None:
    assert LOGGED_BY_DEFAULT == ("scheduled", "completed", "failed", "cancelled")
    assert logs("") == LogQuery(LOGGED_BY_DEFAULT, None, None, None, 50, True, None)


def test_every_parameter_is_read() -> None:
    text = (
        "status=failed&targetUrl=https://example.com/a?b%3Dc%26d%3D%C3%A9%2B%20f&limit=100"
        "&from=2026-11-20T08:00:00Z&to=2026-11-20T10:00:00%2B01:00&order=asc&cursor=opaque%3D"
    )
    from_ms, to_ms = (parse_iso8601(f"2026-11-20T0{hour}:00:00Z") for hour in (8, 9))
    url = "https://example.com/a?b=c&d=é+ f"
    assert logs(text) == LogQuery((LogStatus.FAILED,), url, from_ms, to_ms, 100, False, "opaque=")


def test_a_plus_that_was_not_escaped_is_still_an_offset() -> None:
    assert logs("from=2026-11-20T10:00:00+02:00").from_ms == parse_iso8601("2026-11-20T08:00:00Z")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [*LOGGED_BY_DEFAULT]),
        ("status=all", list(LogStatus)),
        ("status=failed", ["failed"]),
        ("status=retrying,failed,scheduled", ["scheduled", "retrying", "failed"]),
        ("status=executed", ["completed", "failed"]),
        ("status=cancelled,executed,failed", ["completed", "failed", "cancelled"]),
        ("status=failed&status=cancelled", ["failed", "cancelled"]),
    ],
)
def test_statuses_are_a_list_in_any_order(text: str, expected: list[str]) -> None:
    assert list(logs(text).statuses) == expected


@pytest.mark.parametrize(
    "text", ["", "done", "failed,", "failed,,completed", "failed,failed", "failed&status=failed"]
)
def test_a_bad_list_of_statuses_is_named_with_the_words_it_may_have(text: str) -> None:
    words = "scheduled, retrying, completed, failed, cancelled, skipped, executed, all"
    with pytest.raises(InvalidRequest) as caught:
        logs(f"status={text}")
    message = f"It must be one or more of {words}, each once."
    assert caught.value.details == [FieldError("status", message)]


def test_the_entries_of_one_schedule_come_the_oldest_first() -> None:
    asked = f"scheduleId={new_id()}"
    assert logs(asked).statuses == LOGGED_BY_DEFAULT
    assert (logs(asked).descending, logs(asked + "&order=desc").descending) == (False, True)


@pytest.mark.parametrize("limit", ["1", "100"])
def test_a_limit_from_1_to_100_is_taken(limit: str) -> None:
    assert logs(f"limit={limit}").limit == int(limit)


LIMITS = ("0", "101", "", "5.0", "%C2%B2", "9" * 5000)
BAD = "order=up status= from=yesterday to=2026-13-01T00:00:00Z Limit=5 limit=5&limit=5"
BAD += " scheduleId=sch_1"
BAD_URLS = (f"targetUrl={'a' * 8193}", f"targetUrl=https://a.example/?token={quote(MASK)}")


@pytest.mark.parametrize("text", [*BAD.split(), *BAD_URLS, *(f"limit={n}" for n in LIMITS)])
def test_a_bad_parameter_is_named(text: str) -> None:
    assert bad_fields(text) == [text.partition("=")[0]]


RULE = "rec_0000000000ewa87q9axa9833sj"
NO_FILTER = "It must be a reference, or how references begin and a * behind that."
NO_RULE = "It must be the id of a recurring schedule."
BAD_FILTERS = {
    ("lane", NO_LANE): ("a*", ""),
    ("reference", NO_FILTER): ("", "a b", "é", "a" * 130),
    ("label", NO_LABEL): ("", "a,b", " a", "é", "a" * 65),
    ("recurringId", NO_RULE): ("report", f"sch_{RULE[4:]}", RULE.upper(), ""),
}


@pytest.mark.parametrize(
    ("name", "says", "text"),
    [(*named, text) for named, texts in BAD_FILTERS.items() for text in texts],
)
def test_a_filter_that_names_nothing_is_refused_everywhere(name: str, says: str, text: str) -> None:
    query = urlencode({name: text}).encode()
    body = json.dumps({"status": "failed", name: text}).encode()
    for read in (
        lambda: read_query(query, OF_SCHEDULES),
        lambda: read_query(query, OF_LOGS),
        lambda: parse_selection(body, "/path", FAILED),
    ):
        with pytest.raises(InvalidRequest) as caught:
            read()
        assert caught.value.details == [FieldError(name, says)]


@pytest.mark.parametrize("text", ["limit=%FF", "a=1&" * 200, "limit=é"])
def test_what_is_no_query_string_is_refused(text: str) -> None:
    assert bad_fields(text) == ["query"]


@pytest.mark.parametrize("read", [logs, stats])
def test_a_period_may_not_end_before_it_begins(read: object) -> None:
    text = "from=2026-11-20T08:00:00.001Z&to=2026-11-20T08:00:00Z"
    assert bad_fields(text, read) == ["from"]


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        # From a whole minute, and as long as a clock slightly ahead may have recorded something.
        ("", NOW, "2026-10-21T08:01:00Z 2026-11-20T08:00:13Z"),
        # Without `to` it ends now, and without `from` it has 30 days.
        ("from=2026-11-01T00:00:00.007Z", NOW, "2026-11-01T00:00:00.007Z 2026-11-20T08:00:13Z"),
        ("to=2026-11-01T00:00:00Z", NOW, "2026-10-02T00:00:00Z 2026-11-01T00:00:00Z"),
        # What lies before 1970 becomes 1970.
        ("from=0001-01-01T00:00:00%2B23:59&to=2026-11-01T00:00:00Z", NOW, BEFORE_1970),
        # One that ends where it begins is empty, not wrong.
        (f"from={AT}&to={AT}", NOW, f"{AT} {AT}"),
    ],
)
def test_a_period_has_30_days_by_default(text: str, now: str, expected: str) -> None:
    found = period(read_query(text.encode(), PERIOD), parse_iso8601(now))
    assert found == tuple(map(parse_iso8601, expected.split()))


def test_a_period_from_the_future_needs_an_end() -> None:
    assert bad_fields("from=2027-01-01T00:00:00Z", stats) == ["from"]
