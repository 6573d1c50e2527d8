"""Query strings to typed values, by a table of parameters that OpenAPI shares; cursors. Pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from api.schema.field import Schema
from api.schema.findings import Findings, invalid
from api.schema.rules import label_filter, lane_filter, reference_filter, timestamp, url_filter
from scheduler.callbacks import CallbackStatus
from scheduler.errors import FieldError, InvalidRequest
from scheduler.filters import FILTERS
from scheduler.ids import is_recurring_id, is_schedule_id
from scheduler.lanes import LANE_PATTERN, LONGEST_LANE
from scheduler.models import LogStatus, Status
from scheduler.recurrence.recurring import RuleState
from scheduler.references import FILTER_PATTERN, LABEL_PATTERN

DEFAULT_LIMIT = 50
MAX_LIMIT = 100

_MOST_PARAMETERS = 100
# As much as fits into a request's target; POST /schedule/cancel takes longer ones.
_LONGEST_URL_IN_QUERY = 7 * 1024
_EXECUTED, _ALL = "executed", "all"
EXECUTIONS = (LogStatus.COMPLETED, LogStatus.FAILED)
# What the log shows unless `status` asks for others, as far as statuses of schedules go.
LOGGED_BY_DEFAULT = tuple(each for each in LogStatus if each in {*Status})


class Parameter(NamedTuple):
    """One parameter of a query; `read` makes a value of its text, or raises ValueError. An array's
    text is a list with commas; some clients repeat the parameter instead."""

    name: str
    read: Callable[[str], Any]
    schema: Schema
    description: str


def read_query(query_string: bytes, known: Sequence[Parameter] = ()) -> dict[str, Any]:
    """The values of one request's parameters, each given at most once, unless it is an array; None
    for those left out.

    Raises InvalidRequest naming every bad one.
    """
    readers = {each.name: each.read for each in known}
    kinds = {each.name: each.schema["type"] for each in known}
    values: dict[str, Any] = dict.fromkeys(readers)
    if not query_string:
        return values
    findings = Findings()
    texts: dict[str, list[str]] = {}
    for name, text in _pairs(query_string):
        texts.setdefault(name, []).append(text)
    unknown = [name for name in texts if name not in readers]
    findings.add_unknown(unknown, len(unknown), "parameter")
    for name in filter(readers.__contains__, texts):
        if len(texts[name]) > 1 and kinds[name] != "array":
            findings.add(name, "It is given more than once.")
            continue
        try:
            values[name] = readers[name](",".join(texts[name]))
        except ValueError as error:
            findings.add(name, str(error))
    judge_period(values, findings)
    findings.refuse_if_any()
    return values


def judge_period(values: dict[str, Any], findings: Findings) -> None:
    """A period that ends where it begins is empty, not wrong."""
    from_ms, to_ms = values.get("from"), values.get("to")
    if from_ms is not None and to_ms is not None and from_ms > to_ms:
        findings.add("from", "It may not be after to.")


def _pairs(query_string: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError:
        detail = FieldError("query", "It is not a valid query string.")
        raise InvalidRequest([detail], "The query string is not valid") from None


def moment(text: str) -> int:
    """An ISO 8601 timestamp in ms; 1970, if it is earlier. A space is an unescaped `+`."""
    return max(timestamp(text.replace(" ", "+")), 0)


def one_of(name: str, choices: Sequence[str], schema: Schema, description: str) -> Parameter:
    """A parameter that is one of a few words."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"It must be one of {', '.join(choices)}.")
        return text

    return Parameter(name, read, {"type": "string", "enum": [*choices], **schema}, description)


def statuses_of(
    choices: Sequence[str], schema: Schema, description: str, more: Sequence[str] = ()
) -> Parameter:
    """A list of statuses, each at most once; `executed` means two of them, and `all`, which may be
    one `more` word, all. In the order of `choices`, so that a list and its cursors are the same in
    any order."""
    words = (*choices, _EXECUTED, *more)

    def read(text: str) -> tuple[str, ...]:
        named = text.split(",")
        if not set(named) <= set(words) or len(set(named)) < len(named):
            raise ValueError(f"It must be one or more of {', '.join(words)}, each once.")
        meant = {*named, *(EXECUTIONS if _EXECUTED in named else ())}
        meant |= {*(choices if _ALL in named else ())}
        return tuple(each for each in choices if each in meant)

    items = {"type": "string", "enum": [*words]}
    array = {"type": "array", "items": items, "minItems": 1, "uniqueItems": True}
    return Parameter("status", read, {**array, **schema}, description)


def _schedule_id(text: str) -> str:
    if not is_schedule_id(text):
        raise ValueError("It must be the id of a schedule.")
    return text


def _recurring_id(text: str) -> str:
    if not is_recurring_id(text):
        raise ValueError("It must be the id of a recurring schedule.")
    return text


_MOMENT: Schema = {"format": "date-time"}
_FILTERS: dict[str, tuple[Callable[[str], Any], Schema]] = {
    "lane": (lane_filter, {"pattern": f"^{LANE_PATTERN}$", "maxLength": LONGEST_LANE}),
    "reference": (reference_filter, {"pattern": f"^({FILTER_PATTERN})$"}),
    "label": (label_filter, {"pattern": f"^{LABEL_PATTERN}$"}),
    "recurringId": (_recurring_id, {"pattern": "^rec_[0-7][0-9a-hjkmnp-tv-z]{25}$"}),
    "from": (moment, _MOMENT),
    "to": (moment, _MOMENT),
}


