"""Rules of the benchmarks that a run does not show. Speed itself is asserted nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import trend
from benchmarks.peers import chart, environments, report
from benchmarks.support import rounds
from benchmarks.support.windows import most_at_once, most_within


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
