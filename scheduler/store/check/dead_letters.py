"""Whether the two indexes of an account's dead letters agree: by end, and by reference."""

from __future__ import annotations

from collections.abc import AsyncIterator

from scheduler import ids
from scheduler.store import keys
from scheduler.store.check.damage import text
from scheduler.store.heads import letter_member, split_letter, split_member
from scheduler.store.server import Server
from scheduler.store.server.clock import time_us

_CHUNK = 200
# The index by reference expires at the last end of one that has any, and the other one later.
_SLACK_MS = 60_000


async def faults_by_reference(server: Server, base: str, failed_ms: int) -> AsyncIterator[str]:
    """`failed_ms`: how long dead letters are kept. Read-only. Raises ValueError for a member that
    has no reference or no schedule."""
    by_end, by_reference = base + keys.FAILED, base + keys.FAILED_REFERENCES
    async for chunk in server.members("ZSCAN", by_reference, _CHUNK):
        found = [split_member(each) for each in chunk]
        letters = [letter_member(*each) for each in found]
        [scores] = await server.reads([("ZMSCORE", by_end, *letters)])
        for (_, schedule), score in zip(found, scores, strict=True):
            if score is None:
                what = ids.schedule_id(schedule)
                yield f"{what} is no dead letter of the reference that it is listed by"
    async for chunk in server.members("ZSCAN", by_end, _CHUNK):
        named = {member: each for each in chunk if (member := split_letter(each)[1])}
        if not named:
            continue
        time, listed, ended = await server.reads(
            [
                ("TIME",),
                ("ZMSCORE", by_reference, *named),
                ("ZMSCORE", by_end, *named.values()),
            ],
            at_once=base,
        )
        kept_from_ms = time_us(time) / 1000 - failed_ms + _SLACK_MS
        for letter, score, ended_ms in zip(named.values(), listed, ended, strict=True):
            if score is None and ended_ms is not None and float(ended_ms) > kept_from_ms:
                schedule_id = ids.schedule_id(text(split_letter(letter)[0]))
                yield f"{schedule_id} is a dead letter, but is not listed by its reference"
