"""How every command answers and fails: for people, or with --json for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NoReturn

import click

from scheduler.texts import visible


def show(answer: object, text: str, *, as_json: bool) -> None:
    """Prints an answer: for machines as JSON, for people as text. Much of it strangers wrote: none
    of that speaks to the terminal."""
    click.echo(visible(json.dumps(answer, ensure_ascii=False) if as_json else text))


def log_line(answer: Mapping[str, object], text: str, level: str = "info") -> dict[str, object]:
    """The answer as a line of the log: what runs for long prints all of its JSON in one shape."""
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    event = text.strip().partition("\n")[0].rstrip(":")
    return {**answer, "event": event, "level": level, "timestamp": now}


def fail(
    sentence: str,
    *,
    as_json: bool,
    status: int | None = None,
    details: Sequence[Mapping[str, str]] = (),
    logged: bool = False,
) -> NoReturn:
    """One sentence on stderr, exit status 1.

    For machines, too, with the status that an API answered (null: none did) and each bad field, as
    `{field, message}`; with `logged` as a line of the log.
    """
    sentence = sentence.rstrip(".") + "."
    told: dict[str, object] = {"error": sentence, "status": status, "details": list(details)}
    if logged:
        told = log_line(told, sentence, "error")
    click.echo(visible(json.dumps(told, ensure_ascii=False) if as_json else sentence), err=True)
    sys.exit(1)
