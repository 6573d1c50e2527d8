"""Callbacks of ended schedules: the outcomes of their attempts, and sending them again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple

from msgspec.structs import replace

from scheduler import ids
from scheduler.callbacks import (
    NO_URL,
    Callback,
    CallbackAttempt,
    CallbackState,
    CallbackStatus,
    sent_again_to,
)
from scheduler.errors import (
    Damaged,
    OutcomeUnknown,
    PostdateError,
    Reason,
    StoreError,
    TooManyResends,
    anew,
)
from scheduler.models import COMPLETED, Invocation, Outcome, Retry, Status
from scheduler.schema import DEFAULT
from scheduler.store import keys, stored
from scheduler.store.callback_state import open_callback, pack_callback
from scheduler.store.heads import letter_member
from scheduler.store.log.by_status import Kept
from scheduler.store.queries.listing import Selection
from scheduler.store.queries.reading import Stored, read_by_id
from scheduler.store.queries.timeline import cursor_until, until
from scheduler.store.retention import Retention
from scheduler.store.server import Argument, Script, Server
from scheduler.store.server.clock import StoreClock, time_us
from scheduler.store.verdict import MOST_CHANGES_MET, VERDICTS, Verdict, refusal

# As many as there are before the last retry, each with so much of its message: 500 bytes at most,
# and none where the first attempt is the last.
_MOST_EARLIER, _MOST_CHARACTERS = 5, 60
# So many are sent again a second, and up to so far ahead (us): the same numbers as in `resend.lua`.
# One alone is due at once.
_A_SECOND, _AHEAD_US, _AT_ONCE_US = 50, 20_000_000, 1_000_000
# An action that goes on for long leaves half of each second to other calls.
_STEADY_US = _AT_ONCE_US // 2
# So many at once are no long script.
_FEW = 20
# A count looks at so many failed callbacks of which the schedule may be forgotten.
_MOST_DOUBTFUL = 500
_EXECUTED = (Status.COMPLETED, Status.FAILED)

_CALLBACK = Script("lifecycle/callback/callback")
_RESEND = Script("lifecycle/callback/resend")


class CallbackAck(NamedTuple):
    """How an attempt of a callback ended; `next_attempt_at_ms`: it failed and is made again."""

    invocation: Invocation
    outcome: Outcome
    next_attempt_at_ms: int | None = None


class Resent(NamedTuple):
    """A schedule's callback is pending again, unless there is a refusal."""

    schedule_id: str
    callback: CallbackState | None = None
    refusal: PostdateError | None = None

    @property
    def limit(self) -> TooManyResends | None:
        return self.refusal if isinstance(self.refusal, TooManyResends) else None

    @property
    def changed(self) -> bool:
        """Whether others changed it since it was read."""
        return self.refusal is not None and self.refusal.reason is Reason.KEEPS_CHANGING


class Resends(NamedTuple):
    """What came of each, in order; `next_cursor` of their list."""

    each: list[Resent]
    next_cursor: str | None = None


class CallbackCounts(NamedTuple):
    """Callbacks of an account that are pending, and that have failed and can be sent again; the
    oldest of these failed at `failed_since_ms`."""

    pending: int = 0
    failed: int = 0
    failed_since_ms: int | None = None


class _Way(NamedTuple):
    """How callbacks are sent again: the name of the operation, how far ahead (us) they may be due,
    and the new URL, if there is one."""

    operation: str
    ahead_us: int = _AHEAD_US
    url: str | None = None


def unknown(schedule_id: str) -> Resent:
    """For a text that is no schedule's id."""
    return Resent(schedule_id, refusal=refusal(schedule_id, Verdict.UNKNOWN))


