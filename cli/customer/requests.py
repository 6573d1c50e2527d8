"""The options for a request and its time, of the commands that create and change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from cli import parameters
from scheduler import schema
from scheduler.field_rows import FieldRow, Kind

Option = Callable[[Callable[..., None]], Callable[..., None]]

WHEN = ("in_", "delay", "at")
_BODIES = ("body", "text", "data", "base64")

_TYPES: dict[Kind, Any] = {
    Kind.MOMENT: parameters.moment,
    Kind.DURATION: parameters.duration,
    Kind.DURATIONS: parameters.durations,
    Kind.SECONDS: parameters.duration,
}
_METAVARS = {Kind.MOMENT: "TIME", Kind.WHOLE: "N", Kind.TEXT: "TEXT", Kind.URL: "URL"}
_METAVARS_OF = {"lane": "NAME"}
# Fields that are spelled here otherwise than in the client, or in several ways.
_OWN: dict[str, tuple[Option, ...]] = {
    "targetUrl": (),  # an argument
    "triggerAt": (
        click.option(
            "--in",
            "in_",
            type=parameters.duration,
            help="10s, 5m, 2h, 1h30m, 1d; a plain number is seconds.",
        ),
        click.option(
            "--at",
            type=parameters.moment,
            metavar="TIME",
            help="'2026-12-24 18:00', 2026-12-24T18:00Z; without a zone it is this machine's"
            f" ({parameters.local_zone()}).",
        ),
    ),
    "targetMethod": (click.option("--method", help=schema.NAMED["targetMethod"].help),),
    "targetHeaders": (
        click.option(
            "--header",
            "headers",
            type=parameters.header,
            multiple=True,
            metavar="K:V",
            help="As often as needed.",
        ),
    ),
    "targetBody": (
        click.option(
            "--body",
            type=parameters.json_object,
            metavar="JSON",
            help="A JSON object; @FILE reads one, @- stdin.",
        ),
    ),
    "targetBodyText": (
        click.option("--text", metavar="TEXT", help="Text to send instead, as UTF-8."),
    ),
    "targetBodyBase64": (
        click.option(
            "--data",
            type=parameters.content,
            metavar="DATA",
            help="Any bytes to send instead: @FILE reads a file, @- stdin.",
        ),
        click.option("--base64", type=parameters.base64, help="Such bytes in base64."),
    ),
    "callbackUrl": (
        click.option(
            "--callback",
            metavar="URL",
            help="Where its end is reported; default: where postdate callback show says; none:"
            " nowhere.  [default: default]",
        ),
    ),
}


def _option(row: FieldRow) -> Option:
    kind: Any = _TYPES.get(row.kind)
    if row.kind is Kind.CHOICE:
        kind = parameters.Choice(row.choices)
    elif row.kind is Kind.WHOLE:
        kind = parameters.Whole(row.minimum, row.maximum)
    if row.kind is Kind.TEXTS:  # one at a time
        flag = "--" + row.option.removesuffix("s")
        return click.option(flag, row.option, multiple=True, metavar="TEXT", help=row.help)
    flag, metavar = "--" + row.option.replace("_", "-"), _METAVARS.get(row.kind)
    metavar = _METAVARS_OF.get(row.name, metavar)
    return click.option(flag, type=kind, metavar=metavar, help=row.help)


def _options(rows: Sequence[FieldRow]) -> list[Option]:
    return [
        option
        for row in rows
        for option in (_OWN[row.name] if row.name in _OWN else (_option(row),))
    ]


# Those that a recurring schedule has too.
_REQUEST = tuple(row for row in schema.FIELDS if not row.instead)
# Options whose argument of the client has another name.
_ARGUMENTS = {"body": "json", "base64": "data", "callback": "callback_url"}
_SPELLED = {argument: option for option, argument in _ARGUMENTS.items() if option != "base64"}


def _cleared(rows: Sequence[FieldRow]) -> list[str]:
    names = [_SPELLED.get(row.option, row.option) for row in rows if not row.required]
    return [name.replace("_", "-") for name in names]


# Fields that can be given up.
CLEARED_OF_RULE, CLEARED = _cleared(_REQUEST), _cleared(schema.FIELDS)


def request_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds those of the request; the command gets None for those not given."""
    return _with(_options(_REQUEST), function)


def schedule_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds those of the request and of its time."""
    return _with(_options(schema.FIELDS), function)


def create_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds those of a create."""
    return _with(_options((*schema.FIELDS, *schema.ON_EXISTING)), function)


def _with(options: Sequence[Option], function: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(options):
        function = option(function)
    return function


def clear_option(names: list[str]) -> Option:
    """--clear, of a change."""
    return click.option(
        "--clear",
        "cleared",
        type=parameters.Choice(names),
        multiple=True,
        help="A field to clear; as often as needed.",
    )


def request_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """The given ones, as arguments of the client. Raises UsageError if two exclude each other."""
    if sum(options.get(name) is not None for name in WHEN) > 1:
        raise click.UsageError("Say when, with one of --in, --delay and --at.")
    if sum(options[name] is not None for name in _BODIES) > 1:
        raise click.UsageError("Give one body, with --body, --text, --data or --base64.")
    given = {_argument(n): value for n, value in options.items() if value not in (None, ())}
    if given.get("callback_url") == "none":
        given["callback_url"] = None
    if "headers" in given:
        given["headers"] = dict(given["headers"])
    return given


def change_arguments(
    target: str | None, cleared: Sequence[str], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Those of a change; None clears a field. Raises UsageError as `request_arguments`."""
    given = request_arguments(options)
    nothing: dict[str, Any] = {_argument(name.replace("-", "_")): None for name in cleared}
    if "callback_url" in nothing:
        nothing["callback_url"] = "default"  # None is no callback
    both = sorted(given.keys() & nothing.keys())
    if both:
        raise click.UsageError(f"It cannot be given and cleared: {', '.join(both)}.")
    if target is not None:
        given["url"] = target
    return {**given, **nothing}


def _argument(option: str) -> str:
    return _ARGUMENTS.get(option, option)
