"""What one API process holds: settings, rules, and the store once it is open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qsl, unquote

import structlog
from litestar import Request
from litestar.datastructures import MultiDict, State

from api.heartbeat import Heartbeat
from api.hosts import Hosts
from api.outage import Outage
from api.refusals import Refusals
from api.rules import Rules
from api.tally import Tally
from scheduler.errors import StoreError, StoreMisconfigured, StoreUnavailable
from scheduler.settings import Settings
from scheduler.store import Store
from scheduler.store.server.unreachable import Unreachable
from scheduler.version import version

_log = structlog.get_logger()

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0

# Of cookies so many characters are read. Ours take a few hundred.
_COOKIE_CHARACTERS = 4096


class HttpRequest(Request[Any, Any, State]):
    """A request as handlers get it. What litestar parses of cookies and of queries, it keeps for
    the next thousand requests, whosever they are: session cookies, or 64 KiB of anything."""

    @property
    def cookies(self) -> dict[str, str]:
        text = self.headers.get("cookie", "")[:_COOKIE_CHARACTERS]
        pairs = (each.partition("=") for each in text.split(";"))
        return {name.strip(): unquote(value.strip()) for name, _, value in pairs}

    @property
    def query_params(self) -> MultiDict[Any]:
        text = self.scope["query_string"].decode("latin-1")
        return MultiDict(parse_qsl(text, keep_blank_values=True))


def _log_it(error: StoreMisconfigured) -> None:
    _log.error("the store cannot be used", reason=str(error))


def _pass() -> None:
    """For a store that was there from the start."""


class Service:
    """Lives as long as the app. `store` raises StoreUnavailable until the store is open.

    `on_misconfigured` is called, once, if the store answers but cannot be used; `on_opened` when a
    store is open at last that could not be reached at the start.
    """

    def __init__(self, settings: Settings, store: Store | None = None) -> None:
        self.settings = settings
        self.rules = Rules.of(settings)
        self.hosts = Hosts(settings)
        self.refusals = Refusals()
        self.tally = Tally()
        self.outage = Outage()
        self.draining = False
        self.on_misconfigured: Callable[[StoreMisconfigured], None] = _log_it
        self.on_opened: Callable[[], None] = _pass
        self._unreachable = Unreachable(settings)
        self._store = store

    @property
    def opened(self) -> Store | None:
        """The store, if it is open."""
        return self._store

    @property
    def store(self) -> Store:
        if self._store is None:
            raise StoreUnavailable("The store is not open yet.")
        return self._store

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Opens the store and closes it again, unless one was given: that is its owner's.

        A store that cannot be reached does not keep the service from starting: it answers 503
        and goes on trying.
        """
        if self._store is not None:
            yield
            return
        at_work = asyncio.create_task(self._open_and_beat(opened=await self._opened()))
        try:
            yield
        finally:
            await _stop(at_work)
            await self._close()

    async def _open_and_beat(self, *, opened: bool) -> None:
        """Opens the store if it is not, and writes heartbeats from then on."""
        if not opened:
            await self._keep_opening()
        heartbeat = Heartbeat(self.store, self.settings, self._unreachable)
        try:
            await heartbeat.run()
        finally:
            await heartbeat.end()

    async def _close(self) -> None:
        if self._store is not None:
            await self._store.aclose()

    async def _opened(self) -> bool:
        try:
            self._store = await Store.open(self.settings)
        except StoreMisconfigured as error:
            self.on_misconfigured(error)
            return False
        except StoreError as error:
            self._unreachable.note(error)
            return False
        self._unreachable.end()
        self._store.log_opened(self.settings, role="api", version=version())
        return True

    async def _keep_opening(self) -> None:
        pause_s = _FIRST_PAUSE_S
        await asyncio.sleep(pause_s)
        while not await self._opened():
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s)
        self.on_opened()


async def _stop(at_work: asyncio.Task[None]) -> None:
    """Asks more than once: a cancellation that meets the client in closing a connection gets lost
    in there."""
    while not at_work.done():
        at_work.cancel()
        await asyncio.wait([at_work], timeout=_FIRST_PAUSE_S)


def service_of(request: HttpRequest) -> Service:
    service: Service = request.app.state.service
    return service