def filters_of(longest_url: int, *, entries: bool = False) -> tuple[Parameter, ...]:
    """The filters of a list of schedules, or of one of log entries."""
    known = _FILTERS | {
        "targetUrl": (partial(url_filter, most_characters=longest_url), {"maxLength": longest_url})
    }
    found = list[Parameter]()
    for row in FILTERS:
        read, schema = known[row.name]
        says = (entries and row.of_entries) or row.description
        found.append(Parameter(row.name, read, {"type": "string", **schema}, says))
    return tuple(found)


def _true_or_false(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("It must be true or false.")
    return text == "true"


HELD = Parameter(
    "held",
    _true_or_false,
    {"type": "boolean"},
    "`true`: only due schedules that cannot start, for the cause in `heldBy`; `false`: only other "
    "waiting schedules.",
)


def limit_of(most: int, schema: Schema, description: str) -> Parameter:
    """A parameter that is a whole number from 1 on."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
            raise ValueError(f"It must be a whole number from 1 to {most:,}.")
        return int(text)

    schema = {"type": "integer", "minimum": 1, "maximum": most, **schema}
    return Parameter("limit", read, schema, description)


class Walk:
    """Going through a list page by page: the same endpoint, order and filters all the way, since a
    place in one list means nothing in another. The period may change on the way.

    A client's cursor is the store's own, with a tag of the walk behind it.
    """

    def __init__(self, *way: str | bool | None) -> None:
        digest = hashlib.blake2b(repr(way).encode(), digest_size=6).digest()
        self._tag = base64.urlsafe_b64encode(digest).decode()

    def given_out(self, cursor: str | None) -> str | None:
        """The store's cursor as clients get it."""
        return None if cursor is None else cursor + self._tag

    def taken_back(self, cursor: str | None) -> str | None:
        """The store's cursor. Raises InvalidRequest if it is of another walk, or none at all."""
        if cursor is None:
            return None
        if not cursor.endswith(self._tag):
            message = "It is no nextCursor of this endpoint, order and filters."
            raise invalid([FieldError("cursor", message)])
        return cursor.removesuffix(self._tag)


_ORDERS = ("asc", "desc")
CURSOR = Parameter(
    "cursor",
    str,
    {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
    "The `nextCursor` of the page before; give the same order and filters with it.",
)
PERIOD = tuple(each for each in filters_of(_LONGEST_URL_IN_QUERY) if each.name in ("from", "to"))
_LIMIT = limit_of(MAX_LIMIT, {"default": DEFAULT_LIMIT}, "At most so many items in a page.")
_CALLBACK = one_of(
    "callback",
    list(CallbackStatus),
    {},
    "Only schedules whose callback has this status; `status` is `executed` by default. Pending "
    "ones are ordered by their next attempt, failed ones by when the callback failed; `from` and "
    "`to` mean that moment.",
)
OF_SCHEDULES = (
    statuses_of(
        list(Status),
        {"default": [Status.SCHEDULED]},
        "Only schedules with these statuses, separated by commas; `executed` means "
        "`completed,failed`. `failed` alone leaves out those that were replayed.",
    ),
    _CALLBACK,
    *filters_of(_LONGEST_URL_IN_QUERY),
    HELD,
    one_of(
        "order",
        _ORDERS,
        {},
        "`asc`: oldest first, the default for waiting schedules, for dead letters by `reference`, "
        "and for pending callbacks; `desc`: newest first, the default for all others.",
    ),
    _LIMIT,
    CURSOR,
)
OF_LANES = (
    _LIMIT,
    CURSOR._replace(description="The `nextCursor` of the page before."),
)
OF_RECURRING = (
    Parameter("name", str, {"type": "string"}, "Only the one of this name."),
    one_of("state", list(RuleState), {}, "Only those in this state."),
    _LIMIT,
    CURSOR._replace(
        description="The `nextCursor` of the page before; give the same `state` with it."
    ),
)
OF_LOGS = (
    statuses_of(
        list(LogStatus),
        {"default": list(LOGGED_BY_DEFAULT)},
        "Only entries of these statuses, a list with commas. `retrying` are attempts that will be "
        "repeated, `skipped` are missed times of recurring schedules; `executed` means "
        "`completed,failed`, `all` every one.",
        (_ALL,),
    ),
    _CALLBACK._replace(
        description="Only ends of schedules that are kept and whose callback has this status."
    ),
    Parameter(
        "scheduleId",
        _schedule_id,
        {"type": "string", "pattern": "^sch_[0-7][0-9a-hjkmnp-tv-z]{25}$"},
        "Only the entries of this schedule: its attempts, in order, each with `phases`, and the "
        "last with `responseBody`, while they are kept.",
    ),
    *filters_of(_LONGEST_URL_IN_QUERY, entries=True),
    one_of(
        "order",
        _ORDERS,
        {},
        "`asc`: oldest first, the default with `scheduleId`; `desc`: newest first, the default "
        "without.",
    ),
    _LIMIT,
    CURSOR,
)
