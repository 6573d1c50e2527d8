"""Jumps to a page, a request, a recurring schedule, a lane, a host or an account by a few letters
of it, and pauses, resumes or runs it: a dialog on every page, and a page of its own."""

from __future__ import annotations

from typing import NamedTuple

from litestar import get

from api.dashboard.answer import Raw
from api.dashboard.operators.accounts import found_accounts
from api.dashboard.operators.impersonation import address_of
from api.dashboard.recurring.texts import name_of
from api.dashboard.render import page
from api.dashboard.requests.filters import ADDRESS, Filter, schedule_named
from api.dashboard.requests.suggestions import hosts_of
from api.dashboard.viewer.session import ROOT, Viewer, asks_for_news, signed_in
from api.service import HttpRequest, service_of
from scheduler.callers import Role
from scheduler.errors import NotFound, TooManyScans, Unreadable
from scheduler.ids import is_recurring_id
from scheduler.lanes import is_lane
from scheduler.models import LogEntry, LogStatus
from scheduler.recurrence.recurring import Rule, RuleState
from scheduler.references import is_reference
from scheduler.store import Store
from scheduler.store.log.logs import LogQuery

# Of each kind; of less than so many letters too many requests have some.
_MOST = 5
_FEWEST_LETTERS = 3
_LONGEST = 200
_NO_REQUEST = (LogStatus.RETRYING, LogStatus.SKIPPED)
_FURTHER = {
    "/requests/new": "New request",
    "/recurring/new": "New recurring schedule",
    "/requests?status=failed": "Requests that failed",
    "/requests?status=scheduled": "Requests that wait",
    "/requests?status=scheduled&held=yes": "Requests that are held",
    "/requests?callback=failed": "Requests whose callback failed",
    "/account": "Account: pause or resume it",
    "/members": "Members: invite one",
    "/history": "History of this account",
    "/keys#signing": "Signing secrets",
}
# The role of those who may do what these are for.
_NEEDS = {
    "/requests/new": Role.ACT,
    "/recurring/new": Role.ACT,
    "/system/hold": Role.ACT,
    "/keys#signing": Role.OWN,
}
_OPERATORS_FURTHER = {"/system/hold": "Hold all workers", "/system/audit": "Audit"}
_VERBS = ("pause", "resume", "run")
# Words beside a verb or a name that are left out.
_SMALL = frozenset(("go", "to", "open", "now", "the", "lane", "rule", "recurring", "schedule"))
# What a rule may be to be paused or resumed; it may be run in any state.
_PAUSABLE = (RuleState.ACTIVE, RuleState.BLOCKED)
_RESUMABLE = (RuleState.PAUSED, RuleState.BLOCKED)


class Place(NamedTuple):
    """`entry` is of a request. Of an act, `address` is where its form goes, and `words` stand
    before the `name`."""

    kind: str
    address: str
    words: str
    entry: LogEntry | None = None
    name: str = ""


class Found(NamedTuple):
    """`wait_ms`: the account searches too much; lanes and requests were not all looked for."""

    places: list[Place]
    wait_ms: int = 0


class _Asked(NamedTuple):
    """The words of the box: a verb, if there is one, and the name beside it."""

    verb: str
    name: str


def asked(text: str) -> _Asked:
    """`pause customer-17`, `customer-17 pause` and `pau lane customer-17` are the same. Pure."""
    words = text.split()
    verb, rest = "", words
    if len(words) > 1:
        for word in words:
            found = [each for each in _VERBS if len(word) > 2 and each.startswith(word.lower())]
            if found:
                verb, rest = found[0], [each for each in words if each is not word]
                break
        names = [each for each in rest if each.lower() not in _SMALL]
        rest = names or rest
    elif text.lower() in _VERBS:
        verb, rest = text.lower(), []
    return _Asked(verb, " ".join(rest))


@get("/jump")
async def jump_page(request: HttpRequest) -> Raw:
    """A page, or for the dialog just its results."""
    viewer = await signed_in(request)
    letters = request.query_params.get("q", "").strip()[:_LONGEST]
    found = await _found(request, viewer, letters)
    now_ms = service_of(request).store.clock.now_ms()
    name = "jump_found.html" if asks_for_news(request) else "jump.html"
    return page(request, name, letters=letters, found=found, now_ms=now_ms)


async def _found(request: HttpRequest, viewer: Viewer, wanted: str) -> Found:
    store, account_id = service_of(request).store, viewer.account_id
    (verb, name), places = asked(wanted), _pages(viewer, wanted)
    if schedule_id := schedule_named(name):
        return Found([Place("request", f"{ADDRESS}/{schedule_id}", schedule_id)])
    try:
        if verb and viewer.may("act"):
            return Found(await _acts(store, account_id, verb, name) + places)
        places += await _recurring(store, account_id, name)
        if viewer.account.operator and name:
            places += await _accounts(request, name)
        places += await _lanes(store, account_id, name)
        places += await _hosts(request, account_id, name)
        places += await _requests(store, account_id, name)
    except TooManyScans as refusal:
        return Found(places, refusal.wait_ms)
    return Found(places)


