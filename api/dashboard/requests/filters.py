"""The filter of a list of requests, to and from its address. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlencode

from api.dashboard.charts import DAY_MS, FIRST, WINDOWS, fitted, stretch_of
from api.dashboard.viewer.session import ROOT
from api.dashboard.zones import Zone, zone_named
from api.schema.query import EXECUTIONS, OF_LOGS
from scheduler.callbacks import CallbackStatus
from scheduler.durations import format_duration, parse_duration
from scheduler.filters import FILTERS
from scheduler.ids import is_schedule_id
from scheduler.models import LogStatus
from scheduler.store.log.logs import LogQuery
from scheduler.store.log.overview import ChartRange
from scheduler.times import format_iso8601

ADDRESS = f"{ROOT}/requests"
PER_PAGE = 50
_LONGEST_TEXT = 2000
_STATUSES, _CALLBACKS = frozenset(LogStatus), frozenset(CallbackStatus)
# Those of which it is known how late they were.
_SENT = (LogStatus.COMPLETED, LogStatus.FAILED, LogStatus.RETRYING)
_LONGEST_MS = 400 * DAY_MS
_BULK = re.compile(r"[\w-]{16}", re.ASCII)
# Those that the box takes as the API does, by their names in an address.
NAMED = {row.word: row for row in FILTERS if row.example}
_READ = {each.name: each.read for each in OF_LOGS}
_NONE_NAMED: Mapping[str, str] = MappingProxyType({})
# What the search box takes, by its name in an address, and an example or what it is.
NAMES = {
    "status": "completed, failed, scheduled …",
    **{word: row.example for word, row in NAMED.items()},
    "host": "api.example.com",
    "answer": "503, or an error",
    "late": "10s: at least so late",
    "callback": "failed, pending or delivered",
    "held": "yes: due, and kept from starting",
    "replayed": "no: failed, and not run again",
    "from": "2026-11-28T10:00",
    "to": "2026-11-28T12:00",
    "when": "1h, today, yesterday …",
    "bulk": "the id of a bulk action",
    "sort": "late: the latest first",
}
# Filters that narrow one status, and have one value.
_NARROWING = {
    "held": ("yes", LogStatus.SCHEDULED),
    "replayed": ("no", LogStatus.FAILED),
}
_TOKEN = re.compile(r'(?:(?P<name>[A-Za-z]+):)?(?:"(?P<quoted>[^"]*)"(?!\S)|(?P<plain>\S*))')
# After a name that is no filter's: a port, or what follows the scheme of a URL.
_OF_URL = re.compile(r"\d|//")
_ID = re.compile(r"(?:inv|msg)_")


class Filter(NamedTuple):
    """`named` has the filters that the API has, too; `q` is a part of the URL, `host` its whole
    host; `answer` a whole status code or error message; `bulk` the id of the bulk action whose
    replay it is; `when` names a window, else `from_ms` and `to_ms` may bound the list.
    `replayable`: of those that failed, only those that can be run again and were not. `callback`:
    only the ends of requests whose callback stands so. `late_ms`: of those sent so late or later,
    or overdue for so long; `by_lateness`: the latest first, of those that were sent. `held`: of
    those that wait, only due ones that something keeps from starting. `back`: the page before the
    cursor."""

    status: LogStatus | None = None
    q: str = ""
    host: str = ""
    named: Mapping[str, str] = _NONE_NAMED
    bulk: str = ""
    answer: str = ""
    replayable: bool = False
    callback: CallbackStatus | None = None
    late_ms: int | None = None
    by_lateness: bool = False
    held: bool = False
    when: str = ""
    from_ms: int | None = None
    to_ms: int | None = None
    cursor: str | None = None
    back: bool = False

    def chips(self, zone: Zone) -> dict[str, str]:
        """The parameters as the search box takes them, times as the viewer's clock has them."""
        found = self.pairs()
        for name, at_ms in (("from", self.from_ms), ("to", self.to_ms)):
            if name in found and at_ms is not None:
                found[name] = zone.text(at_ms).removesuffix(".000").removesuffix(":00")
        return found

    @property
    def is_search(self) -> bool:
        if self.replayable or self.callback or self.held:
            return True
        if self.late_ms is not None or self.by_lateness:
            return True
        return any((self.q, self.host, self.named, self.answer, self.bulk))

    @property
    def is_any(self) -> bool:
        return bool(self.status or self.is_search or self.when or self.has_times)

    @property
    def has_times(self) -> bool:
        return self.from_ms is not None or self.to_ms is not None

    @property
    def late(self) -> str:
        return "" if self.late_ms is None else format_duration(self.late_ms)

    def pairs(self) -> dict[str, str]:
        """The parameters of an address, without a place in the list."""
        found = {
            "status": self.status.value if self.status else "",
            "q": self.q,
            "host": self.host,
            **self.named,
            "bulk": self.bulk,
            "answer": self.answer,
            "replayed": "no" if self.replayable else "",
            "callback": self.callback or "",
            "late": self.late,
            "sort": "late" if self.by_lateness else "",
            "held": "yes" if self.held else "",
            "when": self.when,
            "from": format_iso8601(self.from_ms) if self.from_ms is not None else "",
            "to": format_iso8601(self.to_ms) if self.to_ms is not None else "",
        }
        if self.when:
            found["from"] = found["to"] = ""
        return {name: value for name, value in found.items() if value}

    def address(self, path: str = "", **changes: str | None) -> str:
        """The page of the same list, but for some changes; None leaves one out."""
        pairs = {name: value for name, value in (self.pairs() | changes).items() if value}
        return ADDRESS + path + (f"?{urlencode(pairs)}" if pairs else "")

    def stretch(self, now_ms: int, zone: Zone) -> ChartRange:
        if self.when or not self.has_times:
            return stretch_of(self.when or FIRST, now_ms, zone)
        to_ms = self.to_ms if self.to_ms is not None else max(now_ms, (self.from_ms or 0) + DAY_MS)
        from_ms = self.from_ms if self.from_ms is not None else to_ms - DAY_MS
        return fitted(from_ms, to_ms)

    def is_around_now(self, now_ms: int) -> bool:
        """Whether the list has the next and the last schedules, with this moment in between."""
        begins = self.from_ms is None or self.from_ms <= now_ms
        ends = self.to_ms is not None and self.to_ms <= now_ms
        narrowed = self.status or self.cursor or self.answer or self.late_ms is not None
        return begins and not ends and not (narrowed or self.by_lateness or self.callback)

    def query(self, now_ms: int) -> LogQuery:
        """The page that the address asks for: the latest first, of coming schedules the soonest.
        One that is read backwards is upside down."""
        coming = self.from_ms is not None and self.from_ms > now_ms
        descends = not coming and self.status is not LogStatus.SCHEDULED
        statuses: tuple[LogStatus, ...] = (self.status,) if self.status else ()
        to_ms = self.to_ms
        # A request that is not due yet is neither late nor held.
        if self.late_ms is not None or self.by_lateness or self.held:
            to_ms = now_ms + 1 if to_ms is None else min(to_ms, now_ms + 1)
        if self.callback:
            statuses = statuses or EXECUTIONS
        if self.by_lateness:
            statuses = statuses or _SENT
        named: dict[str, Any] = {NAMED[word].option: text for word, text in self.named.items()}
        return LogQuery(
            statuses=statuses,
            from_ms=self.from_ms,
            to_ms=to_ms,
            limit=PER_PAGE,
            descending=descends != self.back,
            cursor=self.cursor,
            url_part=self.q,
            host=self.host,
            answer=self.answer,
            replayable=self.replayable,
            held=self.held,
            callback=self.callback,
            # A sort looks through the entries as a search does.
            late_ms=self.late_ms or 0 if self.by_lateness else self.late_ms,
            **named,
        )


