"""What the pages are made of: zones, windows, filters, charts. Pure."""

from __future__ import annotations

import zoneinfo
from itertools import pairwise

import pytest

from api.dashboard import formats
from api.dashboard.charts import DAY_MS, HOUR_MS, MINUTE_MS, Axis, Layer, ranges, stacked
from api.dashboard.credits import drawn, spending
from api.dashboard.csrf import masked_token, unmasked_token
from api.dashboard.failures import grouped
from api.dashboard.requests.filters import Filter, read_filter
from api.dashboard.session import our_page
from api.dashboard.timeline import Picture
from api.dashboard.windows import WINDOWS, fitted, stretch_of
from api.dashboard.zones import UTC, Zone, _zone, zone_named
from scheduler.models import LogEntry, LogStatus
from scheduler.rollups import LATENESS_BOUNDS_MS
from scheduler.store.accounts.ledger import Movements
from scheduler.store.log.overview import AccountSnapshot, Point, Series
from scheduler.times import format_iso8601, parse_iso8601

NOW_MS = parse_iso8601("2026-11-21T16:38:05.123Z")


def zone(name: str) -> Zone:
    found = zone_named(name)
    assert found is not None
    return found


def test_zones_are_there_without_the_files_of_the_system() -> None:
    before = zoneinfo.TZPATH
    _zone.cache_clear()
    zoneinfo.ZoneInfo.clear_cache()
    zoneinfo.reset_tzpath(())
    try:
        assert zone_named("Asia/Tokyo") is not None
    finally:
        zoneinfo.reset_tzpath(before)


def test_a_zone_reads_and_tells_local_times() -> None:
    tokyo = zone("Asia/Tokyo")
    assert tokyo.text(NOW_MS) == "2026-11-22T01:38:05.123"
    assert tokyo.moment("2026-11-22T01:38:05.123") == NOW_MS
    assert tokyo.moment(format_iso8601(NOW_MS)) == NOW_MS, "what names its zone is of that"
    for text in ("", "soon", "2026-13-01T00:00"):
        with pytest.raises(ValueError):
            tokyo.moment(text)


@pytest.mark.parametrize("name", ["", "Europe", "/etc/passwd", "../UTC", "a" * 65, "No/Such"])
def test_what_is_no_zone_is_none(name: str) -> None:
    assert zone_named(name) is None


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-11-21", 24)]
)
def test_a_day_is_as_long_as_it_is(day: str, hours: int) -> None:
    noon_ms = parse_iso8601(f"{day}T12:00:00Z")
    stretch = stretch_of("today", noon_ms, zone("Europe/Berlin"))
    assert stretch.points * stretch.step_ms == hours * HOUR_MS
    assert stretch.from_ms <= noon_ms < stretch.to_ms


def test_every_window_has_room_on_a_chart() -> None:
    for name in WINDOWS:
        for each in (UTC, zone("Asia/Kolkata"), zone("America/St_Johns")):
            stretch = stretch_of(name, NOW_MS, each)
            assert 24 <= stretch.points <= 121, name
            assert stretch.from_ms % MINUTE_MS == 0
            if stretch.step_ms % HOUR_MS:
                assert HOUR_MS % stretch.step_ms == 0
            inside = stretch.from_ms <= NOW_MS < stretch.to_ms
            assert inside == (name not in ("yesterday", "tomorrow"))


@pytest.mark.parametrize(
    "length_ms", [1, MINUTE_MS, 5 * HOUR_MS, 3 * DAY_MS, 200 * DAY_MS, 9999 * DAY_MS]
)
def test_any_period_fits(length_ms: int) -> None:
    stretch = fitted(NOW_MS, NOW_MS + length_ms)
    assert 1 <= stretch.points <= 121
    assert stretch.from_ms <= NOW_MS
    assert stretch.to_ms >= NOW_MS + min(length_ms, 400 * DAY_MS)


def test_an_address_says_all_of_a_filter_and_is_read_back() -> None:
    given = {"status": "failed", "q": "a b&c", "answer": "503", "from": "2026-11-20T08:00"}
    wanted, faults = read_filter(given, zone("Asia/Tokyo"), NOW_MS)
    assert faults == {}
    assert wanted.from_ms == parse_iso8601("2026-11-19T23:00:00Z")
    again, _ = read_filter(wanted.pairs(), UTC, NOW_MS)
    assert again == wanted
    assert wanted.address(status=None, q=None) == (
        "/dashboard/requests?answer=503&from=2026-11-19T23%3A00%3A00.000Z"
    )


def test_a_list_has_the_latest_first_but_of_what_is_to_come_the_soonest() -> None:
    assert Filter().descends(NOW_MS)
    assert not Filter(status=LogStatus.SCHEDULED).descends(NOW_MS)
    assert not Filter(from_ms=NOW_MS + 1).descends(NOW_MS)
    assert Filter().is_around_now(NOW_MS)
    assert not Filter(to_ms=NOW_MS - 1).is_around_now(NOW_MS)


