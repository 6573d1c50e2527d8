"""An outage of the store, as this process's requests meet it: told in the log."""

from __future__ import annotations

import asyncio

import structlog

from scheduler.errors import StoreError, Unreadable
from scheduler.store.server.failures import reason_of

_AGAIN_AFTER_S = 60.0
# Longer than a load balancer that meets it at /readyz waits from one look to the next.
_OVER_AFTER_S = 30.0
_log = structlog.get_logger()


class Outage:
    """Told when it begins, once a minute while it goes on, and when it seems to be over. Whoever is
    refused learns nothing of hosts and ports, so this is where an operator reads why. While all is
    well it costs nothing."""

    def __init__(self) -> None:
        self._refused = 0
        self._told_s: dict[type[StoreError], float] = {}
        self._last_s = 0.0

    def note(self, error: StoreError) -> None:
        """A request was refused because of this. Each kind of error is told by itself. What is
        damaged is no outage: others have nothing to do with it."""
        if isinstance(error, Unreadable) and not error.key_id:
            return
        loop = asyncio.get_running_loop()
        self._last_s = loop.time()
        self._refused += 1
        if self._refused == 1:
            loop.call_later(_OVER_AFTER_S, self._look)
        told_s = self._told_s.get(type(error))
        if told_s is None or self._last_s - told_s >= _AGAIN_AFTER_S:
            self._told_s[type(error)] = self._last_s
            _log.warning(
                "requests are refused because of the store",
                error=str(error),
                reason=reason_of(error),
                refused=self._refused,
            )

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        left_s = self._last_s + _OVER_AFTER_S - loop.time()
        if left_s > 0:
            loop.call_later(left_s, self._look)
            return
        _log.info(
            f"no request has been refused because of the store for {_OVER_AFTER_S:.0f} s",
            refused=self._refused,
        )
        self._refused = 0
        self._told_s.clear()
