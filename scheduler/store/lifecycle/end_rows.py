"""Groups of `end.lua`: schedules of one account that end in one way, or are to be tried again, with
what log, index and statistics gain by them. The script's head has the order of all that. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from scheduler import ids
from scheduler.models import COMPLETED, Answer, Invocation, LogStatus, Outcome, Status
from scheduler.rollups import buckets_of
from scheduler.store import keys
from scheduler.store.log.entries import entry, pack_chunk, url_places
from scheduler.store.queries.reading import Stored
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import Argument
from scheduler.store.stored import (
    BETWEEN_ATTEMPTS_BYTES,
    pack_outcome,
    seal_cancelled,
    seal_said,
    sha1_of,
)

T = TypeVar("T")
# A schedule that its owner ends, as it was read, and its score in `waiting` (us).
Waiting = tuple[Stored, str]

_FIRED, _STOPPED, _CANCELLED, _RETRIED = "f", "s", "c", "r"


class Ack(msgspec.Struct, frozen=True):
    """An invocation's end; or, with `next_attempt_at_ms`, the end of an attempt that failed and is
    made again. `lateness_ms` is from when it was due to the first byte sent; None if none was."""

    invocation: Invocation
    outcome: Outcome
    lateness_ms: int | None
    next_attempt_at_ms: int | None = None


def groups_of(acks: Sequence[Ack], most: int) -> list[Sequence[Ack]]:
    """Acks by account, and by whether they end it; at most so many together."""
    groups: dict[tuple[str, bool], list[Ack]] = {}
    for ack in acks:
        kind = ack.invocation.account_id, ack.next_attempt_at_ms is None
        groups.setdefault(kind, []).append(ack)
    return [part for group in groups.values() for part in parts_of(group, most)]


def parts_of(rows: Sequence[T], most: int) -> list[Sequence[T]]:
    """Rows in their order, at most so many together."""
    return [rows[start : start + most] for start in range(0, len(rows), most)]


def group_of(acks: Sequence[Ack], secrecy: Secrecy) -> list[Argument]:
    """Of acks that `groups_of` put together."""
    if acks[0].next_attempt_at_ms is None:
        return _executed_group(acks, secrecy)
    return _retried_group(acks, secrecy)


def _executed_group(
    acks: Sequence[Ack], secrecy: Secrecy, sha1s: Sequence[str] = ()
) -> list[Argument]:
    """Outcomes; with the SHA-1s of their requests, those of schedules that their owner stops."""
    entries = []
    rows: list[Argument] = []
    said: list[Argument] = []
    completed = response_ms = completed_bytes = failed_bytes = 0
    buckets: list[str] = []
    for place, ack in enumerate(acks, 1):
        invocation, outcome, lateness_ms = ack.invocation, ack.outcome, ack.lateness_ms
        schedule_id, made = invocation.schedule_id, invocation.attempt
        entries.append(entry(schedule_id, invocation.request, outcome, lateness_ms, made))
        packed = pack_outcome(outcome, lateness_ms, made)
        rows += (ids.local(schedule_id), invocation.token, packed)
        if sha1s:
            rows.append(sha1s[place - 1])
        if outcome.status is COMPLETED:
            completed += 1
            completed_bytes += invocation.size_bytes
        else:
            failed_bytes += invocation.size_bytes
            said += _said(place, ack, secrecy)
        response_ms += outcome.response_time_ms
        buckets += buckets_of(outcome.response_time_ms, lateness_ms)
    failed, spread = len(acks) - completed, Counter(buckets)
    ended = ((Status.COMPLETED, completed), (Status.FAILED, failed))
    statuses = [status for status, count in ended if count]
    account_id, urls = acks[0].invocation.account_id, _urls(acks)
    head = _head(_STOPPED if sha1s else _FIRED, account_id, entries, statuses, urls)
    head += (completed, failed, response_ms, completed_bytes, failed_bytes, 2 * len(spread))
    head += (part for pair in spread.items() for part in pair)
    if failed:
        head += (len(said), *said)
    return [*head, *rows]


def _retried_group(acks: Sequence[Ack], secrecy: Secrecy) -> list[Argument]:
    entries = []
    rows: list[Argument] = []
    for ack in acks:
        invocation, outcome, due_at_ms = ack.invocation, ack.outcome, ack.next_attempt_at_ms
        schedule_id, made = invocation.schedule_id, invocation.attempt
        number = (invocation.retry.number if invocation.retry else 0) + 1
        what = entry(schedule_id, invocation.request, outcome, ack.lateness_ms, made, due_at_ms)
        entries.append(what)
        packed = pack_outcome(outcome, ack.lateness_ms, made, number)
        rows += (ids.local(schedule_id), invocation.token, packed, due_at_ms or 0, made)
        answer = outcome.answer
        if answer is not None:
            answer = Answer(answer.content_type, answer.body[:BETWEEN_ATTEMPTS_BYTES])
        rows.append(b"" if answer is None else seal_said(answer, secrecy))
    account_id, urls = acks[0].invocation.account_id, _urls(acks)
    return _head(_RETRIED, account_id, entries, (LogStatus.RETRYING,), urls) + rows


def stopped_group(account_id: str, rows: Sequence[Waiting], secrecy: Secrecy) -> list[Argument]:
    """Schedules between two attempts, which end as the last one of each did."""
    shard, acks, sha1s = keys.parts(account_id).shard, [], []
    for (schedule, packed), score in rows:
        retry = schedule.retry
        assert retry is not None
        what = (schedule.schedule_id, score, retry.attempts, 0.0, schedule.request)
        invocation = Invocation(shard, account_id, *what, retry.due_at_ms, len(packed), retry)
        acks.append(Ack(invocation, retry.outcome, retry.lateness_ms))
        sha1s.append(sha1_of(packed))
    return _executed_group(acks, secrecy, sha1s)


def cancelled_group(account_id: str, rows: Sequence[Waiting], secrecy: Secrecy) -> list[Argument]:
    """Schedules that were not attempted yet."""
    arguments: list[Argument] = []
    kept_bytes = less = 0
    for (schedule, packed), score in rows:
        outcome, kept = seal_cancelled(schedule.request, secrecy)
        kept_bytes += len(kept)
        less += len(packed) - len(kept)
        arguments += (ids.local(schedule.schedule_id), score, outcome, sha1_of(packed), kept)
    schedules = [schedule for (schedule, _), _ in rows]
    entries = [entry(each.schedule_id, each.request, None) for each in schedules]
    urls = {each.request.url for each in schedules}
    head = _head(_CANCELLED, account_id, entries, (Status.CANCELLED,), urls)
    return [*head, kept_bytes, less, *arguments]


def _head(
    kind: str,
    account_id: str,
    entries: list[tuple[Any, ...]],
    statuses: Iterable[LogStatus | Status],
    urls: Iterable[str],
) -> list[Argument]:
    """What each group begins with. The index notes each status and each bucket of URLs once."""
    places: list[Argument] = []
    for status in statuses:
        places += (status.value, b"")
    for pair in url_places(urls).items():
        places += pair
    account = keys.parts(account_id).local
    return [account, kind, len(entries), pack_chunk(entries), len(places), *places]


def _said(place: int, ack: Ack, secrecy: Secrecy) -> tuple[Argument, ...]:
    """The target's answer to one that failed. Without one, the answer to an earlier attempt goes;
    it stays if no further attempt was made, and the schedule ends as that one did."""
    outcome, retry = ack.outcome, ack.invocation.retry
    if retry is not None and outcome is retry.outcome:
        return ()
    if outcome.answer is not None:
        return place, seal_said(outcome.answer, secrecy)
    return () if retry is None else (place, b"")


def _urls(acks: Sequence[Ack]) -> set[str]:
    return {ack.invocation.request.url for ack in acks}
