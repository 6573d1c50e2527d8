"""Which server is the primary: what the sentinels answer, and what they announce.

A sentinel announces a failover 200 ms before it promotes a replica, but stops the old primary only
some 10 s after that. Whatever the old primary takes meanwhile is lost. So calls wait from the
announcement until the sentinels name the new primary.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import hiredis
import structlog
from redis import exceptions
from redis.asyncio import Connection

from scheduler.errors import StoreUnavailable, anew
from scheduler.store.server.dial import Address, Dial
from scheduler.store.server.line import Line, Lines, packed

_LOOK_EVERY_S = 1.0
# Announcements and errors bring a look forward, but not more of them than this.
_REST_S = 0.05
_ANSWER_S = 1.0
# A sentinel that did not answer the last look delays no other one by more.
_ANSWER_AFTER_FAILURE_S = 0.2
# How long a call waits for the next primary.
_WAIT_S = 3.0
# A failover that takes longer has stuck: calls go on to the primary that there is.
_LONGEST_S = 10.0
# The steps up to a promotion. A sentinel may rest between them, as when its machine stood still.
_BEGINS = (
    b"+try-failover",
    b"+failover-state-select-slave",
    b"+failover-state-send-slaveof-noone",
    b"+failover-state-wait-promotion",
)
_GOES_ON = ("+promoted-slave", "+switch-master", "+failover-end*", "-failover-abort-*")
_log = structlog.get_logger(__name__)


class Answer(NamedTuple):
    """One sentinel's word. A higher epoch is newer. `choosing`: it is about to promote a replica,
    or already has and does not know yet."""

    primary: Address
    epoch: int
    choosing: bool


class Sentinels:
    """Follows the primary of a service. Looks once a second, and at once after an announcement.
    `moved` is called when another server is the primary than before."""

    def __init__(self, service: str, sentinels: Sequence[Connection]) -> None:
        self.primary: Address | None = None
        self.moved: Callable[[], None] = _nothing
        self._service = service
        self._sentinels = [_Sentinel(each, service, self._announced) for each in sentinels]
        self._settled = asyncio.Event()
        self._settled.set()
        self._choosing_since_s: float | None = None
        self._begun = 0  # steps of failovers that were announced
        self._early = asyncio.Event()
        self._looking: asyncio.Task[Exception | None] | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def choosing(self) -> bool:
        """Whether the primary may be replaced at this moment."""
        return not self._settled.is_set()

    async def settled(self) -> None:
        """Returns once no failover is under way. Raises StoreUnavailable after 3 s."""
        if self._settled.is_set():
            return
        try:
            async with asyncio.timeout(_WAIT_S):
                await self._settled.wait()
        except TimeoutError:
            raise StoreUnavailable("The store's sentinels are choosing another primary") from None

    async def find(self) -> Address:
        """The primary's address, asked for now. Raises a ConnectionError of redis-py if no sentinel
        answers, StoreUnavailable if a failover takes too long."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        failure = await self._look()
        if failure is not None:
            raise anew(failure)
        await self.settled()
        assert self.primary is not None
        return self.primary

    def look_soon(self) -> None:
        self._early.set()

    async def aclose(self) -> None:
        tasks = [task for task in (self._watching, self._looking) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for each in self._sentinels:
            each.close()

    def _announced(self, channel: bytes, of: bytes) -> None:
        # Of a service: its name is the first or second word, or follows the address of a replica.
        if self._service.encode() in of.split():
            if channel in _BEGINS:
                self._begun += 1
                self._note(choosing=True, step=True)
            self.look_soon()

    async def _watch(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(_REST_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await self._early.wait()

    async def _look(self) -> Exception | None:
        """Returns the failure, if no sentinel answers. Callers share a look that is under way."""
        if self._looking is None or self._looking.done():
            self._early.clear()
            self._looking = asyncio.create_task(self._ask_all())
        return await asyncio.shield(self._looking)

    async def _ask_all(self) -> Exception | None:
        begun = self._begun
        found = await asyncio.gather(*(each.ask() for each in self._sentinels))
        answers = [each for each in found if isinstance(each, Answer)]
        if not answers:
            self._note(choosing=self._choosing_since_s is not None)
            return exceptions.ConnectionError("; ".join(map(str, found)))
        answer = newest(answers)
        self._move(answer.primary)
        # Of a failover that began meanwhile these answers may not know.
        self._note(choosing=answer.choosing or begun != self._begun)
        return None

    def _move(self, primary: Address) -> None:
        before, self.primary = self.primary, primary
        if before not in (None, primary):
            host, port = primary
            _log.warning("the store has another primary", primary=f"{host}:{port}")
            self.moved()

    def _note(self, *, choosing: bool, step: bool = False) -> None:
        """`step`: a failover goes on, maybe one that had stuck."""
        now_s = time.monotonic()
        if not choosing:
            self._choosing_since_s = None
        elif step or self._choosing_since_s is None:
            self._choosing_since_s = now_s
            if not self.choosing:
                _log.warning("the store's sentinels choose another primary; calls wait")
        since_s = self._choosing_since_s
        if since_s is not None and now_s - since_s < _LONGEST_S:
            self._settled.clear()
        else:
            self._settled.set()


def newest(answers: Sequence[Answer]) -> Answer:
    """What several sentinels say together: the primary of the newest epoch; and it is about to be
    replaced if any of them says so. Pure."""
    last = max(answers, key=lambda each: each.epoch)
    return last._replace(choosing=any(each.choosing for each in answers))


class _Sentinel:
    """A line to one sentinel, which answers and announces on it."""

    def __init__(
        self, to: Connection, service: str, announced: Callable[[bytes, bytes], None]
    ) -> None:
        self._dial = Dial(to, line=lambda: _AnnouncingLine(announced))
        self._lines = Lines(self._open)
        self._where = f"{to.host}:{to.port}"
        self._service = service
        self._questions = packed(
            [("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service), ("SENTINEL", "MASTER", service)]
        )
        self._answered = True

    async def ask(self) -> Answer | str:
        """Its answer, or why there is none."""
        limit_s = _ANSWER_S if self._answered else _ANSWER_AFTER_FAILURE_S
        self._answered = False
        try:
            async with asyncio.timeout(limit_s):
                line = await self._lines.open()
                address, master = await line.call(self._questions, 2)
            if isinstance(master, Exception) or not address:
                return f"Sentinel {self._where} knows no primary of {self._service}"
            answer = _answer(address, master)
        except TimeoutError:
            return f"Sentinel {self._where} does not answer"
        except Exception as error:  # whatever it is, the other sentinels' answers count
            return f"Sentinel {self._where}: {str(error).rstrip('.')}"
        self._answered = True
        return answer

    def close(self) -> None:
        self._lines.close()

    async def _open(self) -> Line:
        line = await self._dial()
        # By version 3 of the protocol, replies and announcements share a line.
        commands = packed([("HELLO", 3), ("PSUBSCRIBE", *_BEGINS, *_GOES_ON)])
        [reply] = await line.call(commands, 1)
        if isinstance(reply, Exception):
            line.close()
            raise reply
        return line


def _answer(address: Sequence[bytes], master: dict[bytes, bytes]) -> Answer:
    host, port = address
    # Once the sentinel knows that the replica is a primary it names that one.
    named = (master[b"ip"], master[b"port"]) == (host, port)
    choosing = named and b"failover_in_progress" in master[b"flags"].split(b",")
    return Answer((host.decode(), int(port)), int(master[b"config-epoch"]), choosing)


class _AnnouncingLine(Line):
    """Announcements come between the replies."""

    def __init__(self, announced: Callable[[bytes, bytes], None]) -> None:
        super().__init__()
        self._announced = announced

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                if isinstance(reply, hiredis.PushNotification):
                    self._hear(*reply)
                elif self._waiting:  # a sentinel that refuses the first command refuses the second
                    self._take(reply)
        except exceptions.InvalidResponse as error:
            self.close(exceptions.ConnectionError(f"Not a reply: {error}"))

    def _hear(self, kind: bytes, pattern: bytes, *message: Any) -> None:
        if kind == b"pmessage":
            channel, text = message
            self._announced(channel, text)


def _nothing() -> None:
    pass
