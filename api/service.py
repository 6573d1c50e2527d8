"""What one API process holds: settings, rules, and the store once it is open; and its heartbeat."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import socket
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import parse_qsl, unquote

import structlog
from litestar import Request
from litestar.datastructures import MultiDict, State

from api.bulk_actions.runner import BulkRunner
from api.fair_queue import Turns
from api.schema.rules import Rules
from metrics.families import Histogram
from scheduler.errors import (
    OutcomeUnknown,
    StoreError,
    StoreMisconfigured,
    StoreUnavailable,
    Unreadable,
)
from scheduler.runtime.one_at_a_time import OneAtATime
from scheduler.runtime.reminder import Reminder
from scheduler.runtime.settings import Settings
from scheduler.runtime.version import version
from scheduler.store import Store
from scheduler.store.operators.heartbeats import LOCAL_URL, PUBLIC_URL, STORE_ID
from scheduler.store.server.failures import Unreachable, reason_of

_log = structlog.get_logger()

# How long a store may take to answer one that asks only whether it does.
PATIENCE_S = 2.0
# The pace at which keys are refused.
PER_SECOND, AT_ONCE, MOST_WAITING = 100, 25, 5000
LONGEST_WAIT_S, _TICK_S = 5.0, 0.02

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0
_BEAT_EVERY_S = 5.0
_GOODBYE_S = 1.0
# The most that is read of cookies. Ours take a few hundred.
_COOKIE_CHARACTERS = 4096
_DURATION_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_METHODS = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"))


class HttpRequest(Request[Any, Any, State]):
    """A request as handlers get it. Litestar would keep the cookies and queries that it parses,
    session cookies or 64 KiB of anything, for the next thousand requests."""

    @property
    def cookies(self) -> dict[str, str]:
        text = self.headers.get("cookie", "")[:_COOKIE_CHARACTERS]
        pairs = (each.partition("=") for each in text.split(";"))
        return {name.strip(): unquote(value.strip()) for name, _, value in pairs}

    @property
    def query_params(self) -> MultiDict[Any]:
        text = self.scope["query_string"].decode("latin-1")
        return MultiDict(parse_qsl(text, keep_blank_values=True))


class Outage:
    """Logs each kind of error when it begins and once a minute. Clients see nothing of hosts
    and ports, so this is where an operator reads why they were refused."""

    def __init__(self) -> None:
        self._reminders: defaultdict[type[StoreError], Reminder] = defaultdict(Reminder)
        self._refused = 0

    def note(self, error: StoreError, request_id: str) -> None:
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
                request_id=request_id,
            )


class RequestMetrics:
    """Requests, counted as they end: by route (its template, "none" where none fits), method and
    status code (0: the client went away); `refused` by reason. `ignored`: headers that the door
    for clients of QStash does not know, by name."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, int], int] = {}
        self.durations_s = defaultdict[str, Histogram](lambda: Histogram(_DURATION_S))
        self.refused: dict[str, int] = {}
        self.ignored: dict[str, int] = {}

    def note(self, route: str, method: str, status: int, duration_s: float) -> None:
        of = (route, method if method in _METHODS else "other", status)
        self.requests[of] = self.requests.get(of, 0) + 1
        self.durations_s[route].note(duration_s)

    def refuse(self, reason: str, count: int = 1) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + count


class Refusals:
    """Gives each refusal its turn, so many a second, after a burst.

    A single mistake is answered at once. A flood waits for its answers before it sends more, so it
    slows down to a pace that costs others little: a request that waits here costs only memory.
    """

    def __init__(self) -> None:
        self._next_s = 0.0
        self._waiting = 0

    async def turn(self) -> bool:
        """Returns when a refusal may go out; False, at once, if too many wait for that already."""
        wait_s = self._wait_s(time.monotonic())
        if wait_s <= 0:
            return True
        if self._waiting >= MOST_WAITING:
            return False
        self._waiting += 1
        try:
            await asyncio.sleep(wait_s)
        finally:
            self._waiting -= 1
        return True

    def _wait_s(self, now_s: float) -> float:
        """Each takes the next free moment of a queue (GCRA).

        Where the queue is full, each waits for about as long as it is, spread at random. A few
        leave the queue together: their next keys are then checked in one batch, which is cheaper.
        """
        next_s = max(self._next_s, now_s - AT_ONCE / PER_SECOND) + 1 / PER_SECOND
        if next_s <= now_s:
            self._next_s = next_s
            return 0.0
        if next_s - now_s > LONGEST_WAIT_S:
            return LONGEST_WAIT_S * random.uniform(0.7, 1)  # noqa: S311  # no secret
        self._next_s = next_s
        return next_s - next_s % _TICK_S + _TICK_S - now_s


