"""Replays: new schedules made of ones that have ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec

from scheduler import ids
from scheduler.errors import (
    Conflict,
    Damaged,
    FieldError,
    InsufficientCredits,
    InvalidRequest,
    KeyReused,
    NotFound,
    QuotaExceeded,
)
from scheduler.models import Idempotency, Request, Schedule, Status
from scheduler.store import keys, stored
from scheduler.store.lifecycle.once import ONCE_KEPT_MS, asked, noted, once_name
from scheduler.store.queries.failed import Failed
from scheduler.store.queries.listing import Selection
from scheduler.store.queries.reading import Stored, read_by_id
from scheduler.store.retention import Retention
from scheduler.store.server import Script, Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.server.line import Argument

_REPLAY = Script("lifecycle/replay")

# What the script answers; its header says it at length.
_DONE, _ASKED_BEFORE, _NO_ACCOUNT, _KEY_REUSED = 1, 0, -1, -2
_FOR_THE_SCRIPT = ord(" ")
_UNTIL_DIGITS = 12

Made = Callable[[Schedule], Request]


class Verdict(IntEnum):
    """What came of one schedule that was to be replayed. The numbers are the stored format."""

    UNKNOWN = 0
    REPLAYED = 1
    NOT_ENDED = 2
    REPLAYED_BEFORE = 3
    UNPAID = 4
    CANCELLED = 5
    NO_ROOM = 6
    DAMAGED = 7


SENTENCES = {
    Verdict.UNKNOWN: "There is no such schedule",
    Verdict.NOT_ENDED: "The schedule has not ended yet",
    Verdict.REPLAYED_BEFORE: "The schedule was replayed already",
    Verdict.UNPAID: str(InsufficientCredits()),
    Verdict.NO_ROOM: str(QuotaExceeded()),
    Verdict.DAMAGED: "What is stored of the schedule is damaged and cannot be read",
    Verdict.CANCELLED: "Its body was not kept when it was cancelled",
}


class Replay(NamedTuple):
    """What came of one of them; `schedule_id` is the new one, if there is one."""

    original: str
    verdict: Verdict
    schedule_id: str | None = None


class Replays(NamedTuple):
    """What came of each, in order. `trigger_at_ms` is of the first new one. `replayed`: an earlier
    call with the same key did it. `next_cursor`: where the list goes on that they were taken from.
    """

    each: list[Replay]
    trigger_at_ms: int = 0
    replayed: bool = False
    next_cursor: str | None = None


class _Note(msgspec.Struct, array_like=True):
    """What is kept with a once-key: the ids, 16 bytes each; for each the number of the verdict
    that was given before the script was asked, or a space; and what else is answered."""

    originals: bytes
    verdicts: bytes
    trigger_at_ms: int
    next_cursor: str | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Note).decode


class _Asked(NamedTuple):
    """One call: which schedules, what became of them by reading alone (None: ask the script), and
    for the others what is to be made of them."""

    originals: Sequence[str]
    verdicts: list[Verdict | None]
    requests: list[Request]
    next_cursor: str | None = None

    def note(self) -> bytes:
        originals = b"".join(map(ids.to_bytes, self.originals))
        verdicts = bytes(_FOR_THE_SCRIPT if each is None else each for each in self.verdicts)
        due_ms = self.requests[0].trigger_at_ms if self.requests else 0
        return _encode(_Note(originals, verdicts, due_ms, self.next_cursor))


class Replayer:
    """Replays what has ended: each costs a credit, as a new one does.

    `made` makes the request of a replay from what it is a replay of. `now_ms` is when replays were
    asked for, if that was decided before: they are created then.
    """

    def __init__(
        self, server: Server, clock: StoreClock, retention: Retention, failed: Failed
    ) -> None:
        self._server = server
        self._clock = clock
        self._retention = retention
        self._failed = failed
        # By this process, since it began.
        self.created = 0

    async def one(
        self,
        account_id: str,
        schedule_id: str,
        made: Made,
        once: Idempotency | None = None,
        now_ms: int | None = None,
    ) -> Replays:
        """Replays one that has ended, whether it was replayed before or not.

        Raises NotFound, Conflict, Damaged, InsufficientCredits, QuotaExceeded, KeyReused,
        StoreUnavailable (nothing was changed), OutcomeUnknown, and whatever `made` raises. With
        `once`, safe to repeat for 24 hours; without, each call makes another.
        """
        if not ids.is_schedule_id(schedule_id):
            raise _refusal(schedule_id, Verdict.UNKNOWN)
        found = await self._read(account_id, [schedule_id])
        what = _judged([schedule_id], found, made)
        done = await self._done(account_id, what, once, now_ms, again=True)
        [replay] = done.each
        if replay.verdict is not Verdict.REPLAYED:
            raise _refusal(schedule_id, replay.verdict)
        return done

    async def by_id(
        self,
        account_id: str,
        schedule_ids: Sequence[str],
        made: Made,
        once: Idempotency | None = None,
        now_ms: int | None = None,
        *,
        most_bytes: int,
    ) -> Replays:
        """Replays those of them that can be, each at most once, in one step and with one debit;
        as many as the credits reach for.

        Safe to repeat: what was replayed before is told to be. Raises KeyReused, StoreUnavailable
        (nothing was changed), OutcomeUnknown; InvalidRequest if they are larger than `most_bytes`.
        """
        found = await self._read(account_id, schedule_ids, most_bytes)
        return await self._done(account_id, _judged(schedule_ids, found, made), once, now_ms)

    async def failed(
        self,
        account_id: str,
        selected: Selection,
        made: Made,
        once: Idempotency | None = None,
        now_ms: int | None = None,
    ) -> Replays:
        """Replays dead letters, the oldest first; as `by_id`. They leave the list, so that a
        repeat goes on with others. What `next_cursor` leads on to ends with what had failed by
        now, as the server's clock says: a replay that fails again meanwhile would have no end.
        Raises InvalidRequest for a bad cursor."""
        selected, until_ms = _until(selected)
        page, read_ms = await self._failed.page_and_moment(account_id, selected)
        if until_ms is None:
            until_ms = read_ms + 1  # what failed in the millisecond of the beginning is of the walk
        originals = [each.schedule_id for each in page.schedules]
        asked = _judged(originals, page.schedules, made)
        if page.next_cursor is not None:
            page = page._replace(next_cursor=f"{page.next_cursor}{until_ms:0{_UNTIL_DIGITS}x}")
        asked = asked._replace(next_cursor=page.next_cursor)
        return await self._done(account_id, asked, once, now_ms)

    async def before(self, account_id: str, once: Idempotency) -> Replays | None:
        """What an earlier call with this key did, or None. Raises KeyReused. Read-only."""
        key = f"{keys.account(account_id)}{keys.ONCE}{once_name(once)}"
        [kept] = await self._server.reads([("GET", key)])
        if kept is None:
            return None
        digest = asked(once)
        if not kept.startswith(digest):
            raise KeyReused
        return _told(kept[len(digest) :])

    async def _read(
        self, account_id: str, schedule_ids: Sequence[str], most_bytes: int | None = None
    ) -> list[Schedule | Damaged | None]:
        found: list[Schedule | Damaged | None] = []
        read_bytes = 0
        async for chunk in read_by_id(self._server, account_id, schedule_ids):
            found += [each.schedule if isinstance(each, Stored) else each for each in chunk]
            read_bytes += sum(len(each.packed) for each in chunk if isinstance(each, Stored))
            if most_bytes is not None and read_bytes > most_bytes:
                message = f"Together they are larger than {most_bytes:,} bytes; name fewer."
                raise InvalidRequest([FieldError("ids", message)])
        return found

    async def _done(
        self,
        account_id: str,
        what: _Asked,
        once: Idempotency | None,
        now_ms: int | None,
        *,
        again: bool = False,
    ) -> Replays:
        if not what.requests:
            return _told_by(what, "", ids.schedule_ids_from(0, 0))
        created_ms = self._clock.now_ms() if now_ms is None else now_ms
        new = ids.new_schedule_ids(len(what.requests), created_ms)
        shard, _ = keys.parts(account_id)
        arguments = self._arguments(account_id, what, new, once, again=again)
        now_us, code, text = await self._server.repeated(
            lambda: self._server.write(_REPLAY, keys.shard(shard), arguments)
        )
        self._clock.observe(now_us)
        if code == _NO_ACCOUNT:
            raise NotFound(f"There is no account {account_id}.")
        if code == _KEY_REUSED:
            raise KeyReused
        if code == _ASKED_BEFORE:
            told = _told(text)
            # Our own ids: this call's first attempt did it, and its reply was lost.
            return told._replace(replayed=noted(text).schedule_ids[0] != new[0])
        done = _told_by(what, text.decode(), new)
        self.created += sum(each.schedule_id is not None for each in done.each)
        return done

    def _arguments(
        self,
        account_id: str,
        what: _Asked,
        new: Sequence[str],
        once: Idempotency | None,
        *,
        again: bool,
    ) -> list[Argument]:
        kept, account = self._retention, keys.parts(account_id).local
        arguments: list[Argument] = [account, kept.log_ms, kept.schedule_ms, int(again)]
        if once is None:
            arguments += ("", ONCE_KEPT_MS, "", "", "")
        else:
            arguments += (once_name(once), ONCE_KEPT_MS, asked(once))
            arguments += (ids.to_bytes(new[0]), what.note())
        arguments += (len(kept.quotas) // 2, *kept.quotas)
        for original, schedule_id, request in zip(_sent(what), new, what.requests, strict=True):
            arguments += (ids.local(original), ids.local(schedule_id))
            arguments += (request.trigger_at_ms, stored.seal_request(request, self._server.secrecy))
        return arguments


def _until(selected: Selection) -> tuple[Selection, int | None]:
    """The selection with what its cursor says of the moment (ms) before which all had failed that
    the walk is of; None where it begins."""
    if selected.cursor is None:
        return selected, None
    cursor, digits = selected.cursor[:-_UNTIL_DIGITS], selected.cursor[-_UNTIL_DIGITS:]
    try:
        until_ms = int(digits, 16)
    except ValueError:
        raise InvalidRequest([FieldError("cursor", "not a cursor from nextCursor")]) from None
    to_ms = until_ms if selected.to_ms is None else min(selected.to_ms, until_ms)
    return selected._replace(cursor=cursor, to_ms=to_ms), until_ms


def _judged(
    originals: Sequence[str], found: Sequence[Schedule | Damaged | None], made: Made
) -> _Asked:
    verdicts = [_verdict(each) for each in found]
    requests = [
        made(each)
        for each, verdict in zip(found, verdicts, strict=True)
        if isinstance(each, Schedule) and verdict is None
    ]
    return _Asked(originals, verdicts, requests)


def _verdict(found: Schedule | Damaged | None) -> Verdict | None:
    """What reading alone tells; None if nothing speaks against a replay."""
    if found is None:
        return Verdict.UNKNOWN
    if isinstance(found, Damaged):
        return Verdict.DAMAGED
    if found.status is Status.SCHEDULED:
        return Verdict.NOT_ENDED
    return Verdict.CANCELLED if found.body_dropped else None


def _sent(what: _Asked) -> list[str]:
    pairs = zip(what.originals, what.verdicts, strict=True)
    return [original for original, verdict in pairs if verdict is None]


def _told_by(what: _Asked, digits: str, new: Sequence[str]) -> Replays:
    """What came of a call, by the digits that the script gave for those that it was asked for."""
    replays, answers = [], zip(digits, new, strict=True)
    for original, verdict in zip(what.originals, what.verdicts, strict=True):
        schedule_id = None
        if verdict is None:
            digit, schedule_id = next(answers)
            verdict = Verdict(int(digit))
        done = verdict is Verdict.REPLAYED
        replays.append(Replay(original, verdict, schedule_id if done else None))
    due_ms = what.requests[0].trigger_at_ms if what.requests else 0
    return Replays(replays, due_ms, next_cursor=what.next_cursor)


def _told(kept: bytes) -> Replays:
    """What came of an earlier call, by what is kept behind the digest with its once-key."""
    made = noted(kept)
    count = len(made.schedule_ids)
    note = _decode(made.note[count:])
    originals = [
        ids.from_bytes(note.originals[at : at + 16]) for at in range(0, len(note.originals), 16)
    ]
    verdicts = [None if each == _FOR_THE_SCRIPT else Verdict(each) for each in note.verdicts]
    what = _Asked(originals, verdicts, [], note.next_cursor)
    told = _told_by(what, made.note[:count].decode(), made.schedule_ids)
    return told._replace(trigger_at_ms=note.trigger_at_ms, replayed=True)


def _refusal(schedule_id: str, verdict: Verdict) -> Exception:
    sentence = SENTENCES[verdict]
    match verdict:
        case Verdict.NOT_ENDED:
            return Conflict(sentence, Status.SCHEDULED)
        case Verdict.CANCELLED:
            return Conflict(sentence, Status.CANCELLED)
        case Verdict.UNPAID:
            return InsufficientCredits()
        case Verdict.NO_ROOM:
            return QuotaExceeded()
        case Verdict.DAMAGED:
            return Damaged(schedule_id)
    return NotFound(sentence)