def read_filter(given: Mapping[str, str], zone: Zone, now_ms: int) -> tuple[Filter, dict[str, str]]:
    """The filter of an address, without unreadable parameters, and their faults by name."""
    texts = {name: value.strip()[:_LONGEST_TEXT] for name, value in given.items()}
    faults: dict[str, str] = {}
    when = texts.get("when", "")
    if when and when not in WINDOWS:
        when, faults["when"] = "", "There is no such period."
    status = texts.get("status", "")
    if status and status not in _STATUSES:
        status, faults["status"] = "", "There is no such status."
    callback = texts.get("callback", "")
    if callback and callback not in _CALLBACKS:
        callback, faults["callback"] = "", "Choose pending, delivered or failed."
    named: dict[str, str] = {}
    for word, row in NAMED.items():
        try:
            if text := texts.get(word, ""):
                named[word] = _READ[row.name](text)
        except ValueError as error:
            faults[word] = str(error)
    late_ms = None
    if late := texts.get("late", "").replace(" ", ""):
        try:
            late_ms = min(parse_duration(late), _LONGEST_MS)
        except ValueError as error:
            faults["late"] = f"It is {error}."
    bulk = texts.get("bulk", "")
    if bulk and _BULK.fullmatch(bulk) is None:
        bulk, faults["bulk"] = "", "No bulk action has such an id."
    from_ms, to_ms = _period(texts, when, zone, now_ms, faults)
    return Filter(
        status=LogStatus(status) if status else None,
        q=texts.get("q", ""),
        host=texts.get("host", ""),
        named=named,
        bulk=bulk,
        answer=texts.get("answer", ""),
        replayable=status == LogStatus.FAILED and texts.get("replayed") == "no",
        callback=CallbackStatus(callback) if callback else None,
        late_ms=late_ms,
        by_lateness=texts.get("sort") == "late" and (not status or status in _SENT),
        held=status == LogStatus.SCHEDULED and texts.get("held") == "yes",
        when=when,
        from_ms=from_ms,
        to_ms=to_ms,
        cursor=texts.get("cursor") or None,
        back=bool(texts.get("back")),
    ), faults


