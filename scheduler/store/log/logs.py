"""The execution log, a page at a time: what has ended, what has not, or both on one timeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from scheduler import ids
from scheduler.callbacks import CallbackStatus
from scheduler.errors import NotFound
from scheduler.models import LogEntry, LogStatus, Request, Schedule
from scheduler.references import matches
from scheduler.rollups import DAY_MS
from scheduler.store import keys
from scheduler.store.callback_state import STATUSES
from scheduler.store.log.attempts import Attempts
from scheduler.store.log.ended import WHOLE_LOG, Ended, Wanted
from scheduler.store.log.entries import (
    StoredEntry,
    lane_place_name,
    logged_url,
    place_name,
    recurring_place,
    unended_entry,
    url_place,
)
from scheduler.store.queries.listing import Sieve
from scheduler.store.queries.reading import Stored, read_by_id
from scheduler.store.queries.timeline import Found, Place, Span, encode_cursor, lowered, merge, span
from scheduler.store.queries.unended import Unended
from scheduler.store.retention import Retention
from scheduler.store.scans import Scan, Scans
from scheduler.store.server import Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.stored import NUMBERS, moment_of
from scheduler.target.short_texts import kept_part
from scheduler.target.targets import split_url

_ENDED = frozenset(LogStatus) - {LogStatus.SCHEDULED}
# Callbacks that have a list of their own; of so many it is known when the first schedule ended.
CALLBACK_LISTS = {
    CallbackStatus.PENDING: keys.CALLBACKS,
    CallbackStatus.FAILED: keys.FAILED_CALLBACKS,
}
_MOST_LISTED = 500
# So many empty pages are passed over, as few of many ends may have a callback that is wanted.
_MOST_EMPTY_PAGES = 20
# Ends that a callback may tell of.
_REPORTED = (LogStatus.COMPLETED, LogStatus.FAILED)
_ENDS = _ENDED - {LogStatus.RETRYING, LogStatus.SKIPPED}
# A moment has the entries of one ack, or of thousands after the clock was set back.
_MOST_PAGES_OF_A_MOMENT = 10
# Nothing in the log is further in the future, though the clock was set back.
_AHEAD_MS = DAY_MS


class LogQuery(NamedTuple):
    """What to list: `from_ms` inclusive, `to_ms` exclusive, both on the log's timeline. No
    `statuses`: all. `url_part` and `host` ignore letter case; `host` is a whole one, with its port
    if the URL has one. `answer` is a status code, or a whole error message. `schedule_id`: only the
    entries of this one, `lane`: of this, `recurring_id`: of this rule. `reference`: only those of
    it or, with `*` behind it, of all that begin so. `text` is a part of the URL or of the
    reference, in any letter case. `replayable`: only those that failed, are kept, and were not
    replayed. `late_ms`: only those that were sent at least so late, or are overdue for so long.
    `held`: only due ones that something keeps from starting. `callback`: only the ends of schedules
    that are kept, and whose callback stands so by now. `also`: only those that it accepts.
    `fresh`: of what waits only what no other entry tells of, and no next occurrences."""

    statuses: Sequence[LogStatus] = ()
    url: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    limit: int = 50
    descending: bool = True
    cursor: str | None = None
    url_part: str = ""
    host: str = ""
    text: str = ""
    replayable: bool = False
    answer: str = ""
    schedule_id: str | None = None
    lane: str | None = None
    reference: str | None = None
    recurring_id: str | None = None
    late_ms: int | None = None
    held: bool = False
    callback: CallbackStatus | None = None
    also: Callable[[Request | StoredEntry | LogEntry], bool] | None = None
    fresh: bool = False

    @property
    def beginning(self) -> str:
        """The cursor of the first page."""
        return encode_cursor(span(self.from_ms, self.to_ms, None, down=self.descending).after)

    @property
    def is_search(self) -> bool:
        """Whether entries are looked through for those that it names."""
        named = (self.url, self.schedule_id, self.lane, self.reference, self.recurring_id)
        texts = (self.url_part, self.host, self.text, self.answer)
        asked = (*named, self.late_ms, self.callback, self.also)
        named_one = any(each is not None for each in asked)
        return named_one or any(texts) or self.replayable or self.held or self.fresh

    @property
    def part(self) -> bytes:
        """A text that each wanted entry contains, in small letters."""
        beginning = self.reference and self.reference.removesuffix("*")
        rule = self.recurring_id and ids.local(self.recurring_id)
        named = (self.url_part, self.host, self.text, self.url, rule, beginning, self.lane)
        return lowered(next(filter(None, named), None) or "")

    @property
    def sieve(self) -> Sieve:
        return Sieve(kept_part(self.part), self.lane, self.recurring_id)

    def wants(self, one: Request | StoredEntry | LogEntry) -> bool:
        """Whether a schedule with this request, or such an entry, is meant by what it names."""
        if self.url not in (None, one.url) or self.lane not in (None, one.lane):
            return False
        if self.reference is not None and not matches(self.reference, one.reference):
            return False
        if self.recurring_id not in (None, one.recurring_id):
            return False
        if self.host and lowered(split_url(one.url)[0]) != lowered(self.host):
            return False
        if self.also is not None and not self.also(one):
            return False
        if self.text and lowered(self.text) not in lowered(f"{one.url}\n{one.reference or ''}"):
            return False
        return not self.url_part or lowered(self.url_part) in lowered(one.url)

    def is_answer_of(self, entry: StoredEntry | LogEntry) -> bool:
        """Whether it ended so, and was sent so late."""
        if self.late_ms is not None and (entry.lateness_ms or 0) < self.late_ms:
            return False
        return self.answer in ("", entry.error_message, str(entry.status_code))

    def wants_entry(self, entry: LogEntry) -> bool:
        """Whether an entry is meant, apart from its moment and its schedule."""
        if entry.status not in (self.statuses or LogStatus) or not self.is_answer_of(entry):
            return False
        waits = entry.status is LogStatus.SCHEDULED
        return (self if waits else self._in_log()).wants(entry)

    def _in_log(self) -> LogQuery:
        return self._replace(url=self.url and logged_url(self.url))

    @property
    def _indexed_by(self) -> tuple[str, bytes] | None:
        """The index stream to go along, and the digest there; None: none helps."""
        if self.recurring_id is not None:
            return recurring_place(self.recurring_id)
        if self.url is not None:
            return url_place(self.url)
        if self.reference and not self.reference.endswith("*"):
            return url_place(place_name(self.reference))
        return None if self.lane is None else url_place(lane_place_name(self.lane))

    def ended(self) -> Wanted:
        statuses = frozenset(NUMBERS[each] for each in self.statuses or LogStatus)
        of_url, searches = self._in_log(), self.is_search
        url = of_url.url

        def wanted(entry: StoredEntry) -> bool:
            if not searches:  # as most pages, of which each entry comes here
                return entry.status in statuses
            if url is not None and entry.url != url:  # of most in a chunk
                return False
            meant = of_url.wants(entry)
            if entry.status not in statuses or not meant:
                return False
            return self.is_answer_of(entry)

        indexed = _ENDED.intersection(self.statuses)
        indexes, digest = list[Sequence[str]](), b""
        if indexed not in (frozenset(), _ENDED, _ENDS):
            indexes.append([keys.INDEX + each for each in indexed])
        if (indexed_by := self._indexed_by) is not None:
            bucket, digest = indexed_by
            indexes.append([keys.INDEX + bucket])
        elif indexed == _ENDS:  # fewer chunks than the log only if most attempts are made again
            indexes += (WHOLE_LOG, [keys.INDEX + each for each in indexed])
        return Wanted(wanted, indexes, digest, of_url.part)


class LogPage(NamedTuple):
    """`next_cursor` is None at the end; before it a page may be short: it was read up to
    `reached_ms`. From `first_cursor`, the other direction leads to the page before."""

    entries: list[LogEntry]
    next_cursor: str | None
    first_cursor: str | None = None
    reached_ms: int | None = None


class Logs:
    def __init__(
        self,
        server: Server,
        clock: StoreClock,
        retention: Retention,
        scans: Scans,
        unended: Unended,
    ) -> None:
        self._server = server
        self._clock = clock
        self._scans = scans
        self._unended = unended
        self._ended = Ended(server, clock, retention)
        self._attempts = Attempts(server, self._ended)

    async def page(self, account_id: str, query: LogQuery, *, gives_way: bool = False) -> LogPage:
        """One page. Raises InvalidRequest for a bad cursor, TooManyScans; a search that `gives_way`
        does so until the account has searched for nothing of late. Read-only."""
        if query.callback in CALLBACK_LISTS:
            from_ms = await self._since(account_id, CALLBACK_LISTS[query.callback])
            if from_ms is None:
                return LogPage([], None)
            query = query._replace(from_ms=max(query.from_ms or 0, from_ms))
        stretch = span(query.from_ms, query.to_ms, query.cursor, down=query.descending)
        searches = query.is_search
        async with self._scans.of(account_id, searches=searches, gives_way=gives_way) as scan:
            page = await self._page(account_id, query, stretch, scan)
            for _ in range(_MOST_EMPTY_PAGES if query.callback is not None else 0):
                if page.entries or page.next_cursor is None:
                    break
                rest = span(query.from_ms, query.to_ms, page.next_cursor, down=query.descending)
                page = await self._page(account_id, query, rest, scan)
            return page

    async def _page(self, account_id: str, query: LogQuery, stretch: Span, scan: Scan) -> LogPage:
        if query.schedule_id is None:
            sources = await self._sources(account_id, query, stretch, scan)
        else:
            sources = await self._attempts.read(
                account_id, query.schedule_id, stretch, query.wants_entry, scan
            )
        page = merge(sources, query.limit, stretch)
        entries = page.entries
        if query.replayable:
            entries = await self.replayable(account_id, entries)
            scan.add(len(page.entries), 0, 0)
        if query.held:
            held = await self._unended.holders.of_entries(account_id, entries)
            entries = [each for each in entries if each.schedule_id in held]
            scan.add(len(page.entries), 0, 0)
        if query.callback is not None:
            stands = await self.callbacks(account_id, entries)
            entries = [
                each
                for each in entries
                if each.status in _REPORTED and stands.get(each.schedule_id) == query.callback
            ]
            scan.add(len(page.entries), 0, 0)
        return LogPage(
            entries,
            None if page.next is None else encode_cursor(page.next),
            None if page.first is None else encode_cursor(page.first),
            None if page.next is None else page.next.ms,
        )

    async def replayable(self, account_id: str, entries: Sequence[LogEntry]) -> list[LogEntry]:
        """Those that failed, are kept, and were not replayed. Read-only."""
        replays = await self.replays(account_id, entries)
        return [each for each in entries if replays.get(each.schedule_id, "") is None]

    async def replays(self, account_id: str, entries: Iterable[LogEntry]) -> dict[str, str | None]:
        """Of those that failed and are kept, the last replay of each; None of one that has none.
        Read-only."""
        failed = [each.schedule_id for each in entries if each.status is LogStatus.FAILED]
        kept = [("HMGET", keys.schedule(account_id, each), "o", "a") for each in failed]
        rows = await self._server.reads(kept, damaged=True) if kept else []
        return {
            schedule_id: row[1] and ids.schedule_id(row[1].decode())
            for schedule_id, row in zip(failed, rows, strict=True)
            if isinstance(row, list) and row[0] is not None
        }

    async def callbacks(
        self, account_id: str, entries: Iterable[LogEntry]
    ) -> dict[str, CallbackStatus]:
        """How the callbacks of those stand that have ended, have one and are kept, by their ids.
        Read-only."""
        ended = [each.schedule_id for each in entries if each.status in _REPORTED]
        kept = [("HGET", keys.schedule(account_id, each), "c") for each in ended]
        states = await self._server.reads(kept, damaged=True)
        return {
            schedule_id: STATUSES[state[:1]]
            for schedule_id, state in zip(ended, states, strict=True)
            if isinstance(state, bytes) and state[:1] in STATUSES
        }

    async def schedules(
        self, account_id: str, entries: Iterable[LogEntry], most_bytes: int
    ) -> dict[str, Schedule]:
        """Those of entries that are kept and can be read, by their ids: the first ones, up to so
        many bytes of requests. Read-only."""
        named = list(dict.fromkeys(each.schedule_id for each in entries))
        found, read_bytes = dict[str, Schedule](), 0
        async for chunk in read_by_id(self._server, account_id, named):
            kept = [each for each in chunk if isinstance(each, Stored)]
            found |= {each.schedule.schedule_id: each.schedule for each in kept}
            read_bytes += sum(len(each.packed) for each in kept)
            if read_bytes > most_bytes:
                break
        return found

    async def _since(self, account_id: str, index: str) -> int | None:
        """When the first schedule ended (ms) whose callback is in this list, or earlier; None: it
        has none that is kept."""
        base = keys.account(account_id)
        listed = await self._server.read("ZRANGE", base + index, 0, _MOST_LISTED)
        if len(listed) > _MOST_LISTED:
            return 0
        names = [f"{base}{keys.SCHEDULE}{each.decode()}" for each in listed]
        ends = await self._server.reads([("HGET", each, "o") for each in names], damaged=True)
        return min((moment_of(each) for each in ends if isinstance(each, bytes)), default=None)

    async def _sources(
        self, account_id: str, query: LogQuery, stretch: Span, scan: Scan
    ) -> list[Found[LogEntry]]:
        unended = ended = Found[LogEntry]([], None)
        # First what has not ended, then the log: what ends in between is seen twice, not never.
        statuses = query.statuses or LogStatus
        if LogStatus.SCHEDULED in statuses and not query.answer:
            unended = await self._read_unended(account_id, query, stretch, scan)
        if _ENDED.intersection(statuses):
            last = unended.entries[query.limit][0] if len(unended.entries) > query.limit else None
            ended = await self._read_ended(account_id, query, stretch, scan, last)
        return [_without(unended, ended), ended]

    async def find(self, account_id: str, schedule_id: str, at_ms: int) -> LogEntry:
        """The entry of a schedule that ended at this moment. Raises NotFound; TooManyScans, where
        thousands share the moment: all but the first page of it is a search. Read-only."""
        name = ids.local(schedule_id)
        wanted = Wanted(lambda each: each.schedule == name, part=lowered(name))
        moment = span(at_ms, at_ms + 1, None, down=True)
        for page in range(_MOST_PAGES_OF_A_MOMENT):
            async with self._scans.of(account_id, searches=page > 0) as scan:
                found = await self._ended.read(account_id, moment, 1, wanted, scan)
            if found.entries:
                return found.entries[0][1]
            if found.reached is None:
                break
            moment = moment._replace(after=found.reached)
        raise NotFound("There is no such entry in the log")

    async def _read_unended(
        self, account_id: str, query: LogQuery, stretch: Span, scan: Scan
    ) -> Found[LogEntry]:
        late_before_ms = self._clock.now_ms() - (query.late_ms or 0)

        def wanted(schedule: Schedule) -> bool:
            is_late = query.late_ms is None or schedule.due_at_ms <= late_before_ms
            told = schedule.waits_for_slot or (schedule.retry and not schedule.executing)
            if query.fresh and told:
                return False
            return is_late and query.wants(schedule.request)

        found = None
        if query.reference is not None:
            found = await self._unended.few(account_id, query.reference, stretch, wanted, scan)
        if found is None:
            most = query.limit + 1
            found = await self._unended.read(account_id, stretch, most, wanted, scan, query.sieve)
        entries = [(place, unended_entry(schedule)) for place, schedule in found.entries]
        return Found(entries, found.reached)

    async def _read_ended(
        self, account_id: str, query: LogQuery, stretch: Span, scan: Scan, last: Place | None
    ) -> Found[LogEntry]:
        """Up to `last`: what waits fills the page until there."""
        if last is not None:
            if stretch.down and last.ms > self._clock.now_ms() + _AHEAD_MS:
                return Found([], last)
            stretch = stretch._replace(end_ms=last.ms if stretch.down else last.ms + 1)
        found = await self._ended.read(account_id, stretch, query.limit + 1, query.ended(), scan)
        return found._replace(reached=found.reached or last)


def _without(unended: Found[LogEntry], ended: Found[LogEntry]) -> Found[LogEntry]:
    """Leaves out schedules that have ended since; retried ones have not."""
    gone = {
        entry.schedule_id for _, entry in ended.entries if entry.status is not LogStatus.RETRYING
    }
    left = [e for e in unended.entries if e[1].schedule_id not in gone]
    return unended._replace(entries=left)
