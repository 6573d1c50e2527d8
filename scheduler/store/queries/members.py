"""Reading on in sorted sets by score and id, from a place that need not exist any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from scheduler.errors import Unreadable, anew
from scheduler.store import keys
from scheduler.store.heads import split_letter
from scheduler.store.queries.timeline import WAITING, Place, Span
from scheduler.store.server import Argument, Server

# Most steps of a search in a set that changes meanwhile. Each step halves the rest.
_MOST_LOOKS = 64
# Requests that can all be read in one round trip; and what weight.inc.lua adds for each schedule.
_LIGHT_BYTES = 4 * 1024 * 1024
_BESIDE_BYTES = 256


class Kind(NamedTuple):
    """What an account's schedules are like: whether the requests of all of them, and of those that
    have not ended, are `light` enough for one round trip; and whether any has been tried before."""

    light: bool
    unended_light: bool
    tried: bool


class Members(NamedTuple):
    """The next ones of a set, with their scores, in the order of reading, and the place it was read
    up to; None: to the end of the stretch."""

    found: list[tuple[Place, float]]
    reached: Place | None


async def read_members(
    server: Server, base: str, names: Sequence[str], span: Span, most: int
) -> tuple[list[Members], Kind]:
    """The next ones of a stretch in some sets of an account, at most so many of each, all at one
    moment; and what its schedules are like then. Read-only."""
    searches = [_Search(base + name, span, most) for name in names]
    counted = list(dict.fromkeys((*names, keys.WAITING, keys.LANED)))
    for _ in range(_MOST_LOOKS):
        commands = [command for each in searches for command in each.commands()]
        count = len(commands)
        commands += [("ZCARD", base + name) for name in counted]
        commands += [
            ("HGET", base + keys.ACCOUNT, "bytes"),
            ("HVALS", base + keys.EXPIRING),
            ("HLEN", base + keys.TRIED),
        ]
        *replies, weight, ended, tried = await server.reads(commands, at_once=base, damaged=True)
        looked, sizes = replies[:count], dict(zip(counted, replies[count:], strict=True))
        if damage := next((each for each in looked if isinstance(each, Unreadable)), None):
            raise anew(damage)
        left = iter(looked)
        found = [each.judge(left, sizes[name]) for name, each in zip(names, searches, strict=True)]
        sure = [each for each in found if each is not None]
        if len(sure) == len(found):
            return sure, _kind(weight, sizes[keys.WAITING], sizes[keys.LANED], ended, tried)
    return [Members([], span.after) for _ in searches], Kind(False, False, True)


def _kind(weight: Any, waiting: Any, laned: Any, ended: Any, tried: Any) -> Kind:
    """By replies, of which each may be damaged."""
    try:
        bytes_ = int(weight or 0) - _BESIDE_BYTES * (waiting + laned)
        unended = bytes_ - sum(map(int, ended))
        return Kind(bytes_ < _LIGHT_BYTES, 0 <= unended < _LIGHT_BYTES, tried > 0)
    except (TypeError, ValueError):
        return Kind(False, False, True)


class _Search:
    """Looks by score first. If more than a page share the place's millisecond, it looks by rank: of
    the place itself, or halfway between two others if that is gone."""

    def __init__(self, key: str, span: Span, most: int) -> None:
        self._key = key
        self._span = span
        # The place's own member may be among them.
        self._most = most + 1
        self._rank: int | None = None
        self._low = self._high = 0

    def commands(self) -> list[Sequence[Argument]]:
        """A page of the set; and the rank of the place, if that can be a member."""
        after, down = self._span.after, self._span.down
        tie = after.tie if after.kind == WAITING else ""
        order: list[Argument] = ["REV"] if down else []
        first = f"({after.ms}" if down and not tie else after.ms
        last = "-inf" if down else "+inf"
        page: list[Argument] = [first, last, "BYSCORE", *order, "LIMIT", 0, self._most]
        if self._rank is not None:
            page = [self._rank, self._rank + self._most - 1, *order]
        found: list[Sequence[Argument]] = [("ZRANGE", self._key, *page, "WITHSCORES")]
        return [*found, ("ZREVRANK" if down else "ZRANK", self._key, tie)] if tie else found

    def judge(self, replies: Iterator[Any], size: int) -> Members | None:
        """The members after the place, by the next replies, and by how many there are; None, with
        the next place set, if this page lacks them."""
        page, after = next(replies), self._span.after
        members = list(map(_member, page[::2], page[1::2]))
        rank = next(replies) if after.kind == WAITING and after.tie else None
        behind = [each for each in members if self._span.past(each[0], after)]
        full = len(members) == self._most
        reaches_back = not self._rank or len(behind) < len(members)
        # By score it may begin far before the place; where its rank is known, that shows more.
        short = len(behind) < self._most - 1 and self._rank is None and rank is not None
        if reaches_back and not (full and (short or not behind)):
            behind = behind[: self._most - 1]
            found = [each for each in behind if not self._span.past_end(each[0].ms)]
            return Members(found, found[-1][0] if full and len(found) == len(behind) else None)
        if self._rank is None:
            self._low, self._high = 0, size
        elif reaches_back:
            self._low = self._rank + self._most - 1
        else:
            self._high = self._rank
        middle = (self._low + self._high) // 2
        self._rank = rank if self._rank is None and rank is not None else middle
        if self._low >= self._high:  # it has changed
            self._rank = None
        return None


def _member(name: bytes, score: bytes) -> tuple[Place, float]:
    value = float(score)
    return Place(int(value), WAITING, split_letter(name)[0].decode()), value
