"""How every command answers and fails: for people, or with --json for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

import click

from scheduler.texts import visible


def show(answer: object, text: str, *, as_json: bool) -> None:
    """Prints an answer: for machines as JSON, for people as text. Much of it strangers wrote: none
    of that speaks to the terminal."""
    click.echo(visible(json.dumps(answer, ensure_ascii=False) if as_json else text))


def fail(
    sentence: str,
    *,
    as_json: bool,
    status: int | None = None,
    details: Sequence[Mapping[str, str]] = (),
) -> NoReturn:
    """One sentence on stderr, exit status 1.

    For machines, too, with the status that an API answered (null: none did) and each bad field, as
    `{field, message}`.
    """
    sentence = sentence.rstrip(".") + "."
    told = {"error": sentence, "status": status, "details": list(details)}
    click.echo(visible(json.dumps(told, ensure_ascii=False) if as_json else sentence), err=True)
    sys.exit(1)
