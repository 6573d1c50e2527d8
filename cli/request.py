"""What a request may say, as options: the same for `postdate schedule` and `postdate change`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from cli.parameters import (
    Base64,
    Bytes,
    Duration,
    Durations,
    Header,
    JsonObject,
    Moment,
    local_zone,
)

_WHEN = ("in_", "delay", "at")
_BODIES = ("body", "text", "data", "base64")

_OPTIONS = (
    click.option(
        "--in",
        "in_",
        type=Duration(),
        metavar="DURATION",
        help="10s, 5m, 2h, 1h30m, 1d; a plain number is seconds.",
    ),
    click.option(
        "--delay",
        type=Duration(),
        metavar="DURATION",
        help="As --in, but by the clock of Postdate and not by this machine's.",
    ),
    click.option(
        "--at",
        type=Moment(),
        metavar="TIME",
        help="'2026-12-24 18:00', 2026-12-24T18:00Z; without a zone it is this machine's"
        f" ({local_zone()}).",
    ),
    click.option("--method", help="[default: POST with a body, GET without]"),
    click.option(
        "--header",
        "headers",
        type=Header(),
        multiple=True,
        metavar="K:V",
        help="As often as needed.",
    ),
    click.option(
        "--body",
        type=JsonObject(),
        metavar="JSON",
        help="A JSON object; @FILE reads one, @- stdin.",
    ),
    click.option("--text", metavar="TEXT", help="Text to send instead, as UTF-8."),
    click.option(
        "--data",
        type=Bytes(),
        metavar="DATA",
        help="Any bytes to send instead: @FILE reads a file, @- stdin.",
    ),
    click.option("--base64", type=Base64(), metavar="BASE64", help="Such bytes in base64."),
    click.option("--delivery", type=click.Choice(["at-least-once", "at-most-once"])),
    click.option(
        "--expires-at",
        type=Moment(),
        metavar="TIME",
        help="The last moment at which it may be fired; as --at.",
    ),
    click.option(
        "--retries",
        type=click.IntRange(0, 20),
        metavar="N",
        help="How often it is sent again after an attempt that failed for now.  [default: 0]",
    ),
    click.option(
        "--retry-delays",
        type=Durations(),
        metavar="DURATIONS",
        help="After which times, the last for all others.  [default: 10s,1m,10m,1h,6h]",
    ),
)


def request_options(function: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options; it is called with all of them, those not given None."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def request_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those that were given, as arguments of the client. Raises UsageError where two of them say
    the same thing."""
    if sum(options[name] is not None for name in _WHEN) > 1:
        raise click.UsageError("Say when, with one of --in, --delay and --at.")
    if sum(options[name] is not None for name in _BODIES) > 1:
        raise click.UsageError("Give one body, with --body, --text, --data or --base64.")
    given = {name: value for name, value in options.items() if value is not None}
    if "body" in given:
        given["json"] = given.pop("body")
    if "base64" in given:
        given["data"] = given.pop("base64")
    headers = given.pop("headers")
    return {**given, "headers": dict(headers)} if headers else given


def says_when(options: Mapping[str, Any]) -> bool:
    return any(options[name] is not None for name in _WHEN)
