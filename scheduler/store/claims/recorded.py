"""Outcomes as the ack script takes them: by account, with what the log, the index and the
statistics gain by them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from scheduler import ids
from scheduler.models import Invocation, LogStatus, Outcome, Status
from scheduler.rollups import lateness_bucket
from scheduler.store import keys
from scheduler.store.line import Argument
from scheduler.store.log.entries import entry, pack_chunk, retrying_entry, url_places
from scheduler.store.schedules.stored import pack_attempt, pack_outcome


class Ack(NamedTuple):
    """An invocation's end; or, with `next_attempt_at_ms`, the end of an attempt that failed.
    `lateness_ms` is from when it was due to the first byte sent, or to now."""

    invocation: Invocation
    outcome: Outcome
    lateness_ms: int
    next_attempt_at_ms: int | None = None


def by_account(acks: Sequence[Ack]) -> list[list[Ack]]:
    groups: dict[str, list[Ack]] = {}
    for ack in acks:
        groups.setdefault(ack.invocation.account_id, []).append(ack)
    return list(groups.values())


def arguments_of(acks: Sequence[Ack]) -> list[Argument]:
    """What the script is told of the outcomes of one account; `ack.lua` says in which order."""
    entries = []
    ends: list[Argument] = []
    completed = response_ms = 0
    lateness: Counter[int] = Counter()
    for invocation, outcome, lateness_ms, _ in acks:
        schedule_id, attempts = invocation.schedule_id, invocation.attempt
        entries.append(entry(schedule_id, invocation.request, outcome, attempts))
        ends += (ids.local(schedule_id), invocation.token, pack_outcome(outcome, attempts))
        completed += outcome.status is Status.COMPLETED
        response_ms += outcome.response_time_ms
        lateness[lateness_bucket(lateness_ms)] += 1
    places = _places(acks, completed)
    account = keys.parts(acks[0].invocation.account_id).local
    return [
        account,
        len(acks),
        pack_chunk(entries),
        completed,
        len(acks) - completed,
        response_ms,
        2 * len(lateness),
        *(part for pair in lateness.items() for part in pair),
        len(places),
        *places,
        *ends,
    ]


def retry_arguments_of(acks: Sequence[Ack]) -> list[Argument]:
    """What the script is told of an account's attempts that failed and are made again; `retry.lua`
    says in which order."""
    entries = []
    rows: list[Argument] = []
    for invocation, outcome, _, due_at_ms in acks:
        if due_at_ms is None:
            continue
        schedule_id, attempts = invocation.schedule_id, invocation.attempt
        number = (invocation.retry.number if invocation.retry else 0) + 1
        what = (schedule_id, invocation.request, outcome, attempts, due_at_ms)
        entries.append(retrying_entry(*what))
        rows += (ids.local(schedule_id), invocation.token, due_at_ms, attempts)
        rows.append(pack_attempt(number, attempts, outcome))
    places: list[Argument] = [LogStatus.RETRYING.value, b"", *_url_places(acks)]
    account = keys.parts(acks[0].invocation.account_id).local
    return [account, len(entries), pack_chunk(entries), len(places), *places, *rows]


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
