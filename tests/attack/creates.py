"""The good neighbour of the API's floods: it creates, and how long that takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import httpx

URL = "https://example.com/hook"
_EVERY_S = 0.02


class Creates(NamedTuple):
    """How long they took (ms)."""

    p50: float
    p99: float

    def __str__(self) -> str:
        return f"p50 {self.p50:.0f} ms, p99 {self.p99:.0f} ms"

    def breaches(self, most_p50_ms: float) -> list[str]:
        is_over = self.p50 > most_p50_ms
        return [f"creates {self}: p50 is over {most_p50_ms} ms"] if is_over else []


def create(base_url: str, key: str, until: Callable[[], bool]) -> Creates:
    """Creates, 50 a second at most, until that is so."""
    took_ms: list[float] = []
    body = {"targetUrl": URL, "delay": "1d"}
    with httpx.Client(
        base_url=base_url, headers={"x-api-key": key}, timeout=30, verify=False
    ) as client:
        while not until() or len(took_ms) < 2:
            began_s = time.perf_counter()
            client.post("/schedule", json=body).raise_for_status()
            took_ms.append(1000 * (time.perf_counter() - began_s))
            time.sleep(_EVERY_S)
    cuts = statistics.quantiles(took_ms, n=100, method="inclusive")
    return Creates(cuts[49], cuts[98])


def create_for(base_url: str, key: str, seconds: float) -> Creates:
    until_s = time.perf_counter() + seconds
    return create(base_url, key, lambda: time.perf_counter() >= until_s)
