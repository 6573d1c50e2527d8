"""One subject, fed for a while: no input breaks a promise, or costs more than its length."""

from __future__ import annotations

import time
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.inputs import inputs
from tests.fuzz.subjects import SUBJECTS

# CPU of this thread, whatever else the machine does. Generous: real faults grow faster.
_BASE_NS = 5_000_000
_NS_A_BYTE = 3_000
_AGAIN = 3


class TooSlow(AssertionError):
    """An input costs more than its length allows."""


def run(subject: str, examples: int, number: int | None = None) -> None:
    """Feeds it so many inputs, the same for the same number. Raises what broke, with the smallest
    input that does it."""
    feed = SUBJECTS[subject]

    @given(inputs(subject))
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=number is None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    def fed(data: bytes) -> None:
        allowed_ns = _BASE_NS + _NS_A_BYTE * len(data)
        took_ns = _cpu_ns(feed, data)
        if took_ns > allowed_ns:  # or something else happened at that moment
            took_ns = min(_cpu_ns(feed, data) for _ in range(_AGAIN))
        if took_ns > allowed_ns:
            raise TooSlow(f"{len(data):,} bytes took {took_ns / 1e6:.1f} ms")

    (fed if number is None else seed(number)(fed))()


def _cpu_ns(feed: Callable[[bytes], None], data: bytes) -> int:
    began_ns = time.thread_time_ns()
    feed(data)
    return time.thread_time_ns() - began_ns
