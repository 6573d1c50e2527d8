"""Bulk actions on the pages: how far each is and how its replays ended, until somebody closes it;
and the list of those replays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from litestar import get

from api.dashboard.answer import Raw, html
from api.dashboard.charts import WINDOWS
from api.dashboard.formats import number
from api.dashboard.render import page
from api.dashboard.requests.entries import Entry, entry_of
from api.dashboard.requests.filters import ADDRESS, PER_PAGE, Filter
from api.dashboard.viewer.session import NotSignedIn, Viewer, asked_for, signed_in
from api.service import HttpRequest, service_of
from scheduler.errors import FieldError, InvalidRequest
from scheduler.models import LogStatus
from scheduler.store import Store
from scheduler.store.bulk.records import OF_A_RULE, Asked, Bulk, Group, Kind, State
from scheduler.store.queries.reading import Stored, read_by_id
from scheduler.times import parse_iso8601

_SHOWN_MS = 86_400_000
# One page of replays looks at so many groups at most.
_MOST_GROUPS = 10

ASKS = {
    Kind.CANCEL: "Cancel",
    Kind.AGAIN: "Run again",
    Kind.MOVE: "Reschedule",
    Kind.LANE: "Move to another lane",
    Kind.CALLBACK: "Send callbacks again",
}
_DONE = {
    Kind.CANCEL: "cancelled, their credits came back",
    Kind.AGAIN: "run again",
    Kind.MOVE: "rescheduled",
    Kind.LANE: "moved",
    Kind.CALLBACK: "reported again",
}
_ENDINGS = ("completed", "failed", "cancelled or no longer kept")


class Strip(NamedTuple):
    """One bulk action. `of` is the filter in words, but for its period; `share` of it is done,
    where that is known."""

    bulk: Bulk
    title: str
    of: str
    words: str
    share: float | None

    @property
    def action_id(self) -> str:
        return self.bulk.action_id

    @property
    def period(self) -> list[tuple[str, int]]:
        """The moments (ms) that bound it, each with its word."""
        pairs = self.bulk.asked.pairs
        return [(word, parse_iso8601(pairs[word])) for word in ("from", "to") if word in pairs]

    @property
    def is_under_way(self) -> bool:
        return self.bulk.state.is_under_way

    @property
    def replays(self) -> str | None:
        """The address of the list of its replays."""
        return f"{ADDRESS}?bulk={self.action_id}" if self.bulk.progress.made else None

    @property
    def failed(self) -> str | None:
        """Of those that failed, if some did and others did not."""
        failed, made = self.bulk.progress.ended[1], self.bulk.progress.made
        return f"{self.replays}&status=failed" if 0 < failed < made else None


async def bulks_of(request: HttpRequest, viewer: Viewer) -> list[Strip]:
    """Those that the account's pages show: for a day after they were asked for, and while they have
    something left to do."""
    store = service_of(request).store
    found = await store.bulks.all(viewer.account_id)
    since_ms = store.clock.now_ms() - _SHOWN_MS
    shown = [each for each in found if each.is_due or each.asked.at_ms >= since_ms]
    return [strip_of(each) for each in shown if not each.is_closed]


def in_a_line(strips: Sequence[Strip]) -> str:
    """`2 bulk actions · 43 %`: those under way, and how much of them is done where that is known;
    else how many ended."""
    running = [each for each in strips if each.is_under_way]
    count = len(running) or len(strips)
    words = f"{count} bulk action{'' if count == 1 else 's'}"
    if not running:
        return f"{words} ended"
    known = [
        (each.share, each.bulk.asked.number or 0) for each in running if each.share is not None
    ]
    if not known:
        return words
    done = sum(share * number for share, number in known) / sum(number for _, number in known)
    return f"{words} · {100 * done:.0f} %"


@get("/bulks")
async def strips(request: HttpRequest) -> Raw:
    """The news of them for a page whose list stands still."""
    try:
        viewer = await signed_in(request)
    except NotSignedIn:  # the next page says so
        return html("", 204)
    shown = await bulks_of(request, viewer)
    return page(
        request,
        "requests/drawer.html",
        bulks=shown,
        bulk_line=in_a_line(shown),
        back=asked_for(request),
    )


def strip_of(bulk: Bulk) -> Strip:
    asked, progress = bulk.asked, bulk.progress
    acted = progress.done + sum(progress.refused.values())
    share = acted / asked.number if asked.number and bulk.state.is_under_way else None
    return Strip(bulk, title_of(asked), _filter_words(asked.pairs), _words(bulk, acted), share)


def title_of(asked: Asked) -> str:
    if asked.kind is not Kind.LANE:
        return ASKS[asked.kind]
    return f"Move to lane {asked.lane}" if asked.lane else "Move out of lanes"


def left_to_rules(count: int) -> str:
    if count == 1:
        return "1 belongs to a recurring schedule: pause that instead."
    return f"{number(count)} belong to recurring schedules: pause those instead."


def _words(bulk: Bulk, acted: int) -> str:
    asked, progress, state = bulk.asked, bulk.progress, bulk.state
    words = f"{number(progress.done)} {_DONE[asked.kind]}"
    if state.is_under_way and asked.number is not None:
        words += f"; {number(asked.number - acted)} to go"
    if progress.made:
        counts = [*zip(progress.ended, _ENDINGS, strict=True), (progress.open, "not ended yet")]
        words += ": " + ", ".join(f"{number(count)} {name}" for count, name in counts if count)
    words += "."
    for reason, count in sorted(progress.refused.items(), key=lambda each: -each[1]):
        if reason == OF_A_RULE:
            words += f" {left_to_rules(count)}"
            continue
        words += f" {number(count)} not: {reason.rstrip('.').lower()}."
    match state:
        case State.RUNNING if progress.waits:
            words += f" It waits and goes on by itself: {progress.waits.lower()}."
        case State.STOPPING:
            words += " It is being stopped."
        case State.STOPPED:
            words += " It was stopped. Requests that are not counted here did not change."
        case State.FAILED:
            words += f" {progress.why}. Requests that are not counted here did not change."
    return words


def _filter_words(pairs: dict[str, str]) -> str:
    """Such as `failed, not replayed, host example.com`."""
    words = [pairs["status"]] if "status" in pairs else []
    words += ["not replayed"] * ("replayed" in pairs)
    named = ("host", "reference", "label", "lane", "recurring", "answer", "callback")
    words += [f"{name} {pairs[name]}" for name in named if name in pairs]
    words += [f"with {pairs[name]}" for name in ("q",) if name in pairs]
    words += [WINDOWS[name].words for name in (pairs.get("when", ""),) if name in WINDOWS]
    return ", ".join(words)


async def replays_of(
    store: Store, account_id: str, wanted: Filter
) -> tuple[Sequence[Entry], str | None]:
    """A page of the replays of a bulk action as they stand, in the order in which they were made,
    and the cursor of the next page. The period is not looked at. Raises InvalidRequest for a bad
    cursor."""
    place, skip = _place_of(wanted.cursor)
    query = wanted.query(store.clock.now_ms())
    found = list[Entry]()
    for _ in range(_MOST_GROUPS):
        groups = await store.bulks.groups(account_id, wanted.bulk, place, 1)
        if not groups:
            return found, None
        if not _may_have(groups[0], wanted.status):
            place, skip = place + 1, 0
            continue
        names = groups[0].schedule_ids
        places = list(range(skip, len(names)))
        if wanted.status is not None:  # a few bytes of each, before whole schedules are read
            stand = await store.bulks.statuses(account_id, names)
            places = [n for n in places if stand[n] == wanted.status.value]
        left = iter(places)
        async for chunk in read_by_id(store.server, account_id, [names[n] for n in places]):
            for each, n in zip(chunk, left, strict=False):  # takes no place too many
                entry = entry_of(each.schedule) if isinstance(each, Stored) else None
                if entry is not None and query.wants_entry(entry):
                    found.append(entry)
                if len(found) == PER_PAGE:
                    return found, f"{place}.{n + 1}"
        place, skip = place + 1, 0
    return found, f"{place}.0"


def _may_have(group: Group, status: LogStatus | None) -> bool:
    """Of a group that has ended it is known how many have this status."""
    if group.is_open or status is None:
        return True
    known = {LogStatus.COMPLETED: group.ended[0], LogStatus.FAILED: group.ended[1]}
    return known.get(status, group.ended[2]) > 0


def _place_of(cursor: str | None) -> tuple[int, int]:
    parts = (cursor or "0.0").split(".")
    if len(parts) != 2 or not all(each.isascii() and each.isdigit() for each in parts):
        raise InvalidRequest([FieldError("cursor", "not a cursor from nextCursor")])
    if max(map(len, parts)) > 6:
        raise InvalidRequest([FieldError("cursor", "not a cursor from nextCursor")])
    return int(parts[0]), int(parts[1])


HANDLERS = [strips]