AXIS = Axis(NOW_MS // MINUTE_MS * MINUTE_MS - 10 * MINUTE_MS, MINUTE_MS, 20, UTC)


@pytest.mark.parametrize("highest", [0, 1, 2, 3, 7, 19, 120, 5000, 123_456])
def test_bars_stay_in_their_chart_and_every_gridline_has_its_label(highest: int) -> None:
    values = [highest if i == 3 else 0 for i in range(20)]
    chart = stacked("a", "A", 120, AXIS, [Layer("completed", "completed", values)], NOW_MS)
    assert 1 <= len(chart.lines) <= 6
    labels = [line.label for line in chart.lines]
    assert len(set(labels)) == len(labels)
    assert all(labels)
    for column in chart.columns:
        for part in column.parts:
            assert 0 <= part.y <= part.y + part.height <= chart.floor + 0.2
    assert bool(chart.columns[3].parts) == bool(highest)
    assert chart.now is not None
    assert 50 < chart.now < 55


def test_what_is_rare_is_seen_beside_what_is_frequent() -> None:
    kinds = [Layer("failed", "failed", [1] * 20), Layer("completed", "completed", [10_000] * 20)]
    chart = stacked("a", "A", 120, AXIS, kinds, NOW_MS)
    failed, completed = chart.columns[0].parts
    assert (failed.kind, failed.height >= 2, completed.y < failed.y) == ("failed", True, True)
    assert chart.columns[0].words == "Nov 21, 16:28 · 1 failed, 10,000 completed"


def test_labels_of_durations_do_not_meet() -> None:
    for highest in (1.0, 40.0, 900.0, 30_000.0, 3_600_000.0):
        values = [(None, None), (0.0, highest)] * 10
        chart = ranges("r", "R", 130, AXIS, ("p50", "p99"), values, formats.duration)
        places = sorted(line.at for line in chart.lines)
        assert all(b - a >= 15 for a, b in pairwise(places))
        assert all(0 <= part.y <= chart.floor for each in chart.columns for part in each.parts)
        assert chart.columns[0].parts == []


def test_times_on_an_axis_are_round_where_its_viewer_is() -> None:
    for name in ("UTC", "Asia/Kolkata"):
        for window in WINDOWS:
            stretch = stretch_of(window, NOW_MS, zone(name))
            ticks = Axis(*stretch, zone(name)).ticks()
            assert 2 <= len(ticks) <= 9, (name, window, ticks)


def test_what_is_yet_to_come_leaves_no_half_of_a_chart_empty() -> None:
    """The picture runs through now; lateness and response times are of the past."""
    stretch, none = stretch_of("1h", NOW_MS, UTC), [0] * (len(LATENESS_BOUNDS_MS) + 1)
    starts = range(stretch.from_ms, stretch.to_ms, stretch.step_ms)
    once = [1, *none[1:]]
    points = [Point(at_ms, int(at_ms < NOW_MS), 0, 0, once, once) for at_ms in starts]
    pulse = AccountSnapshot(NOW_MS, 1, 0, 0, 0, 0, None, none)
    picture = Picture(stretch, Series(points), [0] * stretch.points, pulse)
    last = picture.activity(UTC, 190).columns[-1]
    for chart in (picture.lateness(UTC, 130), picture.response(UTC, 130)):
        assert chart.columns[-1].at_ms <= NOW_MS < chart.columns[-1].to_ms < last.to_ms
        assert chart.columns[-1].x + chart.columns[-1].width == pytest.approx(100, abs=0.01)
    yesterday = stretch._replace(from_ms=stretch.from_ms - DAY_MS)
    assert len(picture._replace(stretch=yesterday).lateness(UTC, 130).columns) == stretch.points


def test_failures_are_grouped_by_host_and_answer() -> None:
    def entry(n: int, url: str, message: str) -> LogEntry:
        return LogEntry(
            "sch", 0, 0, n, url, "GET", LogStatus.FAILED, error_message=message, at_ms=n
        )

    found = grouped(
        [
            entry(9, "https://a.example/1", "Timeout"),
            entry(8, "https://b.example/1", "Timeout"),
            entry(7, "https://a.example/2", "Timeout"),
            entry(6, "https://a.example/2", "Reset"),
        ],
        is_all=True,
    )
    assert [(g.host, g.answer, g.fires, g.at_ms) for g in found.groups] == [
        ("a.example", "Timeout", 2, 9),
        ("b.example", "Timeout", 1, 8),
        ("a.example", "Reset", 1, 6),
    ]
    many = grouped([entry(n, f"https://{n}.example", "x") for n in range(20)], is_all=False)
    assert (len(many.groups), many.others, many.looked_at) == (8, 12, 20)


def test_a_week_begins_on_monday_and_a_month_on_its_first() -> None:
    today_ms = NOW_MS // DAY_MS * DAY_MS  # a Saturday, the 21st
    days = [Movements(today_ms - n * DAY_MS, 0, 10, 1) for n in range(30)]
    assert spending(days, NOW_MS) == (9, 6 * 9, 21 * 9)
    chart = drawn(days[:3], NOW_MS)
    assert [len(column.parts) for column in chart.columns] == [0] * 27 + [1] * 3


def test_a_token_looks_different_each_time_and_is_the_same() -> None:
    shown = {masked_token("secret-token") for _ in range(10)}
    assert len(shown) == 10
    assert {unmasked_token(each) for each in shown} == {"secret-token"}
    for bad in ("", "x", "é", "====", "secret-token"):
        assert unmasked_token(bad) != "secret-token"


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("/dashboard", True),
        ("/dashboard/requests?q=a%2Fb", True),
        ("/dashboard?range=1h", True),
        ("/dashboardx", False),
        ("//dashboard", False),
        ("/dashboard//x", False),
        ("https://x/dashboard", False),
        ("/dashboard/\r\nset-cookie: x", False),
        ("/dashboard/" + "x" * 3000, False),
    ],
)
def test_only_pages_of_ours_are_gone_back_to(text: str, ours: bool) -> None:
    assert our_page(text) == (text if ours else None)
