"""The guard: which addresses a target has, and whether all of them may be reached.

A fire connects to one of the addresses returned here and never to a name, so that the
judged address is the one reached, whatever DNS says a moment later.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from scheduler.target.destinations import Destinations
from scheduler.target.targets import Target
from worker.fair_share import SHARE_OF_FREE
from worker.loop_budget import LoopBudget
from worker.send.addresses.lookups import Lookups
from worker.send.outcome import ConnectFailed, Failure
from worker.send.sockets import is_own_address

FRESH_S = 5.0
USABLE_S = 30.0
FAILURE_S = 1.0
MAX_NAMES = 10_000
MAX_LITERALS = 1_000
# How long one look-up may take; far less than a fire, so that others have their turns.
LOOKUP_LIMIT_S = 5.0
# A question is a tenth of a millisecond, and an answer with a hundred addresses a whole one.
_STEPS_IN_A_ROUND = 8
# More addresses than that are not tried for one fire.
MAX_ADDRESSES = 8

_log = structlog.get_logger(__name__)

Resolve = Callable[[str], Awaitable[list[str]]]
"""The addresses of a name, in the order of preference. Raises OSError or UnicodeError."""


class Resolved(msgspec.Struct, frozen=True):
    """The remembered answer for a host. Times by the loop's clock."""

    addresses: tuple[str, ...]
    failure: Failure | None
    account_id: str  # whose share it is looked up in
    fresh_until_s: float
    usable_until_s: float


class _Names:
    """Remembered names, which an account can have without end: an account that looks up more
    than its share loses its own oldest one."""

    def __init__(self) -> None:
        self._answers: dict[str, Resolved] = {}
        self._by_account: dict[str, dict[str, None]] = {}  # the oldest first

    def get(self, host: str) -> Resolved | None:
        return self._answers.get(host)

    def put(self, host: str, answer: Resolved) -> None:
        self._forget(host)
        own = self._by_account.get(answer.account_id, {})
        if len(own) >= SHARE_OF_FREE * (MAX_NAMES - len(self._answers)):
            self._forget(next(iter(own or self._answers)))
        self._answers[host] = answer
        self._by_account.setdefault(answer.account_id, {})[host] = None

    def _forget(self, host: str) -> None:
        answer = self._answers.pop(host, None)
        if answer is not None:
            theirs = self._by_account[answer.account_id]
            del theirs[host]
            if not theirs:
                del self._by_account[answer.account_id]


class Guard:
    """Resolves and judges, with a short memory.

    An answer is fresh for 5 s. Then the next fire has it looked up again, but does not wait: a slow
    resolver must not make a busy target late. After 30 s it is forgotten, whatever its TTL. A
    look-up is given up after 5 s. Literal addresses take no name's place.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        destinations: Destinations,
        resolve: Resolve,
    ) -> None:
        self._loop = loop
        self._destinations = destinations
        self._resolve = resolve
        self._names = _Names()
        self._literals: dict[str, Resolved] = {}
        self._steps = LoopBudget(loop, _STEPS_IN_A_ROUND)
        self._lookups = Lookups(loop, self._ask)

    def known(self, target: Target) -> tuple[str, ...] | None:
        """The judged addresses, if they are known without waiting; else None.

        Raises ConnectFailed if it is known that there are none to go to.
        """
        if not self._destinations.allows_port(target.port):
            raise ConnectFailed(Failure.NOT_ALLOWED)
        host, is_name = target.host, target.literal is None
        answer = (self._names if is_name else self._literals).get(host)
        now = self._loop.time()
        if answer is None or now >= answer.usable_until_s:
            if is_name:
                return None
            answer = self._literals[host] = _resolved("", self._judge([host]), now)
            if len(self._literals) > MAX_LITERALS:
                del self._literals[next(iter(self._literals))]
        elif is_name and now >= answer.fresh_until_s:
            self._lookups.refresh(host, answer.account_id)
        if answer.failure is not None:
            raise ConnectFailed(answer.failure)
        return answer.addresses

    async def addresses(self, target: Target, account_id: str) -> tuple[str, ...]:
        """The judged addresses, at least one, in the order to try them. Raises ConnectFailed."""
        known = self.known(target)
        if known is not None:
            return known
        answer = await self._lookups.answer(target.host, account_id)
        if answer.failure is not None:
            raise ConnectFailed(answer.failure)
        return answer.addresses

    def close(self) -> None:
        self._lookups.close()

    async def _ask(self, host: str, account_id: str) -> Resolved:
        found = await self._found(host, account_id)
        now = self._loop.time()
        answer, old = _resolved(account_id, found, now), self._names.get(host)
        if found is Failure.UNRESOLVED and old and now < old.usable_until_s:
            # A resolver that stumbles takes nothing back; one that says "private" does.
            answer = msgspec.structs.replace(old, fresh_until_s=now + FAILURE_S)
        self._names.put(host, answer)
        return answer

    async def _found(self, host: str, account_id: str) -> tuple[str, ...] | Failure:
        if not self._destinations.allows_name(host):
            return Failure.NOT_ALLOWED
        try:
            await self._steps.turn(account_id)
            async with asyncio.timeout(LOOKUP_LIMIT_S):
                texts = await self._resolve(host)
            await self._steps.turn(account_id)
            return self._judge(texts)
        except (OSError, UnicodeError):  # TimeoutError is one
            return Failure.UNRESOLVED
        except Exception:
            _log.exception("Internal error", host=host)
            return Failure.INTERNAL

    def _judge(self, texts: list[str]) -> tuple[str, ...] | Failure:
        """All or nothing: one private address among public ones is how a rebinding looks."""
        if not texts:
            return Failure.UNRESOLVED
        addresses = {text: ipaddress.ip_address(text) for text in texts}
        if not all(map(self._destinations.allows, addresses.values())):
            return Failure.NOT_ALLOWED
        chosen = _by_turns(texts)[:MAX_ADDRESSES]
        closed = [text for text in chosen if not self._destinations.opens(addresses[text])]
        try:  # a system call each, so only for those about to be connected to
            is_inside = any(map(is_own_address, closed))
        except OSError:  # the system could not say whose it is
            return Failure.UNRESOLVED
        return Failure.NOT_ALLOWED if is_inside else chosen


def _resolved(account_id: str, found: tuple[str, ...] | Failure, now: float) -> Resolved:
    if isinstance(found, Failure):
        return Resolved((), found, account_id, now + FAILURE_S, now + FAILURE_S)
    return Resolved(found, None, account_id, now + FRESH_S, now + USABLE_S)


def _by_turns(texts: list[str]) -> tuple[str, ...]:
    """The first one's family and the other one by turns (RFC 8305, section 4): whichever of them
    does not work, the other is tried next, and is among those that are tried."""
    families = [":" in text for text in texts]
    ours = [text for text, family in zip(texts, families, strict=True) if family == families[0]]
    others = [text for text, family in zip(texts, families, strict=True) if family != families[0]]
    pairs = itertools.zip_longest(ours, others)
    return tuple(text for pair in pairs for text in pair if text is not None)
