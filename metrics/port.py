"""The port on which a process tells of itself: /metrics, /healthz, /readyz.

It shares the event loop with the work. So whatever comes here costs little: few connections at a
time, few new ones a second, one answer made for all who ask within a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Protocol

import structlog

from metrics.exchange import Answer, Exchange, sentence
from metrics.families import CONTENT_TYPE, Metric, text
from metrics.pulse import Pulse

_MOST_AT_ONCE = 16
_MOST_PER_SECOND = 50
_BACKLOG = 64
# How old an answer may be.
_KEPT_S = 1.0
# A port that is taken, perhaps by the process that we replace and which still drains.
_TRY_AGAIN_S = 2.0
_log = structlog.get_logger(__name__)


class Source(Protocol):
    """What a process has to tell."""

    async def look(self) -> None:
        """Before `families`: whatever has to be asked for. Does not raise."""

    def families(self) -> Iterable[Metric]: ...

    async def unready(self) -> str | None:
        """Why it should not be given work, as a sentence; None if it should."""


class MetricsPort:
    """From `start` to `aclose`. A port that is taken keeps nothing from working: that is said
    once, and it is tried again until it is free."""

    def __init__(self, host: str, number: int, source: Source, pulse: Pulse) -> None:
        self._host = host
        self._number = number
        self._source = source
        self._pulse = pulse
        self._loop = asyncio.get_running_loop()
        self._listener: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._told = False
        self._exchanges: OrderedDict[Exchange, None] = OrderedDict()
        self._accepted = 0
        self._second_s = 0.0
        self._opening: set[asyncio.Task[None]] = set()
        self._made: dict[str, tuple[float, asyncio.Future[Answer]]] = {}

    def start(self) -> None:
        """Listens, now or as soon as it can."""
        self._timer = None
        try:
            self._listener = _listening(self._host, self._number)
        except OSError as error:
            self._tell(error)
            self._timer = self._loop.call_later(_TRY_AGAIN_S, self.start)
            return
        if self._told:
            _log.info("the metrics port is ours now", port=self._number)
        self._loop.add_reader(self._listener.fileno(), self._accept)

    async def aclose(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()
        for each in list(self._exchanges):
            each.abort()
        made = [answer for _, answer in self._made.values()]
        unended: list[asyncio.Future[Any]] = [*self._opening, *made]
        for each_one in unended:
            each_one.cancel()
        await asyncio.gather(*unended, return_exceptions=True)

    # Who comes

    def entered(self, exchange: Exchange) -> None:
        """The oldest gives way: who opens connections and says nothing keeps nobody out."""
        self._exchanges[exchange] = None
        if len(self._exchanges) > _MOST_AT_ONCE:
            next(iter(self._exchanges)).abort()

    def left(self, exchange: Exchange) -> None:
        self._exchanges.pop(exchange, None)

    def _accept(self) -> None:
        assert self._listener is not None
        now_s = self._loop.time()
        if now_s - self._second_s >= 1:
            self._second_s, self._accepted = now_s, 0
        if self._accepted >= _MOST_PER_SECOND:
            # The others wait in the system's queue, and cost nothing there.
            self._loop.remove_reader(self._listener.fileno())
            self._timer = self._loop.call_at(self._second_s + 1, self._resume)
            return
        self._accepted += 1
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it has gone again, or we have no file left for it
            return
        connection.setblocking(False)
        opening = self._loop.create_task(self._open(connection))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    def _resume(self) -> None:
        self._timer = None
        assert self._listener is not None
        self._loop.add_reader(self._listener.fileno(), self._accept)

    async def _open(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: Exchange(self._answer_to, self), connection
            )
        except OSError:
            connection.close()

    # What they are told

    async def _answer_to(self, path: str) -> Answer:
        match path:
            case "/healthz":
                return self._health()
            case "/metrics" | "/readyz":
                return await asyncio.shield(self._made_of_late(path))
        return sentence(404, "Here are /metrics, /healthz and /readyz.")

    def _health(self) -> Answer:
        if self._pulse.beats:
            return sentence(200, "ok")
        return sentence(503, "The event loop has stood still for seconds.")

    def _made_of_late(self, path: str) -> asyncio.Future[Answer]:
        """One answer for all who ask within a second."""
        at_s, made = self._made.get(path, (0.0, None))
        if made is None or (made.done() and self._loop.time() - at_s > _KEPT_S):
            make = self._metrics if path == "/metrics" else self._readiness
            made = asyncio.ensure_future(make())
            self._made[path] = (self._loop.time(), made)
        return made

    async def _metrics(self) -> Answer:
        try:
            await self._source.look()
            parts = []
            for family in self._source.families():
                parts.append(text(family))
                await asyncio.sleep(0)  # what is due now does not wait for all of it
            return Answer(200, CONTENT_TYPE, b"".join(parts))
        except Exception:
            _log.exception("metrics cannot be told")
            return sentence(500, "Internal error.")

    async def _readiness(self) -> Answer:
        try:
            reason = await self._source.unready()
        except Exception:
            _log.exception("readiness cannot be told")
            reason = "Internal error."
        return sentence(503, reason) if reason else sentence(200, "ready")

    def _tell(self, error: OSError) -> None:
        if self._told:
            return
        self._told = True
        if error.errno == errno.EADDRINUSE:
            said = f"Port {self._number} on {self._host} is taken by another program"
        else:
            said = f"Port {self._number} on {self._host} cannot be listened on: {error.strerror}"
        _log.warning(
            f"{said}; everything works but metrics and health, until it is free."
            " POSTDATE_METRICS_PORT chooses another one, 0 none"
        )


def _listening(host: str, number: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind((host, number))
        listener.listen(_BACKLOG)
        stack.pop_all()
    return listener
