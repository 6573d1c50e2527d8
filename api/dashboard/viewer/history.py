"""The history of an account, for its members: who did what, the latest first."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlencode

from litestar import get

from api.dashboard.answer import Raw
from api.dashboard.operators.audit import happened
from api.dashboard.render import page
from api.dashboard.shared import shared_by
from api.dashboard.viewer.session import ROOT, asks_for_news, signed_in
from api.service import HttpRequest, service_of
from scheduler.callers import OPERATOR
from scheduler.events import MOST_CHARACTERS, Event, Kind
from scheduler.store import keys

ADDRESS = f"{ROOT}/history"
_PER_PAGE = 50
_GOOD_FOR_S = 1.0
_LONGEST_TEXT = 254
_BEGINNINGS = {
    "pauses": ("pauses", ("lane-paused", "lane-resumed", "lane-calm", "account-")),
    "bulk": ("bulk actions", ("bulk",)),
    "lanes": ("limits of lanes", ("lane-set", "lane-cleared")),
    "recurring": ("recurring schedules", ("rule-",)),
    "secrets": ("keys, secrets and the callback", ("api-key", "secrets-", "callback-")),
    "members": ("members and sign-in", ("member-", "password-", "signed-")),
}
# What the select offers, and the kinds of events that each means.
GROUPS = {
    name: (words, frozenset(each for each in Kind if each.startswith(beginnings)))
    for name, (words, beginnings) in _BEGINNINGS.items()
}
_BY_OPERATORS = {Kind.ACCOUNT_SUSPENDED, Kind.ACCOUNT_REINSTATED}


class Wanted(NamedTuple):
    """`kind` names a group, `who` is exactly a person; `before` is the id of an event."""

    kind: str = ""
    who: str = ""
    before: str = ""

    def meets(self, event: Event) -> bool:
        if self.kind and event.kind not in GROUPS[self.kind][1]:
            return False
        return not self.who or who_of(event) == self.who

    def address(self, before: str = "") -> str:
        given = {"kind": self.kind, "who": self.who, "before": before}
        query = urlencode({name: value for name, value in given.items() if value})
        return ADDRESS + (f"?{query}" if query else "")


@get("/history")
async def history_page(request: HttpRequest) -> Raw:
    """The page, or its news."""
    viewer = await signed_in(request)
    store, given = service_of(request).store, request.query_params
    kind = given.get("kind", "")
    fault = "" if not kind or kind in GROUPS else "There is no such kind of event."
    who = given.get("who", "").strip()[:_LONGEST_TEXT]
    wanted = Wanted("" if fault else kind, who, given.get("before", "")[:40])
    all_of_them = await shared_by(request).get(
        ("history", viewer.account_id),
        _GOOD_FOR_S,
        lambda: store.events.newest(viewer.account_id, most=keys.MOST_OWN_EVENTS),
    )
    found = [each for each in all_of_them if wanted.meets(each) and not fault]
    if wanted.before:
        found = [each for each in found if _place(each.event_id) < _place(wanted.before)]
    shown = found[:_PER_PAGE]
    return page(
        request,
        "viewer/history_live.html" if asks_for_news(request) else "viewer/history.html",
        status=400 if fault else 200,
        wanted=wanted,
        fault=fault,
        events=shown,
        next=shown[-1].event_id if len(found) > _PER_PAGE else "",
        people=sorted({each for each in map(who_of, all_of_them) if each}),
        groups=GROUPS,
        happened=happened,
        who_of=who_of,
        most=keys.MOST_OWN_EVENTS,
        now_ms=store.clock.now_ms(),
    )


def who_of(event: Event) -> str:
    """No operator is named here. Streams cut some long names: so a person has one name."""
    return OPERATOR if event.kind in _BY_OPERATORS else event.who[:MOST_CHARACTERS]


def _place(event_id: str) -> tuple[int, int]:
    """Of an event in the stream; one that is none comes before all."""
    ms, _, sequence = event_id.partition("-")
    if not (ms.isdecimal() and sequence.isdecimal()):
        return 0, 0
    return int(ms), int(sequence)


HANDLERS = [history_page]
