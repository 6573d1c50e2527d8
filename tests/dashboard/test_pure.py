"""What the pages are made of: formats, curl lines, zones, windows, filters, charts. Pure."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from api.dashboard import formats
from api.dashboard.answer import takes
from api.dashboard.charts import DAY_MS, HOUR_MS, MINUTE_MS, Axis, Chart, Layer, stretch_of
from api.dashboard.overview import drawn, spending
from api.dashboard.requests.attempts import Bar, waterfall
from api.dashboard.requests.filters import read_filter, read_typed
from api.dashboard.requests.text import MOST_BYTES, indented
from api.dashboard.shared import Shared
from api.dashboard.viewer.session import our_page
from api.dashboard.zones import UTC, Zone, zone_named
from scheduler.models import Phases
from scheduler.store.accounts.accounts import Movements
from scheduler.store.operators.system import ended_branch, server_warnings
from scheduler.times import format_iso8601, parse_iso8601
from worker.send.outcome import Failure

NOW_MS = parse_iso8601("2026-11-21T16:38:05.123Z")


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (formats.duration(999), "999 ms"),
        (formats.duration(1500), "1.5 s"),
        (formats.duration(125_000), "2 min 5 s"),
        (formats.duration(90_061_000), "1 d 1 h"),
        (formats.until(1_065_900, 1_000_000), "in 1 min 5 s"),
        (formats.soon(1_065_900, 1_000_000), "in 1 min"),
        (formats.soon(995_000, 1_000_000), "5 s ago"),
        (formats.no_answer("Timeout after 30 seconds"), "timeout"),
        (formats.no_answer(Failure.UNRESOLVED), "no host"),
        (formats.no_answer(Failure.REFUSED), "refused"),
        (formats.no_answer(Failure.INTERNAL), "none"),
        (formats.no_answer(""), "–"),  # noqa: RUF001
        (formats.share(99_999, 100_000), "99.9 %"),
        (
            formats.url("https://a.example/<x>?token=abc"),
            '<span class="scheme">https://</span>a.example/&lt;x&gt;?token=••••••••',
        ),
    ],
)
def test_figures_are_told_in_few_words(shown: str, expected: str) -> None:
    assert shown == expected


def test_operators_are_warned_of_what_goes_wrong() -> None:
    assert server_warnings({"maxmemory": 0, "used_memory": 10**9, "aof_enabled": 1}) == []
    bad = {
        "maxmemory": 100,
        "used_memory": 95,
        "maxmemory_policy": "allkeys-lru",
        "aof_enabled": 0,
        "aof_last_write_status": "err",
        "rdb_last_bgsave_status": "err",
        "master_link_status": "down",
    }
    assert len(server_warnings(bad)) == 6


@pytest.mark.parametrize(
    ("version", "since"),
    [
        ("Redis 7.0.15", "July 2024"),
        ("Redis 7.2.11", "February 2026"),
        ("Redis 7.20.1", None),
        ("Redis 8.6.0", None),
        ("Valkey 7.2.5", None),
        ("Valkey 9.1.2", None),
        ("Redis of no known version", None),
    ],
)
def test_a_server_whose_branch_has_ended_is_named(version: str, since: str | None) -> None:
    said = ended_branch(version)
    assert (said is None) == (since is None)
    assert since is None or f"since {since}" in str(said)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"{}", "{}"),
        (b'{"a":[1,2]}', '{\n  "a": [\n    1,\n    2\n  ]\n}'),
        (b'{"a":"[[[{,,\\"]"}', '{\n  "a": "[[[{,,\\"]"\n}'),
        (b'{"a":"\\ud800"}', '{"a":"\\ud800"}'),
    ],
)
def test_a_body_is_on_many_lines_if_it_can_be(body: bytes, shown: str) -> None:
    assert indented(body) == shown


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":' * 900 + b"[" + b"1," * 100_000 + b"1]" + b"}" * 900,
        b'{"a":[' + b"{}," * 80_000 + b"{}]}",
        b'{"a":"' + b"x" * 700_000 + b'"}',
    ],
    ids=["deep and wide", "many", "long"],
)
def test_no_body_is_huge_when_it_is_shown(body: bytes) -> None:
    assert len(indented(body)) <= max(len(body), MOST_BYTES)


def test_bars_follow_on_one_another_and_what_broke_stands_out() -> None:
    assert waterfall(Phases(50, 100, None, 50, 0), 500) == [
        Bar("Resolve", "way", 0.0, 25.0, 50),
        Bar("Connect", "way", 25.0, 50.0, 100),
        Bar("First byte", "wait", 75.0, 25.0, 50),
        Bar("Last byte", "read", 99.0, 1.0, 0),
    ]
    assert waterfall(Phases(None, 0), 0) == [Bar("Connect", "broke", 0.0, 1.0, 0)]


async def test_a_shared_read_is_made_once_and_survives_who_asked_for_it() -> None:
    shared, go, reads = Shared(), asyncio.Event(), 0

    async def read() -> int:
        nonlocal reads
        reads += 1
        await go.wait()
        return reads

    leaving, *staying = [asyncio.create_task(shared.get("a", 60, read)) for _ in range(50)]
    await asyncio.sleep(0)
    leaving.cancel()
    go.set()
    assert await asyncio.gather(*staying) == [1] * 49
    assert [await shared.get("b", 0, read) for _ in range(2)] == [2, 3]
    shared._swept_s = 0.0
    assert await shared.get("c", 60, read) == 4
    assert set(shared._entries) == {"a", "c"}, "what is no longer good is not kept"


async def test_a_shared_read_that_failed_is_made_again() -> None:
    shared, failures = Shared(), [ValueError("once")]

    async def read() -> str:
        if failures:
            raise failures.pop()
        return "read"

    with pytest.raises(ValueError, match="once"):
        await shared.get("a", 60, read)
    assert await shared.get("a", 60, read) == "read"


def zone(name: str) -> Zone:
    found = zone_named(name)
    assert found is not None
    return found


def test_a_zone_reads_and_tells_local_times() -> None:
    tokyo = zone("Asia/Tokyo")
    assert tokyo.text(NOW_MS) == "2026-11-22T01:38:05.123"
    assert tokyo.moment("2026-11-22T01:38:05.123") == NOW_MS
    assert tokyo.moment(format_iso8601(NOW_MS)) == NOW_MS, "what names its zone is of that"
    for text in ("", "soon", "2026-13-01T00:00"):
        with pytest.raises(ValueError):
            tokyo.moment(text)


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25)])
def test_a_day_is_as_long_as_it_is(day: str, hours: int) -> None:
    noon_ms = parse_iso8601(f"{day}T12:00:00Z")
    stretch = stretch_of("today", noon_ms, zone("Europe/Berlin"))
    assert stretch.points * stretch.step_ms == hours * HOUR_MS
    assert stretch.from_ms <= noon_ms < stretch.to_ms


def test_an_address_says_all_of_a_filter_and_is_read_back() -> None:
    given = {"status": "failed", "q": "a b&c", "answer": "503", "from": "2026-11-20T08:00"}
    given |= {"host": "b.test", "reference": "order-*"}
    wanted, faults = read_filter(given, zone("Asia/Tokyo"), NOW_MS)
    assert faults == {}
    assert wanted.from_ms == parse_iso8601("2026-11-19T23:00:00Z")
    again, _ = read_filter(wanted.pairs(), UTC, NOW_MS)
    assert again == wanted
    assert wanted.address(status=None, q=None, host=None, reference=None) == (
        "/dashboard/requests?answer=503&from=2026-11-19T23%3A00%3A00.000Z"
    )


NO_CHANGE = {"answer": "503", "status": "completed", "when": "1h"}


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("status:failed lane:a-1 invoices", {"status": "failed", "lane": "a-1", "q": "invoices"}),
        ('answer:"Not Found"', {"answer": "Not Found"}),
        ("STATUS:failed", {"status": "failed"}),
        ("https://x.test/a?b=c", {"q": "https://x.test/a?b=c"}),
        ("localhost:8080/x", {"q": "localhost:8080/x"}),
        ('"status:failed"', {"q": "status:failed"}),
        ("late:1m", {"late": "1m"}),
        ("held:yes", {"status": "scheduled", "held": "yes"}),
        ("status:failed replayed:no", {"status": "failed", "replayed": "no"}),
        ("to:2026-11-20T08:00", {"when": "", "to": "2026-11-19T23:00:00.000Z"}),
        ("when:today", {"when": "today"}),
        ("callback:failed sort:late", {"callback": "failed", "sort": "late"}),
    ],
)
def test_typed_filters_take_the_place_of_those_of_an_address(
    text: str, changed: dict[str, str]
) -> None:
    wanted, faults = read_typed(text, NO_CHANGE | {"cursor": "c"}, zone("Asia/Tokyo"), NOW_MS)
    expected = {name: value for name, value in (NO_CHANGE | changed).items() if value}
    assert (wanted.pairs(), faults, wanted.cursor) == (expected, {}, None)
    tokens = [
        f'{name}:"{value}"' if name != "q" else f'"{value}"'
        for name, value in wanted.chips(zone("Asia/Tokyo")).items()
    ]
    again = read_typed(" ".join(tokens), {}, zone("Asia/Tokyo"), NOW_MS)
    assert again == (wanted, {}), "chips can be typed"


@pytest.mark.parametrize(
    ("text", "faulty"),
    [
        ("status:lost lane:a", ["status:lost"]),
        ("stauts:failed", ["stauts:failed"]),
        ("status:", ["status:"]),
        ('""', ['""']),
        ('answer:"Not Found', ['answer:"Not']),
        ("two words", ["words"]),
        ("status:failed status:failed", ["status:failed"]),
        ("held:no", ["held:no"]),
        ("held:yes status:failed", ["held:yes"]),
        ("held:yes replayed:no", ["replayed:no"]),
        ("late:soon from:soon", ["from:soon", "late:soon"]),
        ("sort:late status:scheduled", ["sort:late"]),
        ("when:1h to:2026-11-20T08:00", ["to:2026-11-20T08:00"]),
        ("from:2026-11-21T08:00 to:2026-11-20T08:00", ["from:2026-11-21T08:00"]),
        ('lane:"a b" lane:x', ['lane:"a b"', "lane:x"]),
    ],
)
def test_a_bad_filter_is_named_and_changes_nothing(text: str, faulty: list[str]) -> None:
    wanted, faults = read_typed(text, NO_CHANGE, UTC, NOW_MS)
    assert (wanted.pairs(), sorted(faults)) == (NO_CHANGE, faulty)


def test_a_period_that_ends_before_that_of_the_address_is_a_fault() -> None:
    given = {"from": "2026-11-21T08:00"}
    _, faults = read_typed("to:2026-11-20T08:00", given, UTC, NOW_MS)
    assert [*faults] == ["to:2026-11-20T08:00"]


@pytest.mark.parametrize(
    ("url", "path", "host"),
    [
        ("https://a.test/b/c?d=e", "/b/c?d=e", "a.test"),
        ("http://a.test:8080/b", "/b", "http://a.test:8080"),
        ("http://127.0.0.1:9000/b", "/b", "127.0.0.1:9000"),
        ("http://localhost", "/", "localhost"),
        ("http://localhost.evil.test/", "/", "http://localhost.evil.test"),
        ("https://a.test?d=e", "?d=e", "a.test"),
    ],
)
def test_a_row_tells_the_path_first(url: str, path: str, host: str) -> None:
    assert formats.place(url) == (path, host)


AXIS = Axis(NOW_MS // MINUTE_MS * MINUTE_MS - 10 * MINUTE_MS, MINUTE_MS, 20, UTC)


def chart(*values: list[float | None], counts: bool = True) -> Chart:
    layers = [Layer(f"k{n}", f"K{n}", each) for n, each in enumerate(values)]
    words = formats.number if counts else formats.duration
    return Chart("a", "A", 120, AXIS, layers, words, counts)


def test_a_row_has_the_figures_of_its_column_in_words_and_as_numbers() -> None:
    rows = chart([1234, *[0] * 19], [0, 0, 5, *[0] * 17]).rows
    assert (len(rows), rows[0].cells, rows[0].values) == (20, ["1,234", "0"], [1234, 0])
    assert [n for n, row in enumerate(rows) if not row.is_empty] == [0, 2]
    assert (rows[0].at_ms, rows[19].to_ms) == (AXIS.from_ms, AXIS.to_ms)
    assert rows[0].time == "2026-11-21 16:28"
    # A whole sixth of an hour is one piece, wherever the chart begins.
    assert [row.at_ms % (6 * MINUTE_MS) == 0 for row in rows] == [row.begins for row in rows]
    rows = chart([None, *[0.0] * 19], [None, *[2100.25] * 19], counts=False).rows
    assert (rows[0].is_empty, rows[0].cells, rows[0].values) == (True, ["–"] * 2, [None] * 2)  # noqa: RUF001
    assert (rows[1].is_empty, rows[1].cells, rows[1].values) == (
        False,
        ["0 ms", "2.1 s"],
        [0.0, 2100.2],
    )


@pytest.mark.parametrize(
    ("step_ms", "columns", "labels"),
    [
        (MINUTE_MS, 20, ["16:30", "16:35", "16:40", "16:45"]),
        (30 * MINUTE_MS, 96, ["11-22", "12:00", "11-23", "12:00"]),
        (DAY_MS, 30, ["11-25", "11-30", "12-05", "12-10", "12-15", "12-20"]),
    ],
)
def test_an_axis_has_round_times(step_ms: int, columns: int, labels: list[str]) -> None:
    axis = Axis(AXIS.from_ms // step_ms * step_ms, step_ms, columns, UTC)
    assert [label for _, label in axis.ticks()] == labels


def test_a_week_begins_on_monday_and_a_month_on_its_first() -> None:
    today_ms = NOW_MS // DAY_MS * DAY_MS  # a Saturday, the 21st
    days = [Movements(today_ms - n * DAY_MS, 0, 10, 1) for n in range(30)]
    assert spending(days, NOW_MS) == [9, 6 * 9, 21 * 9]
    values = [row.values for row in drawn(days[:3], NOW_MS).rows]
    assert values == [[0]] * 27 + [[10]] * 3


def test_only_pages_of_ours_are_gone_back_to() -> None:
    for ours in ("/dashboard/requests?q=a%2Fb", "/dashboard?range=1h"):
        assert our_page(ours) == ours
    for other in ("//dashboard", "/dashboard//x", "https://x/dashboard", "/dashboard/\r\nx: y"):
        assert our_page(other) is None


@pytest.mark.parametrize(
    ("accepted", "takes_it"),
    [
        (b"gzip, deflate, br, zstd", True),
        (b"br", True),
        (b"br;q=0.5, gzip", True),
        (b"gzip;q=1.0, br;q=0.0", False),
        (b"br ; q=0 , gzip", False),
        (b"brx, abr", False),
        (b"", False),
    ],
)
def test_an_encoding_is_taken_that_is_named_and_not_refused(
    accepted: bytes, takes_it: bool
) -> None:
    scope: Any = {"headers": [(b"accept-encoding", accepted)]}
    assert takes(scope, b"br") is takes_it
