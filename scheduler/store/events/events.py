"""The streams of events: those of the service, operators' acts, and each account's own. Each is
bounded by itself, so that workers in a crash loop, or one account, push out no operator's act."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import structlog

from scheduler import ids
from scheduler.errors import OutcomeUnknown, PostdateError, StoreError
from scheduler.events import ACTS, MOST_CHARACTERS, NOT_DONE, OWN, Event, Kind
from scheduler.rollups import HOUR_MS
from scheduler.store import keys
from scheduler.store.server import Argument, Script, Server
from scheduler.store.server.writes import beside_the_call, outcome

_RECORD = Script("events/record")
_log = structlog.get_logger(__name__)
_KINDS = frozenset(Kind)
# One page reads so many entries of each stream at once, and at most so many times.
_CHUNK = 500
_MOST_CHUNKS = 4


class Noted:
    """Whether the note of an act was lost: then it is in the process's log only."""

    lost = False


class EventPage(NamedTuple):
    """The latest first. `next` is a cursor; None at the end. A page may be short before."""

    events: list[Event]
    next: str | None


class Events:
    def __init__(self, server: Server) -> None:
        self._server = server

    async def record(
        self,
        kind: Kind,
        *,
        who: str = "",
        account_id: str = "",
        about: str = "",
        since_ms: int | None = None,
        operation: str | None = None,
    ) -> bool:
        """Notes an event of the service, or an operator's act; with the name of an `operation`,
        once for repeats among which fewer than 20 others come. False, and an error in the log, if
        the store did not take it. Of a store that was away, notes that overlap become one."""
        event = Event("", 0, kind, account_id, who, about, since_ms)
        key = keys.ACTS if kind in ACTS else keys.SERVICE_EVENTS
        most = keys.MOST_ACTS if kind in ACTS else keys.MOST_SERVICE_EVENTS
        return await self._record(key, most, event, operation)

    async def note(
        self,
        account_id: str,
        kind: Kind,
        *,
        who: str = "",
        about: str = "",
        operation: str | None = None,
    ) -> bool:
        """Notes an event in an account's own stream; as `record`."""
        event, key = Event("", 0, kind, "", who, about), keys.account(account_id) + keys.EVENTS
        return await self._record(key, keys.MOST_OWN_EVENTS, event, operation)

    async def note_view(self, person: str, account_id: str, now_ms: int) -> bool:
        """Notes that an operator looked at an account's pages, once an hour. False if the store did
        not take the entry. Safe to repeat: the mark is made after the entry, which a repeat at once
        does not double."""
        hour = now_ms // HOUR_MS
        what = f"look {person} {account_id} {hour}"
        operation = hashlib.sha256(what.encode()).hexdigest()[:32]
        mark = keys.account(account_id) + keys.OPERATION + operation
        if await self._server.read("EXISTS", mark):
            return True
        noted = await self.record(Kind.LOOK, who=person, account_id=account_id, operation=operation)
        if noted:
            await self._server.call("SET", mark, "", "PX", HOUR_MS)
        return noted

    @asynccontextmanager
    async def act(
        self,
        kind: Kind,
        *,
        who: str,
        account_id: str = "",
        about: str = "",
        since_ms: int | None = None,
    ) -> AsyncIterator[Noted]:
        """Around an operator's act: notes it before it is done, so that one that was done is noted
        whatever dies in between. If the body raises, notes why as well. The act goes on if the
        store does not take the note; then `lost` is true, and the log has it. Nothing more is noted
        of one that may have been done."""
        noted = Noted()
        noted.lost = not await self.record(
            kind, who=who, account_id=account_id, about=about, since_ms=since_ms
        )
        try:
            yield noted
        except PostdateError as error:
            if isinstance(outcome(error), OutcomeUnknown):
                raise
            # A long text would push out that it was not done.
            why = f"{about[: MOST_CHARACTERS // 2]}; " if about else ""
            await self.record(kind, who=who, account_id=account_id, about=f"{why}{NOT_DONE}{error}")
            raise

    async def page(
        self,
        wanted: Callable[[Event], bool],
        *,
        limit: int,
        account_id: str = "",
        from_ms: int = 0,
        to_ms: int | None = None,
        cursor: str | None = None,
    ) -> EventPage:
        """Those in `[from_ms, to_ms)`, and the account's own among them if one is named. Raises
        ValueError for a bad cursor. Read-only; looks at 2,000 of each stream at most."""
        streams = [keys.ACTS, keys.SERVICE_EVENTS]
        if account_id:
            streams.append(keys.account(account_id) + keys.EVENTS)
        place = _place_of(cursor) if cursor else None
        found: list[Event] = []
        for _ in range(_MOST_CHUNKS):
            some = await self._chunk(streams, from_ms, to_ms, place)
            for place, event in some:
                if event is not None:
                    if event.kind in OWN:
                        event = event._replace(account_id=account_id)
                    if wanted(event):
                        found.append(event)
                if len(found) == limit:
                    return EventPage(found, _cursor_of(place))
            if len(some) < _CHUNK:
                return EventPage(found, None)
        return EventPage(found, _cursor_of(place) if place else None)

    async def newest(self, account_id: str = "", *, most: int = _CHUNK) -> list[Event]:
        """The newest of the service and of operators' acts, or of an account's own, the latest
        first. Read-only."""
        if account_id:
            streams = [keys.account(account_id) + keys.EVENTS]
        else:
            streams = [keys.ACTS, keys.SERVICE_EVENTS]
        commands = [("XREVRANGE", key, "+", "-", "COUNT", most) for key in streams]
        pages = await self._server.reads(commands)
        events = [event for page in pages for event in map(_event_of, page) if event]
        return sorted(events, key=lambda each: each.at_ms, reverse=True)

    async def _chunk(
        self, streams: Sequence[str], from_ms: int, to_ms: int | None, place: _Place | None
    ) -> list[tuple[_Place, Event | None]]:
        """The next of all streams behind a place, in the order of places; fewer at the end. None
        stands for one that cannot be read."""
        commands: list[tuple[Argument, ...]] = []
        for number, key in enumerate(streams):
            start = "+" if to_ms is None else f"({max(to_ms, 1)}-0"
            if place is not None:
                ms, sequence, of = place
                start = f"{'' if number < of else '('}{ms}-{sequence}"
            commands.append(("XREVRANGE", key, start, from_ms, "COUNT", _CHUNK))
        pages = await self._server.reads(commands)
        found = [
            (_place(entry[0], number), _event_of(entry))
            for number, page in enumerate(pages)
            for entry in page
        ]
        found.sort(key=lambda pair: pair[0], reverse=True)
        return found[:_CHUNK]

    async def _record(
        self, key: str, most: int, event: Event, operation: str | None = None
    ) -> bool:
        merges = int(event.kind is Kind.STORE_AWAY)
        texts = (event.kind, event.account_id, event.who, event.about)
        clipped = [each[:MOST_CHARACTERS] for each in texts]
        times = ["" if each is None else each for each in (event.since_ms, event.until_ms)]
        arguments = (most, operation or ids.new_operation(), merges, *clipped, *times)
        try:
            with beside_the_call():
                await self._server.write_until_answered(_RECORD, key, arguments)
        except StoreError as error:
            _log.error(
                "an event was not noted",
                kind=event.kind,
                who=event.who,
                account=event.account_id,
                about=event.about,
                error=str(error),
            )
            return False
        return True


