"""Tries the addresses of a name in turn, two at a time (RFC 8305)."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from worker.fair_share import FairShare
from worker.send.outcome import ConnectFailed, Failure, Fault, is_of_tls, most_telling
from worker.send.wire import Wire

# How long one address may take before the next is tried beside it (RFC 8305, section 5).
NEXT_ADDRESS_AFTER_S = 0.25
_ATTEMPTS = 2
# Once a handshake has failed at one address, another one may hang for so long.
_MOST_BEHIND_TLS_S = 1.0


class OutOfSockets(Exception):
    """The system gives this process no more sockets: nothing that a target can be blamed for."""


class OutOfPorts(OutOfSockets):
    """It has no local port left for connections to this address and port."""


class HappyEyeballs:
    """One fire's way to a connection; the first that is made wins. While others wait, an attempt
    that hangs is given up in time for each of them, and for the exchange; soon, if a handshake has
    failed. A second attempt at once needs a spare socket. `attempt` connects, or raises
    ConnectFailed or OutOfSockets. `faults` gets those of the attempts that have failed."""

    def __init__(
        self,
        attempt: Callable[[str], Coroutine[Any, Any, Wire]],
        addresses: tuple[str, ...],
        limit_s: float,
        spares: FairShare,
        account_id: str,
        faults: list[Fault],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._attempt = attempt
        self._waiting = deque(addresses)
        self._patience_s = limit_s / (math.ceil(len(addresses) / _ATTEMPTS) + 1)
        self._pace_s = min(NEXT_ADDRESS_AFTER_S, self._patience_s / _ATTEMPTS)
        self._spares = spares
        self._account_id = account_id
        self._has_spare = False
        self._running: dict[asyncio.Task[Wire], float] = {}  # oldest first, by when it began
        self._next_s = 0.0
        self._faults = faults
        self._shortage: type[OutOfSockets] | None = None

    async def run(self) -> Wire:
        """The first connection. Raises ConnectFailed, or OutOfSockets if one of the addresses could
        not be tried for that. Nothing is left running, even when it is cancelled."""
        try:
            while self._waiting or self._running:
                self._begin_next()
                done, _ = await asyncio.wait(
                    self._running, timeout=self._pause_s(), return_when=asyncio.FIRST_COMPLETED
                )
                won = [attempt for attempt in done if attempt.exception() is None]
                if won:
                    del self._running[won[0]]  # a second one is dropped with the rest
                    return won[0].result()
                for attempt in done:
                    self._note_end(attempt, attempt.exception())
                self._give_up_late()
        finally:
            for attempt in self._running:
                _drop(attempt)
            self._return_spare()
        if self._shortage is not None:
            raise self._shortage()
        raise ConnectFailed(*most_telling(self._faults))

    def _begin_next(self) -> None:
        now_s = self._loop.time()
        if not self._waiting or (self._running and now_s < self._next_s):
            return
        self._next_s = now_s + self._pace_s
        if not self._running or self._may_have_second():
            attempt = self._loop.create_task(self._attempt(self._waiting.popleft()))
            self._running[attempt] = now_s

    def _may_have_second(self) -> bool:
        if len(self._running) == _ATTEMPTS:
            return False
        self._has_spare = self._has_spare or self._spares.take(self._account_id)
        return self._has_spare

    def _pause_s(self) -> float | None:
        """Until it is time for the next one, or to give one up; None if nothing waits for that."""
        if not self._may_give_up:
            return None
        until_s = next(iter(self._running.values())) + self._patience_s
        if self._waiting and len(self._running) < _ATTEMPTS:
            until_s = min(until_s, self._next_s)
        return max(0.0, until_s - self._loop.time())

    def _note_end(self, attempt: asyncio.Task[Wire], error: BaseException | None) -> None:
        del self._running[attempt]
        self._next_s = 0.0  # the next one may begin at once
        self._return_spare()
        if isinstance(error, ConnectFailed):
            self._faults.append(Fault(error.failure, error.detail))
            if is_of_tls(self._faults[-1]):
                self._patience_s = min(self._patience_s, _MOST_BEHIND_TLS_S)
        elif isinstance(error, OutOfSockets):
            self._shortage = type(error)
        elif error is not None:
            raise error

    @property
    def _may_give_up(self) -> bool:
        """For one that waits, or to tell of a failed handshake. Else the last ones have until the
        fire's own limit."""
        return bool(self._waiting) or any(map(is_of_tls, self._faults))

    def _give_up_late(self) -> None:
        if not self._may_give_up or not self._running:
            return
        attempt, begun_s = next(iter(self._running.items()))
        if self._loop.time() - begun_s >= self._patience_s:
            _drop(attempt)
            self._note_end(attempt, ConnectFailed(Failure.CONNECT_TIMEOUT))

    def _return_spare(self) -> None:
        if self._has_spare:
            self._has_spare = False
            self._spares.give_back(self._account_id)


def _drop(attempt: asyncio.Task[Wire]) -> None:
    """Give up an attempt; should it have won at the same moment, its connection is closed."""
    attempt.add_done_callback(_close_late)
    attempt.cancel()


def _close_late(attempt: asyncio.Task[Wire]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().abort()