def schedule_named(text: str) -> str | None:
    """The schedule whose id it is, or that of its invocation or of its QStash message."""
    found = _ID.sub("sch_", text, count=1)
    return found if is_schedule_id(found) else None


def read_typed(
    text: str, given: Mapping[str, str], zone: Zone, now_ms: int
) -> tuple[Filter, dict[str, str]]:
    """The filter of an address with the tokens that were typed: `status:failed`, `answer:"Not
    Found"`, and a word without a name, which is a part of the URL. Faults are by token; with one,
    nothing of the text counts."""
    typed, faults = _tokens(text[:_LONGEST_TEXT])
    narrowing = _narrowed(typed, faults)
    merged = {name: value for name, value in given.items() if name not in ("cursor", "back")}
    if "when" in typed:
        merged |= {"from": "", "to": ""}
    elif "from" in typed or "to" in typed:
        merged["when"] = ""
    merged |= {name: value for name, (value, _) in typed.items()} | narrowing
    wanted, of_address = read_filter(merged, zone, now_ms)
    for name, fault in of_address.items():
        at = name if name in typed else "to"  # which may be before the `from` of the address
        if at in typed:
            faults[typed[at][1]] = fault
    if "when" in typed and (bound := typed.get("from") or typed.get("to")):
        faults[bound[1]] = "Give either when:, or from: and to:; not both."
    if "sort" in typed and not wanted.by_lateness:
        faults[typed["sort"][1]] = "Write sort:late; it sorts only requests that were sent."
    if faults:
        return read_filter(given, zone, now_ms)[0], faults
    return wanted, {}


def _tokens(text: str) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """By name its value and the token as typed; a part of the URL is `q`."""
    typed: dict[str, tuple[str, str]] = {}
    faults: dict[str, str] = {}
    for match in _TOKEN.finditer(text):
        token, name = match[0], (match["name"] or "").lower()
        value = match["plain"] if match["quoted"] is None else match["quoted"].strip()
        if not token:
            continue
        if match["quoted"] is None and name not in NAMES:
            if name and value and not _OF_URL.match(value):
                faults[token] = "There is no such filter. In quotes, it is a part of the URL."
            name, value = "", token
        if value.startswith('"'):
            faults[token] = "A quote is not closed, or something follows it."
        elif not value:
            faults[token] = f"Say which: {NAMES.get(name, 'a part of the URL')}."
        elif (name or "q") in typed:
            faults[token] = (
                f"There is a {name}: filter already."
                if name
                else "A URL has no spaces: search for one part of it at a time."
            )
        elif not faults.get(token):
            typed[name or "q"] = (value, token)
    return typed, faults


def _narrowed(typed: Mapping[str, tuple[str, str]], faults: dict[str, str]) -> dict[str, str]:
    """The status that the typed filters are of, if one of them narrows it."""
    of = typed["status"][0] if "status" in typed else ""
    for name, (only, status) in _NARROWING.items():
        value, token = typed.get(name, (only, ""))
        if value != only:
            faults[token] = f"Write {name}:{only}."
        elif token and of not in ("", status):
            faults[token] = f"This filter is only for {status} requests."
        elif token:
            of = status
    return {"status": of} if of else {}


def _period(
    texts: Mapping[str, str], when: str, zone: Zone, now_ms: int, faults: dict[str, str]
) -> tuple[int | None, int | None]:
    """Times without a zone are of the one that the address names, else of the viewer's."""
    if when:
        stretch = stretch_of(when, now_ms, zone)
        return stretch.from_ms, stretch.to_ms
    zone = zone_named(texts.get("tz", "")) or zone
    times: dict[str, int | None] = {"from": None, "to": None}
    for name in times:
        text = texts.get(name, "")
        try:
            times[name] = max(zone.moment(text), 0) if text else None
        except (ValueError, OverflowError) as error:
            faults[name] = f"{str(error)[:1].upper()}{str(error)[1:]}."
    from_ms, to_ms = times["from"], times["to"]
    if from_ms is not None and to_ms is not None and from_ms > to_ms:
        faults["from"] = "It may not be after the end."
        return None, None
    return from_ms, to_ms
