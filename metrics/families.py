"""Prometheus' metrics, made only when they are read.

The one place that knows `prometheus_client`: its counters cost 3 us, a tenth of a fire.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client.exposition import generate_latest

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

__all__ = ["CONTENT_TYPE", "Histogram", "Metric", "counter", "gauge", "histogram", "text"]

Values = Mapping[tuple[str, ...], float] | float
"""By the values of the labels, in their order; a single one where there are no labels."""


class Histogram:
    """Counts values of any unit below each of `bounds`, which ascend, and above the last, in plain
    ints: every fire and every request counts here."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def note(self, value: float) -> None:
        """A value that is a bound belongs below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)


def counter(name: str, description: str, values: Values, labels: Sequence[str] = ()) -> Metric:
    """`name` is without `_total`."""
    return _filled(CounterMetricFamily(name, description, labels=labels), values)


def gauge(name: str, description: str, values: Values, labels: Sequence[str] = ()) -> Metric:
    return _filled(GaugeMetricFamily(name, description, labels=labels), values)


def histogram(
    name: str,
    description: str,
    values: Mapping[tuple[str, ...], Histogram] | Histogram,
    labels: Sequence[str] = (),
    *,
    scale: float = 1.0,
) -> Metric:
    """`scale` converts to the unit of the name: 0.001 for ms as seconds."""
    family = HistogramMetricFamily(name, description, labels=labels)
    given = {(): values} if isinstance(values, Histogram) else values
    for of, counted in given.items():
        family.add_metric(of, _buckets(counted, scale), counted.total * scale)
    return family


def text(family: Metric) -> bytes:
    """One family in Prometheus' text format."""
    # One by one: all families together would hold up the event loop.
    return generate_latest(cast("Collector", SimpleNamespace(collect=lambda: (family,))))


def _filled(family: CounterMetricFamily | GaugeMetricFamily, values: Values) -> Metric:
    for of, value in values.items() if isinstance(values, Mapping) else (((), values),):
        family.add_metric(of, value)
    return family


def _buckets(counted: Histogram, scale: float) -> list[tuple[str, float]]:
    """Cumulative, each with its bound as text."""
    found, so_far = [], 0
    for bound, count in zip((*counted.bounds, math.inf), counted.counts, strict=True):
        so_far += count
        spelt = "+Inf" if bound == math.inf else repr(round(bound * scale, 9))
        found.append((spelt, float(so_far)))
    return found
