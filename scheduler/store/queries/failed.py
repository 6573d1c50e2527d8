"""Dead letters: schedules that ended as failed, in the order of their end and id, as long as they
are kept and until they are replayed."""

from __future__ import annotations

from scheduler import ids
from scheduler.models import Schedule
from scheduler.store import keys
from scheduler.store.log.timeline import WAITING, Found, Place, Span, span
from scheduler.store.queries.listing import SchedulePage, Selection
from scheduler.store.queries.reading import CHUNK_BYTES, of_a_list, read_on
from scheduler.store.retention import Retention
from scheduler.store.scans import Scan, Scans
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import Script, Server
from scheduler.store.server.clock import StoreClock

_FIELDS_PER_ROW = 5

_PAGE = Script("queries/failed_page")


class Failed:
    """Reads an account's dead letters."""

    def __init__(
        self, server: Server, clock: StoreClock, retention: Retention, scans: Scans
    ) -> None:
        self._server = server
        self._scans = scans
        self._clock = clock
        self._kept_ms = retention.failed_ms

    async def page(
        self, account_id: str, selected: Selection, *, descending: bool = False
    ) -> SchedulePage:
        """A page of them, by their end; it may be short before the list is over. Read-only.

        Raises InvalidRequest for a bad cursor, TooManyScans. What stays as it is meanwhile is
        neither skipped nor repeated.
        """
        page, _ = await self.page_and_moment(account_id, selected, descending=descending)
        return page

    async def page_and_moment(
        self, account_id: str, selected: Selection, *, descending: bool = False
    ) -> tuple[SchedulePage, int]:
        """As `page`, with the moment (ms) by the server's clock at which it began to be read."""
        asked = span(selected.from_ms, selected.to_ms, selected.cursor, down=descending)
        stretch = self._kept(asked)
        moments_us: list[int] = []

        async def chunk(rest: Span, most: int) -> tuple[Found[Schedule], int]:
            now_us, found, read_bytes = await self._chunk(account_id, rest, most, scan)
            moments_us.append(now_us)
            return found, read_bytes

        async with self._scans.of(account_id, searches=selected.is_search) as scan:
            found = await read_on(chunk, stretch, selected.limit + 1, selected.wants)
        return SchedulePage.of(found, selected.limit, stretch), moments_us[0] // 1000

    def _kept(self, stretch: Span) -> Span:
        """The part of it that is promised to be kept; what is older goes as others come."""
        oldest_ms = self._clock.now_ms() - self._kept_ms
        if stretch.down:
            return stretch._replace(end_ms=max(stretch.end_ms, oldest_ms))
        return stretch._replace(after=max(stretch.after, Place(oldest_ms)))

    async def _chunk(
        self, account_id: str, stretch: Span, most: int, scan: Scan
    ) -> tuple[int, Found[Schedule], int]:
        """The server's time (us), the next ones, and how many bytes of requests and answers were
        read."""
        after = stretch.after
        tie = after.tie if after.kind == WAITING else ""
        arguments = (after.ms, tie, int(stretch.down), most, CHUNK_BYTES)
        now_us, values, more = await self._server.repeated(
            lambda: self._server.run(_PAGE, keys.account(account_id), arguments)
        )
        read_bytes = sum(map(len, values[2::_FIELDS_PER_ROW] + values[4::_FIELDS_PER_ROW]))
        count = len(values) // _FIELDS_PER_ROW
        scan.add(count, count, read_bytes)
        found = _schedules(values, more == b"1", stretch, self._server.secrecy)
        return now_us, found, read_bytes


def _schedules(values: list[bytes], more: bool, stretch: Span, secrecy: Secrecy) -> Found[Schedule]:
    """A reply, cut where the stretch ends."""
    entries: list[tuple[Place, Schedule]] = []
    place = stretch.after
    for name, score, packed, outcome, said in zip(*[iter(values)] * _FIELDS_PER_ROW, strict=True):
        place = Place(int(float(score)), WAITING, name.decode())
        if stretch.past_end(place.ms):
            return Found(entries, None)
        if packed:
            schedule_id = ids.schedule_id(place.tie)
            letter = of_a_list(secrecy, schedule_id, packed, outcome, said=said or None)
            if letter is not None:
                entries.append((place, letter))
    return Found(entries, place if more else None)
