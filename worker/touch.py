"""Whether this worker is in touch with the store."""

from __future__ import annotations

import time

import structlog

_log = structlog.get_logger(__name__)


class Touch:
    """Says once that the store is gone and once that it is back, and gives leases grace then.

    While the store or its network was away nobody could prolong a lease, so for the length of one
    lease after it this worker takes over none that has ended: whoever holds it may be alive.
    """

    def __init__(self, lease_ms: int, store_uptime_ms: int) -> None:
        self._lease_s = lease_ms / 1000
        self._grace_until_s = time.monotonic() + max(0, lease_ms - store_uptime_ms) / 1000
        self.lost = False

    def lose(self, error: BaseException) -> None:
        if not self.lost:
            self.lost = True
            _log.warning("lost touch with the store; trying on", error=str(error))

    def regain(self) -> None:
        if self.lost:
            self.lost = False
            self._grace_until_s = time.monotonic() + self._lease_s
            _log.info("in touch with the store again")

    @property
    def grace_ms(self) -> int:
        """How long leases that have ended are still prolonged instead of taken over."""
        return max(0, int((self._grace_until_s - time.monotonic()) * 1000))
