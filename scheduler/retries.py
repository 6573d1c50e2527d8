"""How often and after which waits an attempt that failed may be made again."""

from __future__ import annotations

from scheduler.models import Request
from scheduler.runtime.settings import DAY_MS

MOST_RETRIES = 20
MOST_DELAYS = 20
SHORTEST_DELAY_MS, LONGEST_DELAY_MS = 1000, 7 * DAY_MS
# Where a schedule names none: ten seconds, a minute, ten, an hour, six.
USUAL_DELAYS_MS = (10_000, 60_000, 600_000, 3_600_000, 21_600_000)
# The longest Retry-After that is followed.
LONGEST_ASKED_MS = DAY_MS
# Maximum jitter, as a fraction of the delay: what failed together does not come back together.
SPREAD = 0.2


def delays_ms(request: Request) -> tuple[int, ...] | None:
    """The waits between its attempts; None where there is only one attempt."""
    return (request.retry_delays_ms or USUAL_DELAYS_MS) if request.retries else None
