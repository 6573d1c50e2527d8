"""What the search box offers while somebody types: names of filters, then their values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from litestar import get

from api.dashboard.answer import Raw
from api.dashboard.charts import WINDOWS
from api.dashboard.render import page
from api.dashboard.requests.filters import NAMES
from api.dashboard.shared import shared_by
from api.dashboard.viewer.session import signed_in
from api.service import HttpRequest, service_of
from scheduler.callbacks import CallbackStatus
from scheduler.errors import TooManyScans
from scheduler.lanes import is_lane
from scheduler.models import LogEntry, LogStatus
from scheduler.store.log.logs import LogQuery
from scheduler.target.targets import split_url

_MOST = 8
_LONGEST = 200
# Hosts and labels are those of so many requests: the newest, and the next that are due.
_SEEN, _SEEN_GOOD_FOR_S = 100, 30.0
_LAST = re.compile(r'(?:[A-Za-z]+:)?(?:"[^"]*|[^\s"]*)$')
_VALUES = {
    "status": [each.value for each in LogStatus],
    "callback": [each.value for each in CallbackStatus],
    "late": ["1s", "10s", "1m", "10m"],
    "held": ["yes"],
    "replayed": ["no"],
    "sort": ["late"],
    "when": list(WINDOWS),
}
# Only links have these filters.
_UNNAMED = ("bulk",)


class Suggestion(NamedTuple):
    """`token` takes the place of the last one that was typed; one that ends in a colon needs a
    value. `hint` says what it means."""

    token: str
    hint: str = ""


@get("/requests/suggest")
async def suggest(request: HttpRequest) -> Raw:
    viewer = await signed_in(request)
    last = _LAST.search(request.query_params.get("find", "")[-_LONGEST:])
    typed = last[0] if last else ""
    name, colon, begin = typed.partition(":")
    name, begin = name.lower(), begin.lstrip('"')
    if colon and name in NAMES:
        values = await _values(request, viewer.account_id, name, begin)
        found = [Suggestion(f"{name}:{_quoted(value)}") for value in _beginning(values, begin)]
        found = found or [Suggestion(f"{name}:", NAMES[name])]
    else:
        found = named(typed.lower())
    return page(request, "requests/suggestions.html", suggestions=found[:_MOST])


def named(begin: str) -> list[Suggestion]:
    """Names that begin so, and whole tokens whose value does."""
    found = [
        Suggestion(f"{name}:", hint)
        for name, hint in NAMES.items()
        if name.startswith(begin) and name not in _UNNAMED
    ]
    if begin:
        found += [
            Suggestion(f"{name}:{value}")
            for name, values in _VALUES.items()
            for value in _beginning(values, begin)
        ]
    return found


def _quoted(value: str) -> str:
    """As the box takes it: a label may have spaces."""
    return f'"{value}"' if " " in value else value


def _beginning(values: Iterable[str], begin: str) -> list[str]:
    return [each for each in values if each.lower().startswith(begin.lower())]


async def _values(request: HttpRequest, account_id: str, name: str, begin: str) -> list[str]:
    """None of a lane, host or label while the account searches too much: they can be typed."""
    store = service_of(request).store
    try:
        if name == "lane" and is_lane(begin):
            return await store.lanes.beginning(account_id, begin, _MOST)
        if name == "lane" and not begin:
            lanes = (await store.lanes.page(account_id, _MOST)).lanes
            return [each.lane for each in lanes]
        if name == "host":
            return await hosts_of(request, account_id)
        if name == "label":
            return await _most_used(request, account_id, "labels", lambda each: each.labels)
    except TooManyScans:
        return []
    return _VALUES.get(name, [])


async def hosts_of(request: HttpRequest, account_id: str) -> list[str]:
    """Those of the newest requests and the next, the most used first. Raises TooManyScans."""

    def host_of(entry: LogEntry) -> tuple[str, ...]:
        return (split_url(entry.url)[0].lower(),)

    return await _most_used(request, account_id, "hosts", host_of)


async def _most_used(
    request: HttpRequest, account_id: str, name: str, texts_of: Callable[[LogEntry], Sequence[str]]
) -> list[str]:
    """What the newest requests and the next have under a name. Raises as `hosts_of` does."""
    store = service_of(request).store

    async def read() -> list[str]:
        newest = LogQuery(limit=_SEEN, to_ms=store.clock.now_ms() + 1)
        coming = LogQuery((LogStatus.SCHEDULED,), limit=_SEEN, descending=False)
        pages = [await store.logs.page(account_id, each) for each in (newest, coming)]
        entries = chain.from_iterable(page.entries for page in pages)
        texts = Counter(chain.from_iterable(map(texts_of, entries)))
        return [text for text, _ in texts.most_common()]

    return await shared_by(request).get((account_id, name), _SEEN_GOOD_FOR_S, read)


HANDLERS = [suggest]
