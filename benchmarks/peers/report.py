"""Reports a run as lines, a table, JSON, a picture, and in the marked passage of the README."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers import chart
from benchmarks.support.rounds import noise

_ROOT = Path(__file__).parents[2]
_JSON = _ROOT / "benchmarks/results/peers.json"
_SVG = _ROOT / "docs/benchmarks/peers.svg"
_PASSAGE = _ROOT / "benchmarks/README.md"
_TIMES = 2
# The figures of a round that are compared; the rest explains them.
_FIGURES = {
    "burst_per_second": "a burst a second",
    "late_p50_ms": "p50 in ms",
    "late_p99_ms": "p99 in ms",
    "single_per_second": "one by one a second",
    "bulk_per_second": "in bulk a second",
}


def line(title: str, found: dict[str, Any]) -> str:
    bulk = f", bulk {found['bulk_per_second']:,.0f}/s" if "bulk_per_second" in found else ""
    stored = (
        f"single {found['single_per_second']:,.0f}/s{bulk}  {found['bytes_each']:.0f} bytes each"
    )
    if "burst_per_second" not in found:
        return f"{title:9} {stored}"
    wrong = "".join(
        f", {found[key]:.0f} {key.replace('_', ' ')}"
        for key in ("lost", "twice", "late_lost", "late_twice")
        if found[key]
    )
    return (
        f"{title:9} burst {found['burst_per_second']:7,.0f}/s "
        f"({found['burst_worker_us']:.0f} us worker, {found['burst_store_us']:.0f} us store, "
        f"{found['burst_worker_cores']:.2f} cores)  late p50 {_ms(found['late_p50_ms'])} "
        f"p99 {_ms(found['late_p99_ms'])}, least {found['late_least_ms']:.1f} ms  "
        f"{stored}{wrong}"
    )


def table(results: dict[str, Any]) -> str:
    """A Markdown table of the medians."""
    head = (
        "| | sent, first to last of a burst | late at "
        f"{results['size']['rate']}/s, p50 | p99 | stored one by one | in bulk | bytes each |"
    )
    rows = [_row(system) for system in results["systems"]]
    return "\n".join([head, "|---|--:|--:|--:|--:|--:|--:|", *rows])


def proof(results: dict[str, Any]) -> str:
    """Whether the receiver, a process with one thread, could have taken more."""
    fastest = max(_fired(results), key=lambda system: system["burst_per_second"])
    cores = fastest["burst_receiver_cores"]
    verdict = (
        f"less than 1/{_TIMES}, so it did not limit the rate"
        if cores * _TIMES <= 1
        else f"more than 1/{_TIMES}, so it may have limited the rate"
    )
    return (
        f"The receiver was busy for {cores:.0%} of a core while {fastest['title']}, the fastest, "
        f"burst, {verdict}."
    )


def _fired(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The systems whose worker was measured."""
    return [system for system in results["systems"] if not system.get("needs")]


def load() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_JSON.read_text())
    return found


def save(results: dict[str, Any]) -> None:
    _JSON.parent.mkdir(parents=True, exist_ok=True)
    _JSON.write_text(json.dumps(_rounded(results), indent=1, ensure_ascii=False) + "\n")


def write(results: dict[str, Any]) -> None:
    """The picture, and the passage between `<!-- peers figures -->` and `<!-- /peers -->`."""
    _SVG.parent.mkdir(parents=True, exist_ok=True)
    _SVG.write_text(chart.draw(results))
    marked = re.compile(r"(<!-- peers figures .*?-->\n).*?(<!-- /peers -->)", re.S)
    passage = figures(results)
    text = marked.sub(lambda match: f"{match[1]}{passage}\n{match[2]}", _PASSAGE.read_text())
    _PASSAGE.write_text(text)


