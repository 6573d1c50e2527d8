"""Rules of the benchmarks that a run does not show. Speed itself is asserted nowhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from benchmarks import trend
from benchmarks.day.bounds import bounds
from benchmarks.day.chart import PANELS, draw
from benchmarks.day.look import Hour, kind_of
from benchmarks.day.plan import ACCOUNTS, KINDS, SETTLE_MS, Plan, moments, peaks
from benchmarks.peers import chart, environments, report
from benchmarks.support import rounds
from benchmarks.support.windows import most_at_once, most_within
from scheduler.store import keys

DAY = Plan(24, 60_000, waiting=1_000_000, rules=100, logged=8000, valley=20, peak=2000)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0], False),
        ([80.0, 100.0, 90.0], False),
        ([79.0, 100.0, 90.0], True),
        ([0.0, 0.0], False),
        ([0.0, 1.0], True),
    ],
)
def test_rounds_that_differ_by_more_than_a_quarter_are_noise(
    values: list[float], expected: bool
) -> None:
    assert rounds.are_noise(values) is expected
    said = rounds.noise({"rate": value, "steady": 1.0} for value in values)
    assert said.startswith("rate ") is expected
    assert "steady" not in said


def test_a_loss_is_told_from_noise() -> None:
    slow, fast, noise = [80.0, 79.0, 90.0], [100.0, 99.0, 101.0], [80.0, 50.0, 90.0]
    assert trend.verdict("burst_per_second", slow, fast) == "WORSE"
    assert trend.verdict("burst_worker_us", slow, fast) == "better"
    assert trend.verdict("burst_worker_us", fast, [95.0, 90.0, 99.0]) == ""
    assert trend.verdict("burst_per_second", noise, fast) == "WORSE; noise, 50 to 90"
    assert trend.verdict("burst_per_second", [70.0, 50.0, 99.5], fast) == "noise, 50 to 99.5"
    assert trend.verdict("burst_per_second", slow, noise) == "before: noise, 50 to 90"
    assert trend.verdict("burst_per_second", slow, None) == ""


@pytest.mark.parametrize(
    ("moments_ms", "expected"),
    [
        ([], 0),
        ([5.0], 1),
        ([0.0, 1000.0, 2000.0], 1),  # a window's end is the next one's begin
        ([999.9, 0.0, 500.0, 1000.0], 3),
        ([*range(0, 5000, 10), 4005], 101),
    ],
)
def test_the_fullest_window_lies_anywhere(moments_ms: list[float], expected: int) -> None:
    assert most_within(moments_ms, 1000) == expected


@pytest.mark.parametrize(
    ("spans_ms", "expected"),
    [
        ([], 0),
        ([(0.0, 5.0), (5.0, 9.0)], 1),
        ([(0.0, 5.0), (4.9, 9.0), (1.0, 2.0)], 2),
        ([(0.0, 9.0), (1.0, 9.0), (2.0, 3.0), (4.0, 5.0)], 3),
    ],
)
def test_exchanges_at_once_are_those_that_overlap(
    spans_ms: list[tuple[float, float]], expected: int
) -> None:
    assert most_at_once(spans_ms) == expected


_STORED = {"single_per_second": 24_800.4, "bytes_each": 339.2}
_FIRED = {"burst_per_second": 6_889.0, "late_p50_ms": 3.66, "late_p99_ms": 112.4}


def _peer(title: str, **figures: Any) -> dict[str, Any]:
    name = title.lower()
    return {"name": name, "title": title, "versions": {name: "1.2"}, "needs": "", **figures}


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        (
            {**_STORED, **_FIRED, "bulk_per_second": 85_000.0},
            "| Peer 1.2 | 6,889/s | 3.7 ms | 112 ms | 24,800/s | 85,000/s | 339 |",
        ),
        (
            {**_STORED, **_FIRED},
            "| Peer 1.2 | 6,889/s | 3.7 ms | 112 ms | 24,800/s | has none | 339 |",
        ),
        (
            {**_STORED, "bulk_per_second": 85_000.0, "needs": "needs X"},
            "| Peer 1.2 | needs X | needs X | needs X | 24,800/s | 85,000/s | 339 |",
        ),
    ],
)
def test_a_cell_without_a_figure_says_why(figures: dict[str, Any], expected: str) -> None:
    results = {"size": {"rate": 500}, "systems": [_peer("Peer", **figures)]}
    assert report.table(results).splitlines()[-1] == expected


def test_the_picture_has_a_row_for_each_system_in_each_panel() -> None:
    bulk = {"bulk_per_second": 85_000.0}
    systems = [_peer(f"P{n}", **_STORED, **_FIRED, **bulk) for n in range(7)]
    systems.append(_peer("Last", **_STORED, **bulk, needs="needs X"))
    machine = {"cores": 2, "store": "Valkey 9.1", "measured": "2026-11-28"}
    drawn = chart.draw({"size": {"rate": 500}, "systems": systems, "machine": machine})
    words = [each.text for each in ElementTree.fromstring(drawn).iter() if each.text]
    assert all(words.count(system["title"]) == 4 for system in systems)
    assert words.count("needs X") == 2


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Redis server v=8.6.1 sha=00000000:0", True),
        ("Redis server v=10.0.0 sha=00000000:0", True),
        ("Redis server v=8.4.9 sha=00000000:0", False),
        ("Valkey server v=9.1.2 sha=00000000:0", False),
    ],
)
def test_a_worker_that_needs_a_newer_redis_gets_no_other_server(
    said: str, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = tmp_path / "server"
    server.write_text(f"#!/bin/sh\necho '{said}'\n")
    server.chmod(0o755)
    monkeypatch.setenv("PEERS_REDIS", str(server))
    assert environments.redis_server((8, 6)) == (server if found else None)


def test_a_day_has_a_valley_and_two_equal_peaks() -> None:
    rates = [DAY.rate(hour) for hour in range(24)]
    assert peaks(rates) == (9, 18)
    assert rates[9] == rates[18] == max(rates) == 2000
    assert max(rates[:4]) < 100 < rates[13] < 1000
    assert peaks([1, 3, 2]) == (1, 2)
    assert sum(kind.share for kind in KINDS.values()) == pytest.approx(1)
    due = moments(0, DAY.busy_ms, DAY.due(9, "batch"))
    assert SETTLE_MS == due[0] < due[-1] < SETTLE_MS + DAY.busy_ms
    assert len(due) == 2000 * DAY.busy_ms // 1000 // 4


def a_day() -> list[Hour]:
    """What a day looks like in which nothing grows; the first hour was counted before it."""
    mib, found, completed = 2**20, [], 0
    for hour in range(-1, 24):
        sent = DAY.sent(hour) if hour >= 0 else 0
        completed += sent
        found.append(
            Hour(
                rate=DAY.rate(hour) if hour >= 0 else 0,
                expected=sent,
                came={"plain": sent, "burst": 60},
                least_ms=0.1,
                p50_ms=0.3,
                p99_ms=1.5,
                rss={"API": 90 * mib, "worker": 60 * mib, "store": 600 * mib},
                descriptors={"API": 30, "worker": 60, "store": 15},
                used_bytes=500 * mib,
                aof_bytes=400 * mib,
                aof_base_bytes=300 * mib,
                waiting=1_000_000,
                completed=completed,
                logged=8000 if hour < 0 else min(completed, ACCOUNTS * DAY.log_most),
                kinds={"s": 1_000_000, "log": ACCOUNTS, "op": 3, "minute": 8 + 8 * max(0, hour)},
            )
        )
    return found


def late(change: Callable[[Hour], Hour]) -> list[Hour]:
    """Such a day, but for its last hours."""
    day = a_day()
    return [*day[:19], *map(change, day[19:])]


def of_kind(kind: str, count: int) -> Callable[[Hour], Hour]:
    return lambda e: replace(e, kinds=e.kinds | {kind: e.kinds.get(kind, 0) + count})


@pytest.mark.parametrize(
    ("change", "beyond"),
    [
        (lambda e: e, set()),
        (lambda e: replace(e, rss=e.rss | {"worker": 100 * 2**20}), {"RSS of the worker"}),
        (
            lambda e: replace(e, descriptors=e.descriptors | {"API": 100}),
            {"descriptors of the API"},
        ),
        (lambda e: replace(e, used_bytes=2**30), {"bytes that the store uses"}),
        (lambda e: replace(e, rss=e.rss | {"store": 2**30}), {"RSS of the store"}),
        (lambda e: replace(e, aof_bytes=2 * 2**30), {"bytes of the append-only file"}),
        (lambda e: replace(e, logged=8 * e.logged), {"entries of the log"}),
        (lambda e: replace(e, p99_ms=9.0), {"p99 at the second peak, ms"}),
        (lambda e: replace(e, least_ms=-0.1), {"earliest request, ms early"}),
        (lambda e: replace(e, came={}), {"requests missing"}),
        (lambda e: replace(e, came=e.came | {"plain": e.expected + 1}), {"requests too many"}),
        (lambda e: replace(e, came=e.came | {"flaky": 7}, again=7), set()),
        (of_kind("s", 2_000_000), {"keys s"}),
        (of_kind("log", ACCOUNTS + 1), {"keys log"}),
        (of_kind("unheard of", ACCOUNTS + 1), {"keys unheard of"}),
        (of_kind("minute", 60 * ACCOUNTS), {"keys minute"}),
        (of_kind("index", 264 * ACCOUNTS), set()),
    ],
)
def test_a_series_that_grows_beyond_its_bound_is_found(
    change: Callable[[Hour], Hour], beyond: set[str]
) -> None:
    assert {each.name for each in bounds(DAY, late(change)) if not each.holds} == beyond


def test_a_day_is_drawn_with_a_panel_for_each_question() -> None:
    drawn = ElementTree.fromstring(draw(a_day()[1:], "a machine & a date"))
    words = {each.text for each in drawn.iter() if each.text}
    assert {panel.title for panel in PANELS} == {
        w.partition(": up to ")[0] for w in words if ": up" in w
    }
    assert {"18:00", "a machine & a date", "lateness, ms: up to 1.5"} < words


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (keys.schedule("acc_00_00000000", "sch_0000000000000000000000000"), "s"),
        (keys.account("acc_00_00000000") + keys.MINUTE + "7", "minute"),
        (keys.account("acc_00_00000000") + keys.WAITING, "waiting"),
        (keys.shard(3) + keys.RULES_DUE, "rules_due"),
        (keys.shard(3) + keys.API_KEY + "ab", "apikey"),
        (keys.META, "meta"),
        (keys.NAME + "mine:yours", "name"),
        (keys.ACTS, "acts"),
    ],
)
def test_a_key_says_of_what_kind_it_is(key: str, kind: str) -> None:
    assert kind_of(key) == kind
