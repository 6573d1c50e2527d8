"""Requests, counted as they end."""

from __future__ import annotations

from metrics.histogram import Histogram

_DURATION_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_METHODS = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"))


class Tally:
    """`requests` by route (its template, "none" where none fits), method and status code (0: the
    client went away); `refused` by reason."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, int], int] = {}
        self.durations_s: dict[str, Histogram] = {}
        self.refused: dict[str, int] = {}

    def note(self, route: str, method: str, status: int, duration_s: float) -> None:
        of = (route, method if method in _METHODS else "other", status)
        self.requests[of] = self.requests.get(of, 0) + 1
        durations_s = self.durations_s.get(route)
        if durations_s is None:
            durations_s = self.durations_s[route] = Histogram(_DURATION_S)
        durations_s.note(duration_s)

    def refuse(self, reason: str, count: int = 1) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + count
