"""A fire: one invocation in flight, from its claim to its outcome, and how long each part took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec
import structlog

from scheduler.models import Invocation, Outcome, Phases
from scheduler.target.targets import Target
from worker.holdings import subject
from worker.send.answer import Received
from worker.send.outcome import (
    Fault,
    failed,
    most_telling,
    tells_more_than_timeout,
    timed_out,
)
from worker.send.request import AT_MOST_ONCE
from worker.send.wire import Wire

Done = Callable[[Invocation, Outcome, float], None]
"""Called once per fire with its outcome, and when its first byte was written: by the monotonic
clock, in seconds, `NOT_SENT` if none was."""

NOT_SENT = -1.0
# Below this, phases add nothing to the response time of a kept connection.
SLOW_MS = 1000
_log = structlog.get_logger(__name__)


class Marks(msgspec.Struct):
    """When each part of the way to a new connection began, by the monotonic clock; None if it did
    not. `wait_s`: the connection is there, and the request goes out. `faults`: why there is none
    to some of several addresses."""

    resolve_s: float | None = None
    connect_s: float | None = None
    tls_s: float | None = None
    wait_s: float | None = None
    faults: list[Fault] = []

    @property
    def begun_s(self) -> float | None:
        begun = (self.resolve_s, self.connect_s, self.tls_s, self.wait_s)
        return next((each for each in begun if each is not None), None)


class Fire(msgspec.Struct, eq=False):
    """One invocation in flight, and how far it is."""

    invocation: Invocation
    target: Target
    done: Done | None
    limit_ms: int
    started_s: float
    deadline_s: float
    sent_at_s: float = NOT_SENT
    resent: bool = False
    wire: Wire | None = None
    steps: asyncio.Task[None] | None = None  # resolving and connecting, if it has to
    marks: Marks | None = None  # how far it came with that; None on a connection that was there
    response_bytes: int | None = None  # of the answer's body, for its callback; None: not wanted

    def timed(
        self, outcome: Outcome, heard_s: float | None = None, *, whole: bool = False
    ) -> Outcome:
        """The outcome with its phases; for a request that was sent twice, the second's."""
        marks = self.marks or Marks(wait_s=self.started_s)
        total_ms = outcome.response_time_ms
        if self.resent and marks.begun_s is not None:
            total_ms -= round((marks.begun_s - self.started_s) * 1000)
        phases = phases_of(marks, heard_s, max(0, total_ms), whole)
        return msgspec.structs.replace(outcome, phases=phases)

    def out_of_time(self) -> Outcome:
        """That it reached its limit; or, while it connects, how another address failed."""
        if self.steps is not None and self.marks is not None:
            fault = most_telling(self.marks.faults)
            if tells_more_than_timeout(fault):
                return failed(fault.failure, self.limit_ms, fault.detail)
        return timed_out(self.limit_ms)

    @property
    def account_id(self) -> str:
        return self.invocation.account_id

    @property
    def is_of_message(self) -> bool:
        """Whether the QStash door made it, or its callback."""
        return self.invocation.request.door is not None

    @property
    def is_over(self) -> bool:
        return self.done is None

    @property
    def needs_fresh(self) -> bool:
        """At most once: a kept connection may die unseen, and leave open whether it was sent."""
        return self.resent or self.invocation.request.delivery is AT_MOST_ONCE

    @property
    def is_sent(self) -> bool:
        """Whether the target has had all of the request."""
        wire = self.wire
        return self.sent_at_s != NOT_SENT and (wire is None or wire.has_sent_all)

    def elapsed_ms(self) -> int:
        """At most the limit: an answer may have come in time while this process stood still."""
        return min(round((time.monotonic() - self.started_s) * 1000), self.limit_ms)


def phases_of(marks: Marks, heard_s: float | None, total_ms: int, whole: bool) -> Phases | None:
    """What an exchange of so many milliseconds was made of; None if nothing had begun. `heard_s` is
    when an answer in several pieces began, `whole`: all of one came. Each part lasts until the next
    begins, and the last until the end, so they add up to `total_ms`."""
    begun_s = marks.begun_s
    if begun_s is None:
        return None
    starts = (marks.resolve_s, marks.connect_s, marks.tls_s, marks.wait_s, heard_s)
    offsets_ms = [
        None if each is None else max(0, min(round((each - begun_s) * 1000), total_ms))
        for each in starts
    ]
    if whole and heard_s is None:
        offsets_ms[-1] = total_ms
    lengths_ms: list[int | None] = []
    until_ms = total_ms
    for offset_ms in reversed(offsets_ms):
        lengths_ms.append(None if offset_ms is None else max(0, until_ms - offset_ms))
        until_ms = until_ms if offset_ms is None else min(until_ms, offset_ms)
    return Phases(*reversed(lengths_ms))


def responded(outcome: Outcome, received: Received) -> Outcome:
    """The outcome with the answer for its callback, which the connection then keeps no longer."""
    response, received.response = received.response, None
    return msgspec.structs.replace(outcome, response=response)


def report(
    done: Done, invocation: Invocation, outcome: Outcome, sent_at_s: float = NOT_SENT
) -> None:
    """Calls `done`, whose own faults end no loop."""
    try:
        done(invocation, outcome, sent_at_s)
    except Exception:
        _log.exception("Internal error", **subject(invocation))
