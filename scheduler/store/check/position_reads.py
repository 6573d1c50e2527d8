"""Reads where schedules stand, for `standing` to judge."""

from __future__ import annotations

from typing import Any

from scheduler.errors import Unreadable, anew
from scheduler.store import keys
from scheduler.store.heads import heads_of, letter_member
from scheduler.store.server import Argument, Server
from scheduler.store.server.clock import time_us

# The place of the score in `failed` in a row of `stand_of`.
_LETTER = 6


async def read_stands(
    server: Server, base: str, schedules: list[str]
) -> tuple[float, list[Any], list[list[Any]]]:
    """The server's time (ms), the oldest dead letter, a row of `stand_of` each: at one moment."""
    commands: list[tuple[Argument, ...]] = [("TIME",)]
    commands.append(("ZRANGE", base + keys.FAILED, 0, 0, "WITHSCORES"))
    for each in schedules:
        places = (keys.WAITING, keys.HELD, keys.FAILED, keys.LANED)
        commands += (("ZSCORE", base + name, each) for name in places)
        commands.append(("PEXPIRETIME", base + keys.SCHEDULE + each))
        commands.append(("HGET", base + keys.TRIED, each))
    fields_ = ("r", "o", "a", "n", "g")
    commands += [("HMGET", base + keys.SCHEDULE + each, *fields_) for each in schedules]
    replies = await server.reads(commands, at_once=base, damaged=True)
    time, oldest, *found = replies[: -len(schedules)]
    for reply in (oldest, *found):
        if isinstance(reply, Unreadable):
            raise anew(reply)
    # A foreign key with the name of a schedule counts as missing.
    stored = (
        [None] * 5 if isinstance(each, Unreadable) else each for each in replies[2 + len(found) :]
    )
    # A dead letter that was let go is missed as little as one that was replayed.
    rows = [
        [request, outcome, replay or let_go, attempt, *row]
        for (request, outcome, replay, attempt, let_go), *row in zip(
            stored, *(found[n::6] for n in range(6)), strict=True
        )
    ]
    await _find_letters(server, base, dict(zip(schedules, rows, strict=True)))
    return time_us(time) / 1000, oldest, rows


async def _find_letters(server: Server, base: str, rows: dict[str, list[Any]]) -> None:
    """Sets the scores in `failed` of ended ones with a reference, which is a part of their names
    there."""
    named = {
        letter_member(head[2:].decode(errors="replace"), schedule): row
        for schedule, row in rows.items()
        if row[1] and (head := heads_of(row[0] or b"").reference)
    }
    if named:
        [scores] = await server.reads([("ZMSCORE", base + keys.FAILED, *named)])
        for row, score in zip(named.values(), scores, strict=True):
            row[_LETTER] = score
