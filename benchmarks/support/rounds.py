"""The rounds of a benchmark: when they differ too much, their median is noise."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

NOISE = 0.25
_BLOCKS = 5


def are_noise(values: Sequence[float]) -> bool:
    """Whether the highest is more than 25 % above the lowest."""
    return max(values) > (1 + NOISE) * min(values)


def noise(rounds: Iterable[Mapping[str, float]]) -> str:
    """The figures that are noise, each with its range; empty if there are none."""
    ranges = [
        f"{name} {short(min(values))} to {short(max(values))}"
        for name, values in columns(rounds).items()
        if are_noise(values)
    ]
    return ", ".join(ranges)


def warn_of_noise(rounds: Iterable[Mapping[str, float]], name: str = "") -> None:
    """Prints a line if rounds of the same thing differ too much."""
    if found := noise(rounds):
        before = f"{name}: " if name else ""
        print(f"{before}NOISE, rounds differ by more than {NOISE:.0%}: {found}", flush=True)


def columns(rounds: Iterable[Mapping[str, float]]) -> dict[str, list[float]]:
    """The values of each figure, in the order of the rounds."""
    found: dict[str, list[float]] = {}
    for each in rounds:
        for name, value in each.items():
            found.setdefault(name, []).append(value)
    return found


def in_blocks(values: Sequence[float]) -> list[float]:
    """Medians of five stretches of many short samples, which are compared like rounds."""
    size = max(1, len(values) // _BLOCKS)
    starts = range(0, len(values) - size + 1, size)
    return [statistics.median(values[at : at + size]) for at in starts]


def short(value: float) -> str:
    """Three digits at least: 22,114 and 1.63."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