class _Place(NamedTuple):
    """Of an event: the id in its stream, and the number of that stream."""

    ms: int
    sequence: int
    stream: int


def _event_of(entry: Any) -> Event | None:
    """None if it is of a kind that this version does not know, or damaged."""
    event_id, flat = entry
    texts = [each.decode(errors="replace") for each in flat]
    fields = dict(zip(texts[::2], texts[1::2], strict=False))
    kind = fields.get("k", "")
    if kind not in _KINDS:
        return None
    times = [fields.get(name, "") for name in ("s", "u")]
    since_ms, until_ms = (int(each) if each.isdecimal() else None for each in times)
    name = event_id.decode()
    at_ms = int(name.partition("-")[0])
    account_id, who, about = (fields.get(each, "") for each in ("a", "w", "t"))
    return Event(name, at_ms, Kind(kind), account_id, who, about, since_ms, until_ms)


def _place(event_id: bytes, stream: int) -> _Place:
    ms, _, sequence = event_id.partition(b"-")
    return _Place(int(ms), int(sequence), stream)


def _cursor_of(place: _Place) -> str:
    return "-".join(map(str, place))


def _place_of(cursor: str) -> _Place:
    """Raises ValueError."""
    parts = cursor.split("-")
    if not all(each.isascii() and each.isdecimal() and len(each) < 20 for each in parts):
        raise ValueError("not a cursor")
    ms, sequence, stream = map(int, parts)
    return _Place(ms, sequence, stream)
