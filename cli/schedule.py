"""`postdate schedule`: a request with a future date on it."""

from __future__ import annotations

import json
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from cli.remote import Remote, remote_command

_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


class Duration(click.ParamType[timedelta]):
    """`10s`, `5m`, `1h30m`."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        spans = _SPAN.findall(value)
        if not spans or "".join(number + unit for number, unit in spans) != value:
            self.fail(f"{value!r} is no duration such as 10s, 5m, 2h, 1h30m or 1d.", param, ctx)
        try:
            return sum((float(number) * _UNITS[unit] for number, unit in spans), timedelta())
        except OverflowError:
            self.fail(f"{value!r} is too long.", param, ctx)


class Header(click.ParamType[tuple[str, str]]):
    """`Name: value`, as curl has it."""

    name = "header"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        name, colon, content = value.partition(":")
        if not colon:
            self.fail(f"{value!r} is no header such as 'X-Source: nightly'.", param, ctx)
        return name.strip(), content.strip()


class JsonObject(click.ParamType[dict[str, Any]]):
    """JSON text; `@FILE` reads it from a file, `@-` from standard input."""

    name = "json"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        try:
            found = json.loads(_text(value))
        except OSError as error:
            self.fail(f"{value[1:]} cannot be read: {error.strerror}.", param, ctx)
        except ValueError as error:
            self.fail(f"it is not JSON: {error}.", param, ctx)
        if not isinstance(found, dict):
            self.fail("it is not a JSON object.", param, ctx)
        return found


@click.command(name="schedule")
@click.argument("target", metavar="URL")
@click.option("--in", "in_", type=Duration(), metavar="DURATION", help="10s, 5m, 2h, 1h30m, 1d.")
@click.option("--at", metavar="TIME", help="ISO 8601, such as 2026-11-20T08:00Z; UTC if no zone.")
@click.option("--method", help="[default: POST with a body, GET without]")
@click.option(
    "--header", "headers", type=Header(), multiple=True, metavar="K:V", help="As often as needed."
)
@click.option(
    "--body", type=JsonObject(), metavar="JSON", help="A JSON object; @FILE reads one, @- stdin."
)
@click.option("--delivery", type=click.Choice(["at-least-once", "at-most-once"]))
@click.option("--expires-at", metavar="TIME", help="The last moment at which it may be fired.")
@click.option("--idempotency-key", metavar="KEY", help="Repeating with it stores nothing twice.")
@remote_command
def schedule_command(
    remote: Remote,
    target: str,
    headers: tuple[tuple[str, str], ...],
    body: dict[str, Any] | None,
    **options: Any,
) -> None:
    """Have URL called at a chosen time. Costs one credit.

    \b
    postdate schedule https://example.com/hook --in 10m --body '{"hello": "future"}'
    """
    if (options["at"] is None) == (options["in_"] is None):
        raise click.UsageError("Say when, either with --in or with --at.")
    created = remote.client.schedule(target, json=body, headers=dict(headers) or None, **options)
    remote.show(created, f"{created.schedule_id}  {created.message}")


def _text(value: str) -> str:
    if value == "@-":
        return sys.stdin.read()
    return Path(value[1:]).read_text() if value.startswith("@") else value
