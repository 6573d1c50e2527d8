"""The guard: which addresses a target has, and whether all of them may be reached.

A fire connects to one of the addresses returned here and never to a name, so that what was
judged is what is reached, whatever DNS says a moment later.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import structlog

from scheduler.targets import AddressPolicy, Target
from worker.outcome import Failure

FRESH_S = 5.0
USABLE_S = 30.0
FAILURE_S = 1.0
MAX_NAMES = 10_000
MAX_LOOKUPS = 256
# More addresses than that are not tried for one fire.
MAX_ADDRESSES = 8

_log = structlog.get_logger(__name__)

Resolve = Callable[[str], list[str]]
"""The addresses of a name, in the order of preference. Blocks; raises OSError or UnicodeError."""


class Blocked(Exception):
    """The target cannot be reached, or may not be; `failure` says which."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.value)
        self.failure = failure


class _Found(NamedTuple):
    """What a look-up came to: judged addresses, or why there are none."""

    addresses: tuple[str, ...]
    failure: Failure | None


class _Answer(NamedTuple):
    """What is remembered of a host. Times by the loop's clock."""

    addresses: tuple[str, ...]
    failure: Failure | None
    fresh_until_s: float
    usable_until_s: float


def system_resolve(name: str) -> list[str]:
    """Ask the system's resolver. As bytes: for a str, Python would apply an IDNA of its own."""
    found = socket.getaddrinfo(name.encode("ascii"), None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Guard:
    """Resolves and judges, with a short memory.

    An answer is fresh for 5 s; then the next fire has it looked up again, but does not wait:
    an address that was judged stays safe to connect to, and a slow resolver must not make a
    busy target late. After 30 s it is forgotten. Look-ups of one name are made once, each in
    a thread of its own: a resolver that hangs holds up nobody else, nor the end of the process.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        policy: AddressPolicy,
        resolve: Resolve = system_resolve,
    ) -> None:
        self._loop = loop
        self._policy = policy
        self._resolve = resolve
        self._answers: dict[str, _Answer] = {}
        self._pending: dict[str, asyncio.Future[_Answer]] = {}
        self._queue: deque[str] = deque()
        self._running = 0

    def known(self, target: Target) -> tuple[str, ...] | None:
        """The judged addresses, if they are known without waiting; else None.

        Raises Blocked if it is known that there are none to go to.
        """
        host = target.host
        answer = self._answers.get(host)
        now = self._loop.time()
        if answer is None or now >= answer.usable_until_s:
            if target.literal is None:
                return None
            answer = self._remember(host, self._judge([host]), now)
        elif now >= answer.fresh_until_s and target.literal is None:
            self._look_up(host)
        if answer.failure is not None:
            raise Blocked(answer.failure)
        return answer.addresses

    async def addresses(self, target: Target) -> tuple[str, ...]:
        """The judged addresses, at least one, in the order to try them. Raises Blocked."""
        known = self.known(target)
        if known is not None:
            return known
        # Shielded: one fire that is given up must not cancel the look-up for the others.
        answer = await asyncio.shield(self._look_up(target.host))
        if answer.failure is not None:
            raise Blocked(answer.failure)
        return answer.addresses

    def _look_up(self, host: str) -> asyncio.Future[_Answer]:
        pending = self._pending.get(host)
        if pending is None:
            pending = self._pending[host] = self._loop.create_future()
            self._queue.append(host)
            self._start_lookups()
        return pending

    def _start_lookups(self) -> None:
        while self._queue and self._running < MAX_LOOKUPS:
            self._running += 1
            host = self._queue.popleft()
            thread = threading.Thread(target=self._ask, args=(host,), name="resolve", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system gives no more threads
                self._loop.call_soon(self._on_found, host, _none(Failure.UNRESOLVED))

    def _ask(self, host: str) -> None:
        """In a thread: resolve, judge, report to the loop."""
        found = self._judge_name(host)
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody is waiting
            self._loop.call_soon_threadsafe(self._on_found, host, found)

    def _judge_name(self, host: str) -> _Found:
        try:
            return self._judge(self._resolve(host))
        except (OSError, UnicodeError):
            return _none(Failure.UNRESOLVED)
        except Exception:
            _log.exception("Internal error", host=host)
            return _none(Failure.INTERNAL)

    def _judge(self, texts: list[str]) -> _Found:
        """All or nothing: one private address among public ones is how a rebinding looks."""
        if not texts:
            return _none(Failure.UNRESOLVED)
        if not all(self._policy.allows(ipaddress.ip_address(text)) for text in texts):
            return _none(Failure.NOT_ALLOWED)
        return _Found(_by_turns(texts)[:MAX_ADDRESSES], None)

    def _on_found(self, host: str, found: _Found) -> None:
        self._running -= 1
        self._start_lookups()
        answer = self._remember(host, found, self._loop.time())
        pending = self._pending.pop(host)
        if not pending.done():
            pending.set_result(answer)

    def _remember(self, host: str, found: _Found, now: float) -> _Answer:
        old = self._answers.pop(host, None)
        if found.failure is None:
            answer = _Answer(found.addresses, None, now + FRESH_S, now + USABLE_S)
        elif found.failure is Failure.UNRESOLVED and old and now < old.usable_until_s:
            # A resolver that stumbles takes nothing back; one that says "private" does.
            answer = old._replace(fresh_until_s=now + FAILURE_S)
        else:
            answer = _Answer((), found.failure, now + FAILURE_S, now + FAILURE_S)
        self._answers[host] = answer
        if len(self._answers) > MAX_NAMES:
            self._answers.pop(next(iter(self._answers)))
        return answer


def _none(failure: Failure) -> _Found:
    return _Found((), failure)


def _by_turns(texts: list[str]) -> tuple[str, ...]:
    """The first one's family and the other one by turns (RFC 8305, section 4): whichever of them
    does not work, the other is tried next, and is among those that are tried."""
    families = [":" in text for text in texts]
    ours = [text for text, family in zip(texts, families, strict=True) if family == families[0]]
    others = [text for text, family in zip(texts, families, strict=True) if family != families[0]]
    pairs = itertools.zip_longest(ours, others)
    return tuple(text for pair in pairs for text in pair if text is not None)
