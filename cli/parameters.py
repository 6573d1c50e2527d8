"""What options take, and how it is written: durations, moments, headers, JSON, names."""

from __future__ import annotations

import ipaddress
import json
import re
import sys
from base64 import b64decode
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from scheduler.durations import parse_duration

F = TypeVar("F", bound=Callable[..., Any])
_SECONDS = re.compile(r"[0-9.]+")
_LONGEST_NAME = 200


class Duration(click.ParamType[timedelta]):
    """`10s`, `5m`, `1h30m`; a plain number is seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        text = value + "s" if _SECONDS.fullmatch(value) else value
        try:
            return timedelta(milliseconds=parse_duration(text))
        except ValueError:
            self.fail(f"{value!r} is no duration such as 10s, 5m, 2h, 1h30m or 1d.", param, ctx)
        except OverflowError:
            self.fail(f"{value!r} is too long.", param, ctx)


class Durations(click.ParamType[list[timedelta]]):
    """`10s,1m,1h`."""

    name = "durations"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[timedelta]:
        one = Duration()
        return [one.convert(each.strip(), param, ctx) for each in value.split(",")]


class Moment(click.ParamType[str]):
    """`2026-12-24 18:00`, `2026-12-24` (its beginning) or ISO 8601, as the API reads it.

    Without a zone it is this machine's. What is no moment is passed on: the API says why.
    """

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            moment = datetime.fromisoformat(value.strip())
            return value if moment.tzinfo else moment.astimezone().isoformat()
        except (ValueError, OverflowError):
            return str(value)


def local_zone() -> str:
    """What a moment without a zone is in, for the help."""
    return f"{datetime.now().astimezone():%Z}"


_WRITTEN = (
    "2026-12-24, '2026-12-24 18:00', 2026-12-24T18:00Z; without a zone it is this machine's"
    f" ({local_zone()})."
)


def from_option(more: str = "") -> Callable[[F], F]:
    """--from, the beginning of a stretch of time; `more` for the help."""
    return click.option("--from", "from_", type=Moment(), metavar="TIME", help=_WRITTEN + more)


def to_option(more: str = "") -> Callable[[F], F]:
    """--to, its end."""
    says = "As --from; no longer in it." + more
    return click.option("--to", type=Moment(), metavar="TIME", help=says)


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


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_OTHER_BODIES = "--text sends any text, --data any bytes; --header gives the content type."


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
            self.fail(f"it is not JSON: {error}. {_OTHER_BODIES}", param, ctx)
        if not isinstance(found, dict):
            self.fail(f"it is not a JSON object. {_OTHER_BODIES}", param, ctx)
        return found


class Bytes(click.ParamType[bytes]):
    """Any bytes: `@FILE` reads them from a file, `@-` from standard input."""

    name = "data"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> bytes:
        if value == "@-":
            return sys.stdin.buffer.read()
        if not value.startswith("@"):
            return str(value).encode()
        try:
            return Path(value[1:]).read_bytes()
        except OSError as error:
            self.fail(f"{value[1:]} cannot be read: {error.strerror}.", param, ctx)


class Base64(click.ParamType[bytes]):
    """Any bytes, in base64."""

    name = "base64"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> bytes:
        try:
            return b64decode(value, validate=True)
        except ValueError:
            self.fail(f"{value!r} is not base64.", param, ctx)


class Name(click.ParamType[str]):
    """What somebody calls a thing: one line that can be seen and typed again."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).strip()
        if not text:
            self.fail("it is empty.", param, ctx)
        if not text.isprintable() or len(text) > _LONGEST_NAME:
            self.fail(
                f"it must be one line of at most {_LONGEST_NAME} printable characters.", param, ctx
            )
        return text


def _text(value: str) -> str:
    if value == "@-":
        return sys.stdin.read()
    return Path(value[1:]).read_text() if value.startswith("@") else value