class Service:
    """Lives as long as the app. `store` raises StoreUnavailable until the store is open.

    `on_misconfigured` is called, once, if the store answers but cannot be used; `on_opened` when a
    store that could not be reached at the start is open at last.
    """

    def __init__(self, settings: Settings, store: Store | None = None) -> None:
        self.settings = settings
        self.rules = Rules.of(settings)
        self.refusals = Refusals()
        self.turns, self.pages = Turns(), OneAtATime()
        self.tally = RequestMetrics()
        self.outage = Outage()
        self.draining = False
        self.on_misconfigured: Callable[[StoreMisconfigured], None] = lambda error: _log.error(
            "the store cannot be used", reason=str(error)
        )
        self.on_opened: Callable[[], None] = lambda: None
        self._unreachable = Unreachable(settings)
        self._process_id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self.opened = store
        self._bulk_runner: BulkRunner | None = None

    @property
    def store(self) -> Store:
        if self.opened is None:
            raise StoreUnavailable("The store is not open yet.")
        return self.opened

    @property
    def bulk_runner(self) -> BulkRunner:
        """Raises StoreUnavailable until the store is open."""
        if self._bulk_runner is None:
            self._bulk_runner = BulkRunner(self.store, self.rules)
        return self._bulk_runner

    async def reach_store(self) -> None:
        """Raises StoreError unless the store answers soon."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.store.ping()
        except TimeoutError:
            raise StoreUnavailable("The store does not answer.") from None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Opens the store and closes it again, unless one was given: that is its owner's.

        Starts even if the store cannot be reached: then it answers 503 and goes on trying.
        """
        given = self.opened
        if given is not None:
            yield
            return
        at_work = asyncio.create_task(self._open_and_beat(opened=await self._opened()))
        try:
            yield
        finally:
            await _stop(at_work)
            if self.opened is not None:
                await self.opened.aclose()

    async def _open_and_beat(self, *, opened: bool) -> None:
        """Opens the store if it is not open; from then on writes heartbeats, and goes on with bulk
        actions."""
        if not opened:
            await self._keep_opening()
        bulks = asyncio.create_task(self.bulk_runner.run())
        try:
            while True:
                with suppress(StoreError):  # the request that needs the store reports it
                    await self._beat(self.store)
                await asyncio.sleep(_BEAT_EVERY_S)
        finally:
            await _stop(bulks)
            with suppress(StoreError, TimeoutError):  # so that operators do not wait for us
                await asyncio.wait_for(self.store.apis.leave(self._process_id), _GOODBYE_S)

    async def _beat(self, store: Store) -> None:
        try:
            url = PUBLIC_URL if self.settings.public_url else LOCAL_URL
            says = {"pid": os.getpid(), STORE_ID: store.shards.store_id, url: self.settings.url}
            await store.apis.beat(self._process_id, says)
        except (StoreUnavailable, OutcomeUnknown) as error:
            self._unreachable.note(error)
            return
        self._unreachable.end()
        await store.sealing_keys.watch()
        await store.shards.newest()
        await store.filling.note()

    async def _opened(self) -> bool:
        try:
            self.opened = await Store.open(self.settings)
        except StoreMisconfigured as error:
            self.on_misconfigured(error)
            return False
        except StoreError as error:
            self._unreachable.note(error)
            return False
        self._unreachable.end()
        self.opened.log_opened(self.settings, role="api", version=version())
        return True

    async def _keep_opening(self) -> None:
        pause_s = _FIRST_PAUSE_S
        await asyncio.sleep(pause_s)
        while not await self._opened():
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s)
        self.on_opened()


async def _stop(at_work: asyncio.Task[None]) -> None:
    """Cancels more than once: redis-py loses a cancellation while it closes a connection."""
    while not at_work.done():
        at_work.cancel()
        await asyncio.wait([at_work], timeout=_FIRST_PAUSE_S)


def service_of(request: HttpRequest) -> Service:
    service: Service = request.app.state.service
    return service