class Callbacks:
    def __init__(
        self, server: Server, clock: StoreClock, retention: Retention, lists: Kept
    ) -> None:
        self._server = server
        self._clock = clock
        self._lists = lists
        self._kept = (retention.schedule_ms, retention.failed_kept_ms, retention.failed_most)
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

    async def counts(self, account_id: str) -> CallbackCounts:
        """Counted in two round trips. Schedules whose callback failed long ago may be forgotten:
        only the newest 500 of those are looked up. Read-only."""
        base, certain_ms = keys.account(account_id), self._clock.now_ms() - self._kept[0]
        failed, since = base + keys.FAILED_CALLBACKS, (certain_ms, "+inf", "BYSCORE")
        before = (f"({certain_ms}", "-inf", "BYSCORE", "REV")
        pending, recent, first, older = await self._server.reads(
            [
                ("ZCARD", base + keys.CALLBACKS),
                ("ZCOUNT", failed, certain_ms, "+inf"),
                ("ZRANGE", failed, *since, "LIMIT", 0, 1, "WITHSCORES"),
                ("ZRANGE", failed, *before, "LIMIT", 0, _MOST_DOUBTFUL, "WITHSCORES"),
            ],
            at_once=base,
        )
        there = await self._server.reads(
            [("EXISTS", f"{base}{keys.SCHEDULE}{each.decode()}") for each in older[::2]]
        )
        moments = [score for score, is_kept in zip(older[1::2], there, strict=True) if is_kept]
        since_ms = next(iter(moments[-1:] or first[1:]), None)
        return CallbackCounts(
            pending, recent + len(moments), None if since_ms is None else int(since_ms)
        )

    async def resend(
        self,
        account_id: str,
        schedule_id: str,
        url: str | None = None,
        operation: str | None = None,
    ) -> CallbackState:
        """Makes the callback of an ended schedule pending again, from its first attempt on, also if
        it had none; to a new `url`, or DEFAULT, from now on, if one is given. Safe to repeat after
        a lost reply; with the name of an `operation`, once for all calls of that name within a
        minute.

        Raises NotFound, Conflict if it has not ended, was cancelled, or its callback is pending,
        InvalidRequest if nothing names a URL, QuotaExceeded, TooManyResends, Damaged; then nothing
        was changed.
        """
        way = _Way(operation or ids.new_operation(), _AT_ONCE_US, url)
        [done] = await self._resend(account_id, [schedule_id], way)
        if done.callback is None:
            raise anew(done.refusal or StoreError())
        return done.callback

    async def resend_all(self, account_id: str, schedule_ids: Sequence[str]) -> Resends:
        """`resend` of each, a bounded group of them in one step; they are due one after the other,
        at the account's rate. Those beyond the next 20 seconds are refused with TooManyResends.
        Raises StoreUnavailable if nothing was changed, OutcomeUnknown if some may have been."""
        return Resends(await self._resend(account_id, schedule_ids, _Way(ids.new_operation())))

    async def resend_steadily(
        self, account_id: str, schedule_ids: Sequence[str], operation: str
    ) -> Resends:
        """`resend_all` of some of many, with the name of an operation, of no more than the rate has
        room for at once. It leaves room to other calls of the account."""
        way = _Way(operation, _STEADY_US)
        return Resends(await self._resend(account_id, schedule_ids, way))

    async def resend_matching(
        self, account_id: str, callback: CallbackStatus, selected: Selection
    ) -> Resends:
        """`resend_all` of the list of this status, the oldest first, of no more than the rate has
        room for. What `next_cursor` leads on to ends with what had failed by now: one that fails
        again meanwhile would have no end. Raises InvalidRequest for a bad cursor, TooManyScans,
        TooManyResends."""
        base = keys.account(account_id)
        commands = [("GET", base + keys.RESENDS), ("TIME",)]
        paid, time = await self._server.reads(commands, at_once=base)
        now_ms = self._clock.observe_reply(time)
        ahead_us = min(max(0, int(paid or 0) - time_us(time)), _AHEAD_US)
        room = (_AHEAD_US - ahead_us) * _A_SECOND // 1_000_000
        if room < 1:
            raise TooManyResends(1)
        cursor, until_ms = until(selected.cursor)
        # What failed in the millisecond of the beginning is of the walk.
        until_ms = until_ms or now_ms + 1
        selected = selected._replace(
            cursor=cursor,
            to_ms=until_ms if selected.to_ms is None else min(selected.to_ms, until_ms),
            limit=min(selected.limit, room),
        )
        page = await self._lists.page(
            account_id, _EXECUTED, selected, callback=callback, descending=False
        )
        done = await self.resend_all(account_id, [each.schedule_id for each in page.schedules])
        return done._replace(next_cursor=cursor_until(page.next_cursor, until_ms))

    async def _resend(
        self, account_id: str, schedule_ids: Sequence[str], way: _Way
    ) -> list[Resent]:
        """Each once. Those that are changed meanwhile are read again."""
        done = {each: unknown(each) for each in schedule_ids}
        left = list(filter(ids.is_schedule_id, done))
        try:
            for _ in range(MOST_CHANGES_MET):
                await self._resend_left(account_id, left, done, way)
                left = [each for each in left if done[each].changed]
                if not left:
                    break
        except StoreError as error:
            if any(each.callback is not None for each in done.values()):
                raise OutcomeUnknown("Some were sent again before the store failed") from error
            raise
        return list(done.values())

    async def _resend_left(
        self, account_id: str, left: Sequence[str], done: dict[str, Resent], way: _Way
    ) -> None:
        """Notes in `done` what came of each."""
        places = iter(left)
        async for chunk in read_by_id(self._server, account_id, left):
            named = [name for _, name in zip(chunk, places, strict=False)]
            for name, each in zip(named, chunk, strict=True):
                if isinstance(each, Damaged):
                    done[name] = Resent(name, refusal=each)
            some = [each for each in chunk if isinstance(each, Stored)]
            came = await self._resend_chunk(account_id, some, way)
            done |= came
            # There is no room for those behind it either, so they are not read.
            if limit := next(filter(None, (each.limit for each in came.values())), None):
                done |= {name: Resent(name, refusal=limit) for name in places}
                return

    async def _resend_chunk(
        self, account_id: str, some: Sequence[Stored], way: _Way
    ) -> dict[str, Resent]:
        if not some:
            return {}
        shard, account = keys.parts(account_id)
        names = [ids.local(each.schedule.schedule_id) for each in some]
        # A repeat may meet others, of which it knows nothing.
        met = hashlib.blake2b("".join(names).encode(), digest_size=8).hexdigest()
        words: list[Argument] = [account, f"{way.operation}:{met}", way.ahead_us]
        words += (len(self._quotas), *self._quotas)
        for name, (schedule, fields) in zip(names, some, strict=True):
            request, new = schedule.request, b""
            if way.url is not None:
                url = None if way.url == DEFAULT else way.url
                failed = schedule.status is Status.FAILED
                callback = sent_again_to(request.callback, url, failed=failed)
                request = replace(request, callback=callback)
                new = stored.seal_request(request, self._server.secrecy)
            letter = letter_member(request.reference, name)
            where = _where(request.callback, schedule.status)
            words += (name, stored.sha1_of(fields.packed), new, where, letter)
        is_long = len(some) > _FEW
        prefix = keys.shard(shard)
        turn = self._server.long_script(prefix, account_id) if is_long else nullcontext()
        async with turn:
            reply = await self._server.write_until_answered(_RESEND, prefix, words)
        came = zip(some, reply[::2], reply[1::2], strict=True)
        return {
            each.schedule.schedule_id: _resent(each, Verdict(verdict), said)
            for each, verdict, said in came
        }


def _resent(each: Stored, verdict: Verdict, said: bytes) -> Resent:
    name = each.schedule.schedule_id
    if verdict is Verdict.DONE:
        return Resent(name, open_callback(said))
    if verdict is Verdict.LIMITED:
        return Resent(name, refusal=TooManyResends(int(said)))
    return Resent(name, refusal=refusal(name, verdict, each.schedule.status))


def _where(callback: Callback | None, status: Status) -> str:
    """Where such an end is reported: "1", where the callback says; "a", where the account does;
    "0", nowhere."""
    url = callback.url_of(failed=status is Status.FAILED) if callback else None
    if url is None:
        return "a"
    return "0" if url == NO_URL else "1"


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
