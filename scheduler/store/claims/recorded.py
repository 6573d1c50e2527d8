"""Outcomes as the ack script takes them: by account, with what the log, the index and the
statistics gain by them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from scheduler import ids
from scheduler.models import Invocation, Outcome, Status
from scheduler.rollups import (
    LATENESS,
    LATENESS_BOUNDS_MS,
    RESPONSE,
    RESPONSE_BOUNDS_MS,
    lateness_bucket,
    response_bucket,
)
from scheduler.store import keys
from scheduler.store.line import Argument
from scheduler.store.log.entries import entry, pack_chunk, url_places
from scheduler.store.schedules.stored import pack_outcome

# The buckets of the two histograms, by the names that a rollup has them by.
_RESPONSES = tuple(f"{RESPONSE}{bucket}" for bucket in range(len(RESPONSE_BOUNDS_MS) + 1))
_LATENESSES = tuple(f"{LATENESS}{bucket}" for bucket in range(len(LATENESS_BOUNDS_MS) + 1))


class Ack(msgspec.Struct, frozen=True):
    """An invocation's end. `lateness_ms` is from triggerAt to the first byte sent; None if none
    was: a target that could not be reached says nothing of how late we are."""

    invocation: Invocation
    outcome: Outcome
    lateness_ms: int | None


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
    buckets: list[str] = []
    for ack in acks:
        invocation, outcome, lateness_ms = ack.invocation, ack.outcome, ack.lateness_ms
        entries.append(entry(invocation.schedule_id, invocation.request, outcome, lateness_ms))
        packed = pack_outcome(outcome, lateness_ms)
        ends += (ids.local(invocation.schedule_id), invocation.token, packed)
        if outcome.status is Status.COMPLETED:
            completed += 1
        response_ms += outcome.response_time_ms
        buckets.append(_RESPONSES[response_bucket(outcome.response_time_ms)])
        if lateness_ms is not None:
            buckets.append(_LATENESSES[lateness_bucket(lateness_ms)])
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
        2 * len(spread),
        *(part for pair in spread.items() for part in pair),
        len(places),
        *places,
        *ends,
    ]


def _places(acks: Sequence[Ack], completed: int) -> list[Argument]:
    """What the index notes: each status and each bucket of URLs that occurs, once."""
    places: list[Argument] = []
    if completed:
        places += (Status.COMPLETED.value, b"")
    if completed < len(acks):
        places += (Status.FAILED.value, b"")
    for pair in url_places({ack.invocation.request.url for ack in acks}).items():
        places += pair
    return places
