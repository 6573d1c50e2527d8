"""How every command answers and fails: for people, or with --json for machines."""

from __future__ import annotations

import json
import sys
from typing import NoReturn

import click


def show(answer: object, text: str, *, as_json: bool) -> None:
    """Prints an answer: for machines as JSON, for people as text."""
    click.echo(json.dumps(answer, ensure_ascii=False) if as_json else text)


def fail(sentence: str, *, as_json: bool) -> NoReturn:
    """One sentence on stderr, exit status 1."""
    sentence = sentence.rstrip(".") + "."
    click.echo(json.dumps({"error": sentence}) if as_json else sentence, err=True)
    sys.exit(1)
