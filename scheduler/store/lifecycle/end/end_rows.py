"""Ends schedules, on their worker's word or on their owner's: in groups of one account that end in
one way, or are to be tried again, with what log, index and statistics gain by them. The head of
`end.lua` has the order of all that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

import msgspec

from scheduler import ids
from scheduler.callbacks import Callback
from scheduler.errors import StoreError, anew
from scheduler.models import (
    COMPLETED,
    Answer,
    Invocation,
    LogStatus,
    Outcome,
    Request,
    Status,
)
from scheduler.qstash.callbacks import callback_delay_ms
from scheduler.rollups import buckets_of
from scheduler.store import keys
from scheduler.store.heads import reference_member
from scheduler.store.log.entries import (
    entry,
    label_place_name,
    lane_place_name,
    pack_chunk,
    place_name,
    url_places,
)
from scheduler.store.queries.reading import Stored
from scheduler.store.retention import Retention
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import Argument, Script, Server, flat
from scheduler.store.server.clock import StoreClock
from scheduler.store.stored import (
    BETWEEN_ATTEMPTS_BYTES,
    pack_outcome,
    seal_cancelled,
    seal_response,
    seal_said,
    sha1_of,
)
from scheduler.store.verdict import AGAIN, DONE, ENDED, VERDICTS, Verdict
from scheduler.texts import cut

_END = Script("lifecycle/end/end")
_encode = msgspec.msgpack.Encoder().encode
# Of one call.
_MOST_SHARDS = 32
T = TypeVar("T")
# A schedule that its owner ends, as it was read, and its score in `waiting` (us).
Waiting = tuple[Stored, str]

_FIRED, _STOPPED, _CANCELLED, _RETRIED = "fired", "stopped", "cancelled", "retried"


class Ack(msgspec.Struct, frozen=True):
    """An invocation's end; or, with `next_attempt_at_ms`, the end of an attempt that failed and is
    made again. `lateness_ms` is from when it was due to the first byte sent; None if none was.
    `calm_until_ms`: the target asked that its lane start nothing before then."""

    invocation: Invocation
    outcome: Outcome
    lateness_ms: int | None
    next_attempt_at_ms: int | None = None
    calm_until_ms: int | None = None


class Ends:
    def __init__(self, server: Server, clock: StoreClock, retention: Retention) -> None:
        self._server = server
        self._clock = clock
        self._retention = retention
        # Of a group. The script trims dead letters by those that are there, not by those that come.
        self.most = retention.failed_most
        # Those of one server share a call.
        self.most_shards = 1 if server.routed else _MOST_SHARDS

    async def ack(self, shard: int, acks: Sequence[Ack]) -> list[Verdict]:
        """`ack_each` in one shard. Raises StoreError."""
        verdicts = []
        for verdict in await self.ack_each(acks):
            if isinstance(verdict, StoreError):
                raise anew(verdict)
            verdicts.append(verdict)
        return verdicts

    async def ack_each(self, acks: Sequence[Ack]) -> list[Verdict | StoreError]:
        """Records outcomes in up to `most_shards`, with log and statistics; of those that are to be
        tried again, the attempt and when the next one is due. Safe to repeat. A verdict for each:
        DONE, ENDED (before), HELD (by another worker now), UNKNOWN (its account is gone), or
        DAMAGED: it, or a key of its account.
        Then nothing of that account was recorded, and claims pass it over until something can be.
        Where the call for a shard failed, its error for each."""
        left: dict[Invocation, Ack] = {}
        for ack in acks:
            left.setdefault(ack.invocation, ack)
        found: dict[Invocation, Verdict | StoreError] = {}
        while left:
            found |= await self._ack(list(left.values()))
            left = {each: ack for each, ack in left.items() if found[each] is AGAIN}
        verdicts = []
        for ack in acks:
            verdict = found[ack.invocation]
            verdicts.append(verdict)
            if verdict is DONE:  # the same one, later in the list, had ended by then
                found[ack.invocation] = ENDED
        return verdicts

    async def _ack(self, acks: Sequence[Ack]) -> dict[Invocation, Verdict | StoreError]:
        calls: dict[int, list[Argument]] = {}
        sent: dict[int, list[Invocation]] = {}
        for group in groups_of(acks, self.most):
            shard = group[0].invocation.shard
            if group[0].next_attempt_at_ms is None:
                quotas = self._retention.quotas
                made = _executed_group(group, self._server.secrecy, quotas=quotas)
            else:
                made = _retried_group(group, self._server.secrecy)
            calls.setdefault(shard, self._kept()).extend(made)
            sent.setdefault(shard, []).extend([ack.invocation for ack in group])
        replies = await self._server.run_each(
            _END, [(keys.shard(shard), arguments) for shard, arguments in calls.items()]
        )
        self._clock.observe_newest(replies)
        found: dict[Invocation, Verdict | StoreError] = {}
        for invocations, reply in zip(sent.values(), replies, strict=True):
            if isinstance(reply, StoreError):
                found |= dict.fromkeys(invocations, reply)
            else:
                verdicts = [VERDICTS[each] for each in reply[1]]
                found |= zip(invocations, verdicts, strict=True)
        return found

    async def run(
        self,
        shard: int,
        groups: Sequence[Argument],
        send: Callable[[Script, str, Sequence[Argument]], Awaitable[Any]],
    ) -> list[Verdict]:
        """The script's verdicts on the rows of groups (`end_rows`), in order."""
        reply = await send(_END, keys.shard(shard), [*self._kept(), *groups])
        self._clock.observe_newest([reply])
        return [VERDICTS[each] for each in reply[1]]

    def _kept(self) -> list[Argument]:
        """What every call begins with."""
        kept = self._retention
        arguments: list[Argument] = [kept.schedule_ms, kept.log_ms, kept.log_entries]
        arguments += (kept.seconds_ms, kept.failed_kept_ms, kept.failed_ms, kept.failed_most)
        return arguments


