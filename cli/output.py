"""How every command answers and fails: for people, or with --json for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NoReturn

import click

from scheduler.texts import visible

# Of an answer with an error: its status, the words for programs, and each bad field.
NO_ANSWER: Mapping[str, object] = {
    "status": None,
    "reason": None,
    "requestId": None,
    "details": [],
}


def show(answer: object, text: str, *, as_json: bool) -> None:
    """Prints an answer, as JSON or text. Strangers wrote parts: control characters are escaped."""
    click.echo(visible(json.dumps(answer, ensure_ascii=False) if as_json else text))


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
) -> NoReturn:
    """Prints one sentence on stderr and exits with status 1.

    As JSON with what the API `answered`; with `logged` as a line of the log.
    """
    sentence = sentence.rstrip(".") + "."
    failure: dict[str, object] = {"error": sentence, **(answered or NO_ANSWER)}
    if logged:
        failure = log_line(failure, sentence, "error")
    click.echo(visible(json.dumps(failure, ensure_ascii=False) if as_json else sentence), err=True)
    sys.exit(1)
