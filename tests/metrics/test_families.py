"""Plain ints become what Prometheus reads: read back by its own parser."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from metrics.families import Histogram, Metric, counter, gauge, histogram, text


def samples(family: Metric) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    [read] = text_string_to_metric_families(text(family).decode())
    return {(each.name, tuple(sorted(each.labels.items()))): each.value for each in read.samples}


def test_a_histogram_is_cumulative_and_in_the_unit_of_its_name() -> None:
    counted = Histogram((1, 10))
    for value_ms in (1, 5, 5, 70):
        counted.note(value_ms)
    found = samples(histogram("x_seconds", "told", {("a",): counted}, ("of",), scale=0.001))
    assert found == {
        ("x_seconds_bucket", (("le", "0.001"), ("of", "a"))): 1,
        ("x_seconds_bucket", (("le", "0.01"), ("of", "a"))): 3,
        ("x_seconds_bucket", (("le", "+Inf"), ("of", "a"))): 4,
        ("x_seconds_count", (("of", "a"),)): 4,
        ("x_seconds_sum", (("of", "a"),)): pytest.approx(0.081),
    }


def test_counters_and_gauges_with_labels_and_without() -> None:
    assert samples(counter("x", "told", 3)) == {("x_total", ()): 3}
    by_label = gauge("x", "told", {("a", "b"): 1, ("a", 'c"\n'): 2}, ("one", "two"))
    assert samples(by_label) == {
        ("x", (("one", "a"), ("two", "b"))): 1,
        ("x", (("one", "a"), ("two", 'c"\n'))): 2,
    }