def groups_of(acks: Sequence[Ack], most: int) -> list[Sequence[Ack]]:
    """Acks by account, by whether they end it, and whether they have a lane, by which they are in
    order then; at most so many together."""
    groups: dict[tuple[str, bool, bool], list[Ack]] = {}
    for ack in acks:
        one = ack.invocation
        kind = one.account_id, ack.next_attempt_at_ms is None, one.lane is not None
        groups.setdefault(kind, []).append(ack)
    for (_, _, has_lane), group in groups.items():
        if has_lane:
            group.sort(key=lambda ack: ack.invocation.lane or "")
    return [part for group in groups.values() for part in parts_of(group, most)]


def parts_of(rows: Sequence[T], most: int) -> list[Sequence[T]]:
    """Rows in their order, at most so many together."""
    return [rows[start : start + most] for start in range(0, len(rows), most)]


def _executed_group(
    acks: Sequence[Ack],
    secrecy: Secrecy,
    sha1s: Sequence[str] = (),
    quotas: Sequence[str | int] = (),
) -> list[Argument]:
    """Outcomes; with the SHA-1s of their requests, those of schedules that their owner stops.
    `quotas` are those of `Retention`, for answers that reports are to have."""
    entries = []
    rows: list[Argument] = []
    said: list[Argument] = []
    wishes: list[Argument] = []
    completed = completed_bytes = failed_bytes = 0
    asked = False
    for place, ack in enumerate(acks, 1):
        invocation, outcome, lateness_ms = ack.invocation, ack.outcome, ack.lateness_ms
        schedule_id, request, retry = invocation.schedule_id, invocation.request, invocation.retry
        made, before_ms = invocation.attempt, retry.failed_at_ms if retry else None
        entries.append(entry(schedule_id, request, outcome, lateness_ms, made, None, before_ms))
        # 0 for a request that replaced the attempted one: its owner stops it all the same.
        unmade = max(1, retry.number) if sha1s and retry else 0
        packed = pack_outcome(outcome, lateness_ms, made, unmade)
        rows += (ids.local(schedule_id), invocation.token, packed)
        if sha1s:
            rows.append(sha1s[place - 1])
        if outcome.status is COMPLETED:
            completed += 1
            completed_bytes += invocation.size_bytes
        else:
            failed_bytes += invocation.size_bytes
            said += _said(place, ack, secrecy)
        if request.callback is not None:
            wishes += place, _wish(request.callback, outcome, secrecy)
            if delay_ms := callback_delay_ms(request, failed=outcome.status is not COMPLETED):
                wishes += -place, delay_ms
            asked = asked or outcome.response is not None
    if asked:
        wishes += 0, _encode(dict(zip(quotas[::2], quotas[1::2], strict=True)))
    responses_ms = [ack.outcome.response_time_ms for ack in acks]
    latenesses_ms = [ack.lateness_ms for ack in acks if ack.lateness_ms is not None]
    failed = len(acks) - completed
    counts = ((Status.COMPLETED, completed), (Status.FAILED, failed))
    statuses = [status for status, count in counts if count]
    ended = [(ack.invocation.schedule_id, ack.invocation.request) for ack in acks]
    account_id, kind = acks[0].invocation.account_id, _STOPPED if sha1s else _FIRED
    head = _head(kind, account_id, entries, statuses, ended, _runs_of(acks), wishes)
    head += (completed, failed, sum(responses_ms), completed_bytes, failed_bytes)
    head += _list(flat(buckets_of(responses_ms, latenesses_ms).items()))
    return [*head, *_list(said), *rows]


