"""How every command answers and fails: for people, or with --json for machines."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NoReturn, Self

import click

from cli.tables import Ready, has_colour, terminal_width
from scheduler.texts import visible

# Of an answer with an error: its status, the words for programs, and each bad field.
NO_ANSWER: Mapping[str, object] = {
    "status": None,
    "reason": None,
    "requestId": None,
    "details": [],
}
_DRAWN_EVERY_S = 0.1
_BAR = 24


def show(answer: object, text: str, *, as_json: bool) -> None:
    """Prints an answer, as JSON or text. Strangers wrote parts: control characters are escaped."""
    if as_json:
        click.echo(visible(json.dumps(answer, ensure_ascii=False)))
    elif isinstance(text, Ready):
        click.echo(text, color=has_colour(sys.stdout))
    else:
        click.echo(visible(text))


def log_line(answer: Mapping[str, object], text: str, level: str = "info") -> dict[str, object]:
    """The answer in the shape of a log line, for commands that run on."""
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    event = text.strip().partition("\n")[0].rstrip(":")
    return {**answer, "event": event, "level": level, "timestamp": now}


def fail(
    sentence: str,
    *,
    as_json: bool,
    answered: Mapping[str, object] | None = None,
    logged: bool = False,
    placed: bool = False,
) -> NoReturn:
    """Prints one sentence on stderr and exits with status 1.

    As JSON with what the API `answered`; with `logged` as a line of the log. `placed`: it begins
    with a file and a line, for editors.
    """
    sentence = sentence.rstrip(".") + "."
    failure: dict[str, object] = {"error": sentence, **(answered or NO_ANSWER)}
    if logged:
        failure = log_line(failure, sentence, "error")
    if as_json:
        click.echo(visible(json.dumps(failure, ensure_ascii=False)), err=True)
    elif placed:
        click.echo(visible(sentence), err=True)
    else:
        tell_error(sentence)
    sys.exit(1)


def tell_error(sentence: str) -> None:
    colour = has_colour(sys.stderr)
    said = click.style("Error:", fg="red") if colour else "Error:"
    click.echo(f"{said} {visible(sentence)}", err=True, color=colour)


class Progress:
    """A line on the terminal's standard error: how much is done, how fast, how long it goes on.
    Elsewhere, and with --json, nothing. `total` may be unknown, and be of another unit than what
    is counted, as bytes are for lines. An error leaves the line in which a `with` of it ends."""

    def __init__(self, doing: str, total: int | None = None, *, shown: bool = True) -> None:
        self._doing, self._total = doing, total
        self._width = terminal_width(sys.stderr) if shown else None
        self.count = self._parts = 0
        self._begun_s = time.monotonic()
        self._drawn_s = 0.0

    def __enter__(self) -> Self:
        self.draw()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self.clear()
        elif self._width is not None and self.count:
            self.draw()
            click.echo(err=True)

    def add(self, count: int, parts: int | None = None) -> None:
        """So many more are done, which are so many `parts` of the total."""
        self.count += count
        self._parts += count if parts is None else parts
        if time.monotonic() >= self._drawn_s + _DRAWN_EVERY_S:
            self.draw()

    def draw(self) -> None:
        if self._width is not None:
            self._drawn_s = time.monotonic()
            text = self._text(self._drawn_s - self._begun_s)[: self._width - 1]
            click.echo(f"\r{text}\x1b[K", err=True, nl=False, color=True)

    def say(self, sentence: str) -> None:
        """A line above it."""
        self.clear()
        click.echo(visible(sentence), err=True)
        self.draw()

    def clear(self) -> None:
        if self._width is not None:
            click.echo("\r\x1b[K", err=True, nl=False, color=True)

    def _text(self, taken_s: float) -> str:
        said = f"{self._doing}: {self.count:,}"
        if taken_s > 0 and self.count >= taken_s:
            said += f", {self.count / taken_s:,.0f} a second"
        if not self._total:
            return said
        share = min(self._parts / self._total, 1)
        bar = ("#" * round(share * _BAR)).ljust(_BAR, "-")
        if 0 < share < 1:
            said += f", {_rounded(taken_s * (1 - share) / share)} left"
        return f"[{bar}] {share:4.0%}  {said}"


def _rounded(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
