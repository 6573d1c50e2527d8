"""How long a call goes on, and how long it pauses before it is repeated."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic

from postdate.errors import ConnectionFailed, PostdateError, RateLimited, Unavailable

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


class Patience:
    """The pauses of one call: they double, with jitter, are never shorter than the server asks for,
    and end within `retry_for_s`, without the time that attempts wait for a connection."""

    def __init__(self, retry_for_s: float) -> None:
        self._deadline_s = monotonic() + retry_for_s
        self._longest_s = _FIRST_PAUSE_S
        self._asked_s: float | None = None

    def asks(self) -> None:
        self._asked_s = monotonic()

    def begins(self) -> None:
        """The attempt has a connection; further calls change nothing."""
        if self._asked_s is not None:
            self._deadline_s += monotonic() - self._asked_s
            self._asked_s = None

    def pause_s(self, error: PostdateError) -> float | None:
        """How long to wait before the next attempt; None if there is none."""
        if not isinstance(error, RateLimited | Unavailable | ConnectionFailed):
            return None
        asked_s = 0.0 if isinstance(error, ConnectionFailed) else error.retry_after or 0.0
        pause_s = asked_s + self._longest_s * random.uniform(0.5, 1.0)  # noqa: S311
        self._longest_s = min(self._longest_s * 2, _LONGEST_PAUSE_S)
        return pause_s if monotonic() + pause_s <= self._deadline_s else None


def retry_after_s(header: str | None) -> float | None:
    """Seconds; a proxy may send a date."""
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
