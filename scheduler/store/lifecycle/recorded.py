"""Outcomes as the ack script takes them: by account, with what the log, the index and the
statistics gain by them. Pure."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import msgspec

from scheduler import ids
from scheduler.models import COMPLETED, Answer, Invocation, LogStatus, Outcome, Status
from scheduler.rollups import buckets_of
from scheduler.store import keys
from scheduler.store.log.entries import entry, pack_chunk, url_places
from scheduler.store.secrecy import Secrecy
from scheduler.store.server.line import Argument
from scheduler.store.stored import (
    BETWEEN_ATTEMPTS_BYTES,
    pack_attempt,
    pack_outcome,
    seal_said,
)


class Ack(msgspec.Struct, frozen=True):
    """An invocation's end; or, with `next_attempt_at_ms`, the end of an attempt that failed and is
    made again. `lateness_ms` is from when it was due to the first byte sent; None if none was: a
    target that could not be reached says nothing of how late we are."""

    invocation: Invocation
    outcome: Outcome
    lateness_ms: int | None
    next_attempt_at_ms: int | None = None


def by_account(acks: Sequence[Ack], most: int = sys.maxsize) -> list[list[Ack]]:
    """Groups of one account each; of at most so many."""
    groups: dict[str, list[Ack]] = {}
    for ack in acks:
        groups.setdefault(ack.invocation.account_id, []).append(ack)
    return [
        group[start : start + most]
        for group in groups.values()
        for start in range(0, len(group), most)
    ]


def arguments_of(acks: Sequence[Ack], secrecy: Secrecy) -> list[Argument]:
    """What the script is told of the outcomes of one account; `ack.lua` says in which order."""
    entries = []
    ends: list[Argument] = []
    said: list[Argument] = []
    completed = response_ms = completed_bytes = failed_bytes = 0
    buckets: list[str] = []
    for place, ack in enumerate(acks, 1):
        invocation, outcome, lateness_ms = ack.invocation, ack.outcome, ack.lateness_ms
        schedule_id, made = invocation.schedule_id, invocation.attempt
        entries.append(entry(schedule_id, invocation.request, outcome, lateness_ms, made))
        packed = pack_outcome(outcome, lateness_ms, made)
        ends += (ids.local(schedule_id), invocation.token, packed)
        if outcome.status is COMPLETED:
            completed += 1
            completed_bytes += invocation.size_bytes
        else:
            failed_bytes += invocation.size_bytes
            said += _said(place, ack, secrecy)
        response_ms += outcome.response_time_ms
        buckets += buckets_of(outcome.response_time_ms, lateness_ms)
    spread = Counter(buckets)
    places = _places(acks, completed)
    account = keys.parts(acks[0].invocation.account_id).local
    return [
        account,
        len(acks),
        pack_chunk(entries),
        completed,
        len(acks) - completed,
        response_ms,
        completed_bytes,
        failed_bytes,
        2 * len(spread),
        *(part for pair in spread.items() for part in pair),
        len(places),
        *places,
        *((len(said), *said) if completed < len(acks) else ()),
        *ends,
    ]


def _said(place: int, ack: Ack, secrecy: Secrecy) -> tuple[Argument, ...]:
    """What the target said to one that failed. Where it said nothing, what it said to an attempt
    before goes; it stays where no further one was made, and the schedule ends as that one did."""
    outcome, retry = ack.outcome, ack.invocation.retry
    if outcome.answer is not None:
        return place, seal_said(outcome.answer, ack.invocation.attempt, secrecy)
    return () if retry is None or outcome is retry.outcome else (place, b"")


def retry_arguments_of(acks: Sequence[Ack], secrecy: Secrecy) -> list[Argument]:
    """What the script is told of an account's attempts that failed and are made again; `retry.lua`
    says in which order."""
    entries = []
    rows: list[Argument] = []
    for ack in acks:
        invocation, outcome, due_at_ms = ack.invocation, ack.outcome, ack.next_attempt_at_ms
        schedule_id, made = invocation.schedule_id, invocation.attempt
        number = (invocation.retry.number if invocation.retry else 0) + 1
        what = entry(schedule_id, invocation.request, outcome, ack.lateness_ms, made, due_at_ms)
        entries.append(what)
        rows += (ids.local(schedule_id), invocation.token, due_at_ms or 0, made)
        rows.append(pack_attempt(number, made, outcome, ack.lateness_ms))
        answer = outcome.answer
        rows.append(b"" if answer is None else seal_said(_beginning(answer), made, secrecy))
    places: list[Argument] = [LogStatus.RETRYING.value, b"", *_url_places(acks)]
    account = keys.parts(acks[0].invocation.account_id).local
    return [account, len(entries), pack_chunk(entries), len(places), *places, *rows]


def _beginning(answer: Answer) -> Answer:
    return Answer(answer.content_type, answer.body[:BETWEEN_ATTEMPTS_BYTES])


def _places(acks: Sequence[Ack], completed: int) -> list[Argument]:
    """What the index notes: each status and each bucket of URLs that occurs, once."""
    places: list[Argument] = []
    if completed:
        places += (Status.COMPLETED.value, b"")
    if completed < len(acks):
        places += (Status.FAILED.value, b"")
    return places + _url_places(acks)


def _url_places(acks: Sequence[Ack]) -> list[Argument]:
    places: list[Argument] = []
    for pair in url_places({ack.invocation.request.url for ack in acks}).items():
        places += pair
    return places
