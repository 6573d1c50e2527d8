"""Query strings to typed values, by a table of parameters that the OpenAPI document is written by
too. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from api.field import Schema
from api.findings import Findings, invalid
from api.rules import timestamp, url_filter
from scheduler.errors import FieldError, InvalidRequest
from scheduler.models import LogStatus, Status

DEFAULT_LIMIT = 50
MAX_LIMIT = 100

_MOST_PARAMETERS = 100
# As much as fits into a request's own target; POST /schedule/cancel finds longer ones.
_MAX_URL_CHARACTERS = 7 * 1024


class Parameter(NamedTuple):
    """One parameter of a query; `read` makes a value of its text, or raises ValueError."""

    name: str
    read: Callable[[str], Any]
    schema: Schema
    description: str


def read_query(query_string: bytes, known: Sequence[Parameter] = ()) -> dict[str, Any]:
    """The values of one request's parameters, each given at most once; None for those left out.

    Raises InvalidRequest naming every bad one.
    """
    readers = {each.name: each.read for each in known}
    if not query_string:
        return dict.fromkeys(readers)
    findings = Findings()
    texts: dict[str, str] = {}
    repeated: set[str] = set()
    for name, text in _pairs(query_string):
        if name in texts:
            repeated.add(name)
        texts[name] = text
    values: dict[str, Any] = dict.fromkeys(readers)
    unknown = [name for name in texts if name not in readers]
    findings.add_unknown(unknown, len(unknown), "parameter")
    for name, text in texts.items():
        if name not in readers:
            continue
        if name in repeated:
            findings.add(name, "It is given more than once.")
        else:
            try:
                values[name] = readers[name](text)
            except ValueError as error:
                findings.add(name, str(error))
    judge_period(values, findings)
    findings.refuse_if_any()
    return values


def bad_parameter(name: str, message: str) -> InvalidRequest:
    """The refusal of what only a handler can tell to be wrong."""
    return invalid([FieldError(name, message)])


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
    """An ISO 8601 timestamp in ms. A `+` that was not escaped arrives as a space: it is meant.

    What lies before 1970 becomes 1970: nothing is older, and many a client's "since ever" is.
    """
    return max(timestamp(text.replace(" ", "+")), 0)


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """A reader of whole numbers within bounds."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high):
            raise ValueError(f"It must be a whole number from {low} to {high}.")
        return int(text)

    return read


def one_of(*choices: str) -> Callable[[str], str]:
    """A reader of one of a few words."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"It must be one of {', '.join(choices)}.")
        return text

    return read


def _url(text: str) -> str:
    return url_filter(text, _MAX_URL_CHARACTERS)


def _order(schema: Schema, description: str) -> Parameter:
    schema = {"type": "string", "enum": ["asc", "desc"], **schema}
    return Parameter("order", one_of("asc", "desc"), schema, description)


_MOMENT = {"type": "string", "format": "date-time"}
PERIOD = (
    Parameter(
        "from", moment, _MOMENT, "ISO 8601: what is at this moment or later. Not after `to`."
    ),
    Parameter("to", moment, _MOMENT, "ISO 8601: what is before this moment."),
)
_PAGE = (
    Parameter(
        "limit",
        whole_number(1, MAX_LIMIT),
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
        "The most that one page may have.",
    ),
    Parameter(
        "cursor",
        str,
        {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
        "`nextCursor` of the page before; order and filters stay the same.",
    ),
)
# Of what status there is a list.
LISTED = (Status.SCHEDULED, Status.FAILED)
OF_SCHEDULES = (
    Parameter(
        "status",
        one_of(*LISTED),
        {"type": "string", "enum": [*LISTED], "default": Status.SCHEDULED},
        "What waits, or what has failed and was not replayed.",
    ),
    Parameter(
        "targetUrl",
        _url,
        {"type": "string", "maxLength": _MAX_URL_CHARACTERS},
        "Only those of this very URL.",
    ),
    *PERIOD,
    _order({}, "`asc` for oldest first, as what waits is listed, or `desc`, as what has failed."),
    *_PAGE,
)
OF_LOGS = (
    Parameter(
        "status",
        one_of(*LogStatus),
        {"type": "string", "enum": [*LogStatus]},
        "Only what stands so; `retrying` are attempts that failed and are made again.",
    ),
    Parameter(
        "targetUrl",
        _url,
        {"type": "string", "maxLength": _MAX_URL_CHARACTERS},
        "Only what went to, or waits for, this very URL.",
    ),
    *PERIOD,
    _order({"default": "desc"}, "Oldest first, or newest first."),
    *_PAGE,
)
