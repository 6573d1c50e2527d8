"""Callbacks of ended schedules: the outcomes of their attempts, and sending one again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from scheduler import ids
from scheduler.callbacks import Callback, CallbackAttempt, CallbackState, CallbackStatus
from scheduler.errors import TooManyResends
from scheduler.models import COMPLETED, Invocation, Outcome, Request, Retry, Schedule
from scheduler.store import keys, stored
from scheduler.store.callback_state import open_callback, pack_callback
from scheduler.store.heads import letter_member
from scheduler.store.queries.reading import read_one, whole
from scheduler.store.retention import Retention
from scheduler.store.server import Argument, Script, Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.verdict import MOST_CHANGES_MET, VERDICTS, Verdict, refusal

# As many as there are before the last retry, each with so much of its message: 500 bytes at most,
# and none where the first attempt is the last.
_MOST_EARLIER, _MOST_CHARACTERS = 5, 60

_CALLBACK = Script("lifecycle/callback/callback")
_RESEND = Script("lifecycle/callback/resend")


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
        self._quotas = retention.quotas

    async def ack(self, shard: int, acks: Sequence[CallbackAck]) -> list[Verdict]:
        """Records outcomes of one shard. Safe to repeat. A verdict for each: DONE, ENDED (before),
        HELD (by another worker now), UNKNOWN (its account is gone), or DAMAGED: a key of its
        account, which claims pass over then until something can be recorded. Raises StoreError."""
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

    async def resend(
        self,
        account_id: str,
        schedule_id: str,
        url: str | None = None,
        operation: str | None = None,
    ) -> Schedule:
        """Makes the callback of an ended schedule pending again, from its first attempt on, also if
        it had none; to a new `url` from now on, if one is given. Safe to repeat after a lost reply;
        with the name of an `operation`, once for all calls of that name within a minute.

        Raises NotFound, Conflict if it has not ended, was cancelled, or its callback is pending,
        InvalidRequest if nothing names a URL, QuotaExceeded, TooManyResends, Damaged; then nothing
        was changed.
        """
        operation = operation or ids.new_operation()
        shard, account = keys.parts(account_id)
        for _ in range(MOST_CHANGES_MET):
            with whole(schedule_id):
                found = await read_one(self._server, account_id, schedule_id)
                ended = stored.schedule(schedule_id, found, self._server.secrecy)
            request, packed = ended.request, b""
            if url is not None:
                request = replace(
                    request, callback=replace(request.callback or Callback(), url=url)
                )
                packed = stored.seal_request(request, self._server.secrecy)
            local, before = ids.local(schedule_id), stored.sha1_of(found.packed)
            letter = letter_member(request.reference, local)
            arguments = (account, local, operation, before, packed, _where(request), letter)
            verdict, state = await self._server.write_until_answered(
                _RESEND, keys.shard(shard), (*arguments, *self._quotas)
            )
            if verdict != Verdict.CHANGED:
                break
        if verdict == Verdict.LIMITED:
            raise TooManyResends(int(state))
        if verdict != Verdict.DONE:
            raise refusal(schedule_id, Verdict(verdict), ended.status)
        return replace(ended, request=request, callback=open_callback(state))


def _where(request: Request) -> str:
    """Where its end is reported: "1", where it says; "a", where the account does; "0", nowhere."""
    if request.callback is None or request.callback.url is None:
        return "a"
    return "1" if request.callback.url else "0"


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
        earlier=_earlier(one.retry),
    )


def _earlier(retry: Retry | None) -> tuple[CallbackAttempt, ...]:
    if retry is None:
        return ()
    said, message = retry.outcome, retry.outcome.error_message
    if len(message) > _MOST_CHARACTERS:
        message = message[: _MOST_CHARACTERS - 1] + "…"
    answer = (said.status_code, said.response_time_ms, message)
    made = CallbackAttempt(retry.attempts, retry.failed_at_ms, *answer)
    return (*retry.earlier, made)[-_MOST_EARLIER:]
