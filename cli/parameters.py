"""Groups of commands, and conversions of options: durations, moments, headers, JSON, names. These
raise click.BadParameter."""

from __future__ import annotations

import json
import re
import sys
from base64 import b64decode
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scheduler.durations import parse_duration
from scheduler.filters import FILTERS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])
_SECONDS = re.compile(r"[0-9.]+")
_LONGEST_NAME = 200


def duration(text: str) -> timedelta:
    """`10s`, `5m`, `1h30m`; a plain number is seconds."""
    spelt = text + "s" if _SECONDS.fullmatch(text) else text
    try:
        return timedelta(milliseconds=parse_duration(spelt))
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a duration such as 10s, 5m, 2h, 1h30m or 1d."
        ) from None
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too long.") from None


def durations(text: str) -> list[timedelta]:
    return [duration(each.strip()) for each in text.split(",")]


class Group(click.Group):
    """click's, with whole summaries."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(1000)) for name, each in self.commands.items()]
            )


class Choice(click.Choice[str]):
    """click's, with the nearest choice."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return _no_choice(str(value), self.choices)


class Words(click.ParamType[list[str]]):
    """Some of a few words, with commas between."""

    name = "words"

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[str]:
        if isinstance(value, list):
            return value
        found = [each.strip() for each in str(value).split(",")]
        for each in found:
            if each not in self.choices:
                self.fail(_no_choice(each, self.choices), param, ctx)
        return found

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        before, comma, last = incomplete.rpartition(",")
        left = [each for each in self.choices if each not in before.split(",")]
        return [CompletionItem(before + comma + each) for each in left if each.startswith(last)]


class Whole(click.IntRange):
    """click's, with an error that says what is expected."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            least = 0 if self.min is None else self.min
            most = "or more" if self.max is None else f"to {self.max:,}"
            example = max(least, 10 if self.max is None else min(10, self.max))
            self.fail(
                f"{value!r} is not a whole number, {least:,} {most}, such as {example:,}.",
                param,
                ctx,
            )


class Number(click.FloatRange):
    """The same for a number with a fraction."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            least = f"above {self.min:g}" if self.min_open else f"{self.min:g}"
            most = "" if self.max is None else f" to {self.max:,g}"
            self.fail(f"{value!r} is not a number, {least}{most}.", param, ctx)


def _no_choice(text: str, choices: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(text.lower(), choices, 1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    return f"{text!r} is not one of {', '.join(choices)}.{meant}"


def moment(text: str) -> str:
    """`2026-12-24 18:00`, `2026-12-24` (midnight) or ISO 8601, as the API reads it.

    Without a zone it is this machine's. Other text is passed on: the API explains the error.
    """
    try:
        found = datetime.fromisoformat(text.strip())
        return text if found.tzinfo else found.astimezone().isoformat()
    except (ValueError, OverflowError):
        return text


def local_zone() -> str:
    return f"{datetime.now().astimezone():%Z}"


_WRITTEN = (
    "2026-12-24, '2026-12-24 18:00', 2026-12-24T18:00Z; without a zone it is this machine's"
    f" ({local_zone()})."
)


def from_option(more: str = "") -> Callable[[F], F]:
    """--from, the beginning of a period; `more` is for the help."""
    return click.option("--from", "from_", type=moment, metavar="TIME", help=_WRITTEN + more)


def to_option(more: str = "") -> Callable[[F], F]:
    says = "As --from; this moment itself is left out." + more
    return click.option("--to", type=moment, metavar="TIME", help=says)


def filter_options(from_help: str = "") -> Callable[[F], F]:
    """Adds the filters of lists; the command gets them by the client's names. `from_help` is added
    to the help of --from."""

    def decorate(function: F) -> F:
        for row in reversed(FILTERS):
            if row.name == "from":
                function = from_option(from_help)(function)
            elif row.name == "to":
                function = to_option()(function)
            else:
                option = click.option(row.flag, row.option, metavar=row.metavar, help=row.help)
                function = option(function)
        return function

    return decorate


def header(text: str) -> tuple[str, str]:
    """`Name: value`, as curl has it."""
    name, colon, value = text.partition(":")
    if not colon:
        raise click.BadParameter(f"{text!r} is not a header such as 'X-Source: nightly'.")
    return name.strip(), value.strip()


_OTHER_BODIES = "--text sends any text, --data any bytes; --header gives the content type."


def json_object(text: str) -> dict[str, Any]:
    """JSON text; `@FILE` and `@-` as in `content`."""
    try:
        found = json.loads(content(text))
    except ValueError as error:
        raise click.BadParameter(f"it is not JSON: {error}. {_OTHER_BODIES}") from None
    if not isinstance(found, dict):
        raise click.BadParameter(f"it is not a JSON object. {_OTHER_BODIES}")
    return found


def content(text: str) -> bytes:
    """Any bytes: `@FILE` reads them from a file, `@-` from standard input."""
    if text == "@-":
        return sys.stdin.buffer.read()
    if not text.startswith("@"):
        return text.encode(errors="surrogateescape")  # as they were typed
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise click.BadParameter(f"{text[1:]} cannot be read: {error.strerror}.") from None


def base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not base64.") from None


def name(text: str) -> str:
    """One line that can be seen and typed again."""
    text = text.strip()
    if not text:
        raise click.BadParameter("it is empty.")
    if not text.isprintable() or len(text) > _LONGEST_NAME:
        raise click.BadParameter(
            f"it must be one line of at most {_LONGEST_NAME} printable characters."
        )
    return text
