"""A store that cannot be reached, in the log: what was tried and why it failed."""

from __future__ import annotations

import structlog

from scheduler.errors import StoreError
from scheduler.reminder import Reminder
from scheduler.settings import Settings, without_password
from scheduler.store.server.failures import reason_of

_log = structlog.get_logger(__name__)


class Unreachable:
    """Says so when it begins and once a minute, and when it is over."""

    def __init__(self, settings: Settings) -> None:
        self._url = without_password(settings.redis_url or "")
        self._reminder = Reminder()

    def note(self, error: StoreError) -> None:
        if self._reminder.is_due():
            _log.error(
                "the store cannot be reached; trying on", store=self._url, reason=reason_of(error)
            )

    def end(self) -> None:
        if self._reminder.end():
            _log.info("the store can be reached again", store=self._url)