def figures(results: dict[str, Any]) -> str:
    """Tables for benchmarks/README.md: figures, versions and settings of each system."""
    rows = ["| | versions | settings | worker CPU each | cores in use | store CPU each |"]
    rows.append("|---|---|---|--:|--:|--:|")
    for system in results["systems"]:
        versions = ", ".join(f"{name} {number}" for name, number in system["versions"].items())
        cells = [
            system["title"],
            versions,
            system["settings"],
            _cell(system, "burst_worker_us", "{:,.0f} us".format),
            _cell(system, "burst_worker_cores", "{:.2f}".format),
            _cell(system, "burst_store_us", "{:,.0f} us".format),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([table(results), "", _of(results), "", proof(results), "", *rows])


def _of(results: dict[str, Any]) -> str:
    machine, rounds = results["machine"], results["rounds"]
    what = f"Medians of {rounds} interleaved rounds" if rounds > 1 else "One round"
    fired = _fired(results)
    counts = {s["burst_count"] for s in fired}
    small = [s["title"] for s in fired if s["burst_count"] < results["size"]["burst"]]
    bursts = f"A burst is {results['size']['burst']:,} requests due at one moment"
    if small and len(counts) > 1:
        *others, last = small
        named = f"{', '.join(others)} and {last}" if others else last
        bursts += f" ({min(counts):,.0f} for {named}, which take longer)"
    told = [
        f"{what}, {machine['measured']}: {machine['words']}.",
        f"{bursts}.",
        *filter(None, [_busy(machine), *notes(results)]),
    ]
    return textwrap.fill(" ".join(told), 110, break_on_hyphens=False)


def _busy(machine: dict[str, Any]) -> str:
    """Warns readers of other work on the machine, which spoils the figures."""
    load, cores = machine["load"], machine["cores"]
    if load <= cores / 2:
        return ""
    said = f"other work (a load of {load:.1f} on {cores} cores at the start)"
    if load <= cores:
        return f"The machine may have had {said}."
    return f"**The machine was busy with {said}: these are noise.**"


def notes(results: dict[str, Any]) -> list[str]:
    """A passage for each system that has caveats."""
    return [found for system in results["systems"] if (found := _note(system))]


def _note(system: dict[str, Any]) -> str:
    """Caveats that a figure alone would hide."""
    title, rounds, said = system["title"], system["each_round"], []
    if system.get("needs"):
        said.append(f"{title}'s worker {system['needs']}, which was not installed.")
    else:
        said += _wrong(system)
    compared = [
        {name: each[key] for key, name in _FIGURES.items() if key in each} for each in rounds
    ]
    if differing := noise(compared):
        said.append(f"Noise, since rounds of {title} differ by more than 25 %: {differing}.")
    return " ".join(said)


def _wrong(system: dict[str, Any]) -> Iterator[str]:
    """What a worker did wrong."""
    title, rounds = system["title"], system["each_round"]
    early = -min(each["late_least_ms"] for each in rounds)
    if early > 0.5:
        yield f"{title} sent some early, by {early:.0f} ms at most."
    if system["late_behind_ms"] > 1_500:
        yield f"{title} did not keep up with the rate."
    if lost := sum(each["lost"] + each["late_lost"] for each in rounds):
        yield f"{title} lost {lost:,}."
    if twice := sum(each["twice"] + each["late_twice"] for each in rounds):
        yield f"{title} sent {twice:,} twice."


def _row(system: dict[str, Any]) -> str:
    per_second = "{:,.0f}/s".format
    cells = [
        f"{system['title']} {next(iter(system['versions'].values()))}",
        _cell(system, "burst_per_second", per_second),
        _cell(system, "late_p50_ms", _ms),
        _cell(system, "late_p99_ms", _ms),
        _cell(system, "single_per_second", per_second),
        _cell(system, "bulk_per_second", per_second),
        _cell(system, "bytes_each", "{:,.0f}".format),
    ]
    return f"| {' | '.join(cells)} |"


def _cell(system: dict[str, Any], figure: str, words: Callable[[float], str]) -> str:
    """A figure, or why there is none: its worker could not run, or it has no bulk."""
    if figure not in system:
        return str(system.get("needs") or "has none")
    return words(system[figure])


def _ms(value: float) -> str:
    return f"{value:,.1f} ms" if value < 10 else f"{value:,.0f} ms"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value
