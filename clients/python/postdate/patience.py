"""When to try again: pure arithmetic."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from postdate.errors import ConnectionFailed, PostdateError, RateLimited, Unavailable

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


class Patience:
    """The pauses of one call: they double, with jitter so that clients do not return in step,
    are never shorter than the server asked for, and none ends later than `retry_for_s` after
    the start. The time in which the call `waited` for a connection does not count."""

    def __init__(self, retry_for_s: float, now_s: float) -> None:
        self._deadline_s = now_s + retry_for_s
        self._longest_s = _FIRST_PAUSE_S

    def waited(self, seconds: float) -> None:
        self._deadline_s += seconds

    def pause_s(self, error: PostdateError, now_s: float) -> float | None:
        """How long to wait before the next attempt; None if there is none."""
        if not isinstance(error, RateLimited | Unavailable | ConnectionFailed):
            return None
        asked_s = 0.0 if isinstance(error, ConnectionFailed) else error.retry_after or 0.0
        pause_s = asked_s + self._longest_s * random.uniform(0.5, 1.0)  # noqa: S311
        self._longest_s = min(self._longest_s * 2, _LONGEST_PAUSE_S)
        return pause_s if now_s + pause_s <= self._deadline_s else None


def retry_after_s(header: str | None) -> float | None:
    """What a Retry-After header asks for: seconds, or (from a proxy) a date."""
    if header is None:
        return None
    if header.strip().isdigit():
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max((moment - datetime.now(UTC)).total_seconds(), 0.0)
