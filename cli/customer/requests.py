"""The options for a request and its time, of the commands that create and change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from cli import parameters

Option = Callable[[Callable[..., None]], Callable[..., None]]

WHEN = ("in_", "delay", "at")
_BODIES = ("body", "text", "data", "base64")

_MOMENTS: tuple[Option, ...] = (
    click.option(
        "--in",
        "in_",
        type=parameters.duration,
        help="10s, 5m, 2h, 1h30m, 1d; a plain number is seconds.",
    ),
    click.option(
        "--delay",
        type=parameters.duration,
        help="As --in, but by the clock of Postdate and not by this machine's.",
    ),
    click.option(
        "--at",
        type=parameters.moment,
        metavar="TIME",
        help="'2026-12-24 18:00', 2026-12-24T18:00Z; without a zone it is this machine's"
        f" ({parameters.local_zone()}).",
    ),
    click.option(
        "--expires-at",
        type=parameters.moment,
        metavar="TIME",
        help="The last moment at which it may be fired; as --at.",
    ),
)
_REQUEST: tuple[Option, ...] = (
    click.option("--method", help="[default: POST with a body, GET without]"),
    click.option(
        "--header",
        "headers",
        type=parameters.header,
        multiple=True,
        metavar="K:V",
        help="As often as needed.",
    ),
    click.option(
        "--body",
        type=parameters.json_object,
        metavar="JSON",
        help="A JSON object; @FILE reads one, @- stdin.",
    ),
    click.option("--text", metavar="TEXT", help="Text to send instead, as UTF-8."),
    click.option(
        "--data",
        type=parameters.content,
        metavar="DATA",
        help="Any bytes to send instead: @FILE reads a file, @- stdin.",
    ),
    click.option("--base64", type=parameters.base64, help="Such bytes in base64."),
    click.option("--delivery", type=click.Choice(["at-least-once", "at-most-once"])),
    click.option(
        "--retries",
        type=click.IntRange(0, 20),
        metavar="N",
        help="How often it is sent again after an attempt that failed for now.  [default: 0]",
    ),
    click.option(
        "--retry-delays",
        type=parameters.durations,
        help="After which times, the last for all others.  [default: 10s,1m,10m,1h,6h]",
    ),
    click.option(
        "--timeout",
        type=parameters.duration,
        help="How long one attempt may take: whole seconds, 1s to 30s.  [default: 30s]",
    ),
    click.option(
        "--callback",
        metavar="URL",
        help="Where its end is reported; none: nowhere.  [default: as postdate callback show says]",
    ),
    click.option(
        "--callback-on",
        type=click.Choice(["executed", "failed"]),
        help="Report each end, or only a failure.  [default: executed]",
    ),
    click.option(
        "--reference",
        metavar="TEXT",
        help="An id of your own, such as order-17, to find it by.",
    ),
    click.option(
        "--lane",
        metavar="NAME",
        help="Whose rate, parallelism and pause hold for it: postdate lane --help.",
    ),
)
# Fields of the request that can be given up.
CLEARED = ["body", "text", "data", "method", "headers", "delivery"]
CLEARED += ["retries", "retry-delays", "timeout", "callback", "callback-on", "reference", "lane"]


def request_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds those of the request; the command gets None for those not given."""
    return _with(_REQUEST, function)


def schedule_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds those of the request and of its time."""
    return _with((*_MOMENTS, *_REQUEST), function)


def _with(options: Sequence[Option], function: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(options):
        function = option(function)
    return function


def clear_option(names: list[str]) -> Option:
    """--clear, of a change."""
    return click.option(
        "--clear",
        "cleared",
        type=click.Choice(names),
        multiple=True,
        help="A field to clear; as often as needed.",
    )


def request_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """The given ones, as arguments of the client. Raises UsageError if two exclude each other."""
    if sum(options.get(name) is not None for name in WHEN) > 1:
        raise click.UsageError("Say when, with one of --in, --delay and --at.")
    if sum(options[name] is not None for name in _BODIES) > 1:
        raise click.UsageError("Give one body, with --body, --text, --data or --base64.")
    given = {_argument(name): value for name, value in options.items() if value is not None}
    if given.get("callback_url") == "none":
        given["callback_url"] = None
    headers = given.pop("headers")
    return {**given, "headers": dict(headers)} if headers else given


def change_arguments(
    target: str | None, cleared: Sequence[str], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Those of a change; None clears a field. Raises UsageError as `request_arguments`."""
    given = request_arguments(options)
    nothing: dict[str, Any] = {_argument(name.replace("-", "_")): None for name in cleared}
    both = sorted(given.keys() & nothing.keys())
    if both:
        raise click.UsageError(f"It cannot be given and cleared: {', '.join(both)}.")
    if target is not None:
        given["url"] = target
    return {**given, **nothing}


def _argument(option: str) -> str:
    names = {"body": "json", "base64": "data", "callback": "callback_url"}
    return names.get(option, option)
