"""The store's faults, in the log, as this process's requests meet them."""

from __future__ import annotations

from collections import defaultdict

import structlog

from scheduler.errors import StoreError, Unreadable
from scheduler.reminder import Reminder
from scheduler.store.server.failures import reason_of

_log = structlog.get_logger()


class Outage:
    """Logs each kind of error when it begins and once a minute. Clients are told nothing of hosts
    and ports, so this is where an operator reads why they were refused."""

    def __init__(self) -> None:
        self._reminders: defaultdict[type[StoreError], Reminder] = defaultdict(Reminder)
        self._refused = 0

    def note(self, error: StoreError) -> None:
        """A request was refused because of this. Damage to one thing is no outage."""
        if isinstance(error, Unreadable) and not error.key_id:
            return
        self._refused += 1
        if self._reminders[type(error)].is_due():
            _log.warning(
                "requests are refused because of the store",
                error=str(error),
                reason=reason_of(error),
                refused=self._refused,
            )