def _retried_group(acks: Sequence[Ack], secrecy: Secrecy) -> list[Argument]:
    entries = []
    rows: list[Argument] = []
    for ack in acks:
        invocation, outcome, due_at_ms = ack.invocation, ack.outcome, ack.next_attempt_at_ms
        schedule_id, made = invocation.schedule_id, invocation.attempt
        retry = invocation.retry
        number, before_ms = (retry.number + 1, retry.failed_at_ms) if retry else (1, None)
        what = (schedule_id, invocation.request, outcome, ack.lateness_ms, made, due_at_ms)
        entries.append(entry(*what, before_ms))
        packed = pack_outcome(outcome, ack.lateness_ms, made, number)
        rows += (ids.local(schedule_id), invocation.token, packed, due_at_ms or 0, made)
        answer = outcome.answer
        if answer is not None:
            answer = Answer(answer.content_type, cut(answer.body, BETWEEN_ATTEMPTS_BYTES))
        rows.append(b"" if answer is None else seal_said(answer, secrecy))
    retried = [(ack.invocation.schedule_id, ack.invocation.request) for ack in acks]
    account_id = acks[0].invocation.account_id
    runs = _runs_of(acks)
    return _head(_RETRIED, account_id, entries, (LogStatus.RETRYING,), retried, runs) + rows


def stopped_group(account_id: str, rows: Sequence[Waiting], secrecy: Secrecy) -> list[Argument]:
    """Schedules between two attempts, which end as the last one of each did."""
    shard, acks, sha1s = keys.parts(account_id).shard, [], []
    for one, score in rows:
        schedule, packed = one.schedule, one.packed
        retry = schedule.retry
        assert retry is not None
        what = (schedule.schedule_id, score, retry.attempts, 0.0, schedule.request)
        invocation = Invocation(shard, account_id, *what, retry.due_at_ms, len(packed), retry)
        invocation.lane = schedule.request.lane
        acks.append(Ack(invocation, retry.outcome, retry.lateness_ms))
        sha1s.append(sha1_of(packed))
    return _executed_group(acks, secrecy, sha1s)


def cancelled_group(account_id: str, rows: Sequence[Waiting], secrecy: Secrecy) -> list[Argument]:
    """Schedules that were not attempted yet."""
    arguments: list[Argument] = []
    kept_bytes = less = 0
    for one, score in rows:
        schedule, packed = one.schedule, one.packed
        outcome, kept = seal_cancelled(schedule.request, secrecy)
        kept_bytes += len(kept)
        less += len(packed) - len(kept)
        arguments += (ids.local(schedule.schedule_id), score, outcome, sha1_of(packed), kept)
    ended = [(schedule.schedule_id, schedule.request) for (schedule, _), _ in rows]
    entries = [entry(*each, None) for each in ended]
    runs = _runs((schedule.request.lane, None) for (schedule, _), _ in rows)
    head = _head(_CANCELLED, account_id, entries, (Status.CANCELLED,), ended, runs)
    return [*head, kept_bytes, less, *arguments]


