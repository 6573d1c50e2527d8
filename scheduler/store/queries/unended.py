"""The list of schedules that have not ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from operator import itemgetter

from scheduler import ids
from scheduler.models import Schedule, Status
from scheduler.store import keys
from scheduler.store.queries.held_by import Holders
from scheduler.store.queries.listing import ByReference, Member, SchedulePage, Selection, place_of
from scheduler.store.queries.members import read_members
from scheduler.store.queries.reading import CHUNK
from scheduler.store.queries.referred import read_referred
from scheduler.store.queries.timeline import Found, Span
from scheduler.store.scans import Scan, Scans
from scheduler.store.server import Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.stored import FIELDS

# Of a schedule that waits for its first attempt; the outcome, because it may have ended since.
_FIELDS_UNTRIED = FIELDS[:2]


class Unended(ByReference):
    """Schedules that have not ended, in the order of when they are due (triggerAt, or the next
    attempt): waiting ones and, among them, those that a worker holds."""

    _index = keys.REFERENCES
    _statuses = frozenset({Status.SCHEDULED})  # it may have ended since

    def __init__(self, server: Server, clock: StoreClock, scans: Scans, holders: Holders) -> None:
        super().__init__(server, scans)
        self._clock = clock
        self.holders = holders

    async def page(
        self, account_id: str, selected: Selection, *, descending: bool = False
    ) -> SchedulePage:
        """With `held` it may be short, or empty, before the end."""
        if selected.held:  # what is to come is not
            to_ms = self._clock.now_ms() + 1
            to_ms = to_ms if selected.to_ms is None else min(selected.to_ms, to_ms)
            selected = selected._replace(to_ms=to_ms)
        return await super().page(account_id, selected, descending=descending)

    async def _sifted(
        self, account_id: str, page: SchedulePage, selected: Selection, scan: Scan
    ) -> SchedulePage:
        if selected.held is None:
            return page
        told = await self.holders.told(account_id, [*page.schedules, *page.left])
        scan.add(len(told), 0, 0)
        kept = [(each.held_by is not None) is selected.held for each in told]
        both = list(compress(told, kept))
        count = sum(kept[: len(page.schedules)])
        return page._replace(schedules=both[:count], left=both[count:])

    async def few(
        self,
        account_id: str,
        reference: str,
        stretch: Span,
        wanted: Callable[[Schedule], bool],
        scan: Scan,
    ) -> Found[Schedule] | None:
        """All wanted ones of a reference, or of all that begin so, in the order of a stretch; None
        if those are too many to read at once. Adds to the scan. Read-only."""
        base = keys.account(account_id)
        index = base + self._index
        members = await read_referred(self._server, index, reference, None, CHUNK + 1, down=False)
        if not members:
            return Found([], None)
        if len(members) > CHUNK:
            return None
        some, _ = await self._read_members(base, members, scan)
        if len(some) < len(members):
            return None
        places = [(place_of(each), each) for each in some if each is not None and wanted(each)]
        found = [each for each in places if stretch.has(each[0])]
        return Found(sorted(found, key=itemgetter(0), reverse=stretch.down), None)

    async def _members(
        self, base: str, stretch: Span, most: int, lane: str | None
    ) -> tuple[Found[Member], bool, Sequence[str]]:
        """Of some sets, merged up to where all were read. Held schedules are not by lane."""
        waiting = (keys.WAITING, keys.LANED) if lane is None else (keys.LANE_QUEUE + lane,)
        names = (*waiting, keys.HELD)
        (*found, held), kind = await read_members(self._server, base, names, stretch, most)
        # In the sets of those that wait, one that a worker holds stands at its lease's end, which
        # is no whole millisecond: it is shown where it stands in `held`.
        members = [member for each in found for member in each.found]
        places = {place: False for place, score in members if score == place.ms}
        places |= dict.fromkeys((place for place, _ in held.found), True)
        stop = stretch.nearest(each.reached for each in (*found, held))
        shown = [each for each in places.items() if stop is None or not stretch.past(each[0], stop)]
        shown.sort(reverse=stretch.down)
        if len(shown) > most:
            stop = shown[most - 1][0]
        # Each value that is read costs: only those that were tried before have more than these.
        fields = FIELDS if kind.tried else _FIELDS_UNTRIED
        return (
            Found([(at, (ids.schedule_id(at.tie), held)) for at, held in shown[:most]], stop),
            kind.unended_light,
            fields,
        )