def _pages(viewer: Viewer, wanted: str) -> list[Place]:
    """Those that have each word; those that begin so come first."""
    menu = viewer.menu
    verb, name = asked(wanted.lower())
    # With a verb as it was typed, "pause account"; else without small words, "go to lanes".
    parts = wanted.lower().split() if verb else name.split()
    if not parts:
        return [Place("page", ROOT + path, words) for path, words in menu.items()]
    further = _FURTHER | (_OPERATORS_FURTHER if viewer.account.operator else {})
    found = [
        (path, words)
        for path, words in (menu | further).items()
        if path in menu or viewer.may(_NEEDS.get(path, Role.READ))
        if all(part in words.lower() for part in parts)
    ]
    found.sort(key=lambda each: not each[1].lower().startswith(name))
    return [Place("page", ROOT + path, words) for path, words in found]


async def _acts(store: Store, account_id: str, verb: str, name: str) -> list[Place]:
    """Acts on the lanes and rules whose names begin so, and which the verb fits."""
    lanes, rules = list[str](), list[Rule]()
    if name and is_lane(name):  # names of rules are like those of lanes
        lanes = await store.lanes.beginning(account_id, name, _MOST)
        named = await store.recurring.beginning(account_id, name, _MOST)
        ids = [found for _, found in named]
        ids += [name] if is_recurring_id(name) else []
        rules = [each for each in [await _rule(store, account_id, one) for one in ids] if each]
    elif not name and verb == "resume":
        lanes = [lane for lane, _ in (await store.lanes.paused(account_id, _MOST)).some]
    places = list[Place]()
    if verb != "run":
        for each in lanes:
            try:
                paused = (await store.lanes.read(account_id, each)).settings.pause is not None
            except Unreadable:
                continue
            if paused == (verb == "resume"):
                address = f"{ROOT}/lanes/{each}/{verb}"
                places.append(Place("act", address, f"{verb.capitalize()} lane", name=each))
    states = {"pause": _PAUSABLE, "resume": _RESUMABLE, "run": tuple(RuleState)}[verb]
    words = {"pause": "Pause", "resume": "Resume", "run": "Run now:"}[verb]
    places += [
        Place("act", f"{ROOT}/recurring/{rule.recurring_id}/{verb}", words, name=name_of(rule))
        for rule in rules
        if rule.state in states
    ]
    return places


async def _rule(store: Store, account_id: str, recurring_id: str) -> Rule | None:
    try:
        return await store.recurring.read(account_id, recurring_id)
    except (NotFound, Unreadable):
        return None


async def _recurring(store: Store, account_id: str, wanted: str) -> list[Place]:
    """Those whose names begin so, or the one with this id."""
    if not is_lane(wanted):  # their names are like those of lanes
        return []
    found = await store.recurring.beginning(account_id, wanted, _MOST)
    if is_recurring_id(wanted) and (rule := await _rule(store, account_id, wanted)):
        found.append((name_of(rule), wanted))
    return [Place("recurring", f"{ROOT}/recurring/{each}", name) for name, each in found]


async def _accounts(request: HttpRequest, wanted: str) -> list[Place]:
    """Those whose names begin so come first."""
    found, _ = await found_accounts(request, wanted)
    found.sort(key=lambda each: not each.name.lower().startswith(wanted.lower()))
    return [Place("account", address_of(each.account_id), each.name) for each in found[:_MOST]]


async def _lanes(store: Store, account_id: str, wanted: str) -> list[Place]:
    if not is_lane(wanted):
        return []
    names = await store.lanes.beginning(account_id, wanted, _MOST)
    return [Place("lane", f"{ROOT}/lanes/{name}", name) for name in names]


async def _hosts(request: HttpRequest, account_id: str, wanted: str) -> list[Place]:
    """Hosts, or a later part of their names, that begin so."""
    if len(wanted) < _FEWEST_LETTERS:
        return []
    part, hosts = f".{wanted.lower()}", await hosts_of(request, account_id)
    found = [host for host in hosts if part in f".{host}"]
    return [Place("host", Filter(host=host).address(), host) for host in found[:_MOST]]


async def _requests(store: Store, account_id: str, wanted: str) -> list[Place]:
    """First those of a reference, and waiting ones whose reference begins so, which indexes find
    among any number; then those with it in URL or reference, among as many as one page of a list
    looks at. The list searches all of them."""
    if len(wanted) < _FEWEST_LETTERS:
        return []
    some: list[LogEntry] = []
    if is_reference(wanted):
        coming = LogQuery((LogStatus.SCHEDULED,), limit=_MOST, reference=f"{wanted}*")
        for query in (LogQuery(limit=_MOST, reference=wanted), coming):
            some += (await store.logs.page(account_id, query)).entries
    if len(some) < _MOST:
        query = LogQuery(limit=_MOST, text=wanted)
        some += (await store.logs.page(account_id, query)).entries
    found = {each.schedule_id: each for each in some if each.status not in _NO_REQUEST}
    places = [Place("request", _address(each), each.url, each) for each in found.values()][:_MOST]
    return [*places, Place("search", Filter(q=wanted).address(), "Requests with this in their URL")]


def _address(entry: LogEntry) -> str:
    ended = entry.status is not LogStatus.SCHEDULED
    return f"{ADDRESS}/{entry.schedule_id}" + (f"?at={entry.at_ms}" if ended else "")


HANDLERS = [jump_page]