def _head(
    kind: str,
    account_id: str,
    entries: list[tuple[Any, ...]],
    statuses: Iterable[LogStatus | Status],
    made: Sequence[tuple[str, Request]],
    runs: Sequence[Argument],
    wishes: Sequence[Argument] = (),
) -> list[Argument]:
    """What each group begins with. The index notes each status, and each bucket of URLs,
    references, labels, lanes and rules, once. `made`: the schedules' ids and requests. `runs`: of
    `_runs`. `wishes`: places of rows, and whether their end is reported."""
    places: list[Argument] = []
    for status in statuses:
        places += (status.value, b"")
    named = {request.url for _, request in made}
    referred = [(ids.local(each), name) for each, r in made if (name := r.reference) is not None]
    named.update(place_name(reference) for _, reference in referred)
    named.update(lane_place_name(str(lane)) for lane in runs[::3])
    for labels in {one.labels for _, one in made if one.labels}:
        named.update(map(label_place_name, labels))
    rules = {one.recurring.recurring_id for _, one in made if one.recurring is not None}
    for pair in url_places(named, rules).items():
        places += pair
    members: list[Argument] = []
    if kind is not _RETRIED:
        members += [reference_member(name, each) for each, name in referred]
    slots = _slots_of(made) if kind is _CANCELLED else ()
    head: list[Argument] = [keys.parts(account_id).local, kind, len(entries), pack_chunk(entries)]
    for each in (places, members, wishes, slots, runs):
        head += _list(each)
    return head


def _list(values: Sequence[Argument]) -> tuple[Argument, ...]:
    return len(values), *values


def _slots_of(made: Sequence[tuple[str, Request]]) -> list[Argument]:
    """Which of them stand for the slot of a rule, and of which."""
    slots: list[Argument] = []
    for schedule_id, request in made:
        if request.recurring is not None and request.recurring.slot_ms is not None:
            slots += ids.local(schedule_id), ids.local(request.recurring.recurring_id)
    return slots


def _runs_of(acks: Sequence[Ack]) -> list[Argument]:
    if acks[0].invocation.lane is None:
        return []
    return _runs((ack.invocation.lane, ack.calm_until_ms) for ack in acks)


def _runs(rows: Iterable[tuple[str | None, int | None]]) -> list[Argument]:
    """Of rows in the order of their lanes, all of which have one or none: each lane, how many they
    are, and until when it is to be calm ("": it is not)."""
    runs: list[Argument] = []
    for lane, some in groupby(rows, key=itemgetter(0)):
        calms = [calm or 0 for _, calm in some]
        if lane is not None:
            runs += (lane, len(calms), max(calms) or "")
    return runs


def _wish(callback: Callback, outcome: Outcome, secrecy: Secrecy) -> bytes:
    """Whether an end is reported: "1", it is; "0", it is not; "a", if the account has a default;
    "d", as that says. Behind it stands the target's answer, if the report is to have one."""
    failed = outcome.status is not COMPLETED
    if not callback.reports(failed=failed):
        return b"0"
    wish = b"1"
    if callback.url_of(failed=failed) is None:
        wish = b"d" if callback.on is None else b"a"
    response = outcome.response
    return wish if response is None else wish + seal_response(response, secrecy)


def _said(place: int, ack: Ack, secrecy: Secrecy) -> tuple[Argument, ...]:
    """The target's answer to one that failed. Without one, the answer to an earlier attempt goes;
    it stays if no further attempt was made, and the schedule ends as that one did."""
    outcome, retry = ack.outcome, ack.invocation.retry
    if retry is not None and outcome is retry.outcome:
        return ()
    if outcome.answer is not None:
        return place, seal_said(outcome.answer, secrecy)
    return () if retry is None else (place, b"")
