"""How often and after which waits an attempt that failed may be made again."""

from __future__ import annotations

from scheduler.settings import DAY_MS

MOST_RETRIES = 20
MOST_DELAYS = 20
SHORTEST_DELAY_MS, LONGEST_DELAY_MS = 1000, 7 * DAY_MS
# Where a schedule names none: ten seconds, a minute, ten, an hour, six.
USUAL_DELAYS_MS = (10_000, 60_000, 600_000, 3_600_000, 21_600_000)
# What a target may ask for; and by how much of itself each wait is lengthened at random at most, so
# that what failed together does not come back together.
LONGEST_ASKED_MS = DAY_MS
SPREAD = 0.2
