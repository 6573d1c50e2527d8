"""Callbacks of ended schedules: the outcomes of their attempts, and sending one again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scheduler import ids
from scheduler.callbacks import CallbackState, CallbackStatus
from scheduler.models import COMPLETED, Invocation, Outcome
from scheduler.store import keys
from scheduler.store.callback_state import pack_callback
from scheduler.store.heads import letter_member
from scheduler.store.retention import Retention
from scheduler.store.server import Argument, Script, Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.verdict import VERDICTS, Verdict

_CALLBACK = Script("lifecycle/callback")


class CallbackAck(NamedTuple):
    """How an attempt of a callback ended; `next_attempt_at_ms`: it failed and is made again."""

    invocation: Invocation
    outcome: Outcome
    next_attempt_at_ms: int | None = None


class Callbacks:
    def __init__(self, server: Server, clock: StoreClock, retention: Retention) -> None:
        self._server = server
        self._clock = clock
        self._kept = (retention.schedule_ms, retention.failed_kept_ms)

    async def ack(self, shard: int, acks: Sequence[CallbackAck]) -> list[Verdict]:
        """Records outcomes of one shard. Safe to repeat. A verdict for each: DONE, ENDED (before),
        HELD (by another worker now), or DAMAGED: a key of its account, which claims pass over then
        until something can be recorded. Raises StoreError."""
        arguments: list[Argument] = [*self._kept]
        for ack in acks:
            one, letter = ack.invocation, ids.local(ack.invocation.schedule_id)
            member = letter_member(one.request.reference, letter)
            row = (letter, one.token, *pack_callback(_state_after(ack)))
            due_ms = ack.next_attempt_at_ms
            arguments += (keys.parts(one.account_id).local, *row)
            arguments += ("" if due_ms is None else due_ms, member)
        now_us, verdicts = await self._server.run(_CALLBACK, keys.shard(shard), arguments)
        self._clock.observe(now_us)
        return [VERDICTS[each] for each in verdicts]


def _state_after(ack: CallbackAck) -> CallbackState:
    one, outcome, due_ms = ack.invocation, ack.outcome, ack.next_attempt_at_ms
    status = CallbackStatus.PENDING
    if due_ms is None:
        delivered = outcome.status is COMPLETED
        status = CallbackStatus.DELIVERED if delivered else CallbackStatus.FAILED
    return CallbackState(
        status=status,
        attempts=one.attempt,
        status_code=outcome.status_code,
        response_time_ms=outcome.response_time_ms,
        error_message=outcome.error_message,
        next_attempt_at_ms=due_ms,
        retry=(one.retry.number if one.retry else 0) + (due_ms is not None),
    )
