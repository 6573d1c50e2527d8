"""`postdate batch`: a file full of schedules, as fast as the API takes them."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import uuid
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, NamedTuple

import click

from cli.customer.remote import Remote, error_json, remote_command, sentence_of, when, with_hint
from cli.output import Progress
from scheduler.texts import visible

if TYPE_CHECKING:
    from postdate import Created, Postdate, PostdateError

# What one call carries: as many as the API takes, and no more bytes than it judges in a moment, so
# that no other line waits behind it.
_MOST_AT_ONCE = 1000
_MOST_BYTES = 1024 * 1024
# The API says when to come back; it may be restarted, or be out of its rate, for so long.
_RETRY_FOR_S = 120.0
_LONGEST_KEY = 200
_SHOWN_REFUSALS = 20
_TOO_LARGE = 413


class BatchLine(NamedTuple):
    """A line of the file, numbered from 1; one with a `fault` is not sent. `lane` is for one that
    names none."""

    number: int
    text: bytes
    fault: str | None
    lane: str | None = None

    @property
    def item(self) -> bytes:
        """As it is sent: with the lane before its own fields, which stay as they are written."""
        text = self.text.strip()
        if self.lane is None or "lane" in (fields := json.loads(text)):
            return text
        return b'{"lane": %b%b%b' % (json.dumps(self.lane).encode(), b", " * bool(fields), text[1:])


class Report:
    """Prints what became of each line, and counts."""

    def __init__(self, remote: Remote, progress: Progress) -> None:
        self._remote = remote
        self._progress = progress
        self.stored = self.existing = 0
        self.refused = 0
        self.credits_ended = False

    def created(self, line: BatchLine, created: Created) -> None:
        self.stored += not created.existing
        self.existing += created.existing
        if self._remote.as_json:
            answer = {
                "line": line.number,
                "scheduleId": created.schedule_id,
                "invocationId": created.invocation_id,
                "triggerAt": when(created.trigger_at),
            }
            if created.existing:
                answer["existing"] = True
            click.echo(json.dumps(answer))

    def refuse(self, line: BatchLine, error: PostdateError | None) -> None:
        """With the API's error or the line's fault. Without credits only the first is printed."""
        from postdate import InsufficientCredits

        self.refused += 1
        sentence = line.fault or ""
        if error is not None:
            sentence = with_hint(sentence_of(error), self._remote.base_url)
        if self._remote.as_json:
            answer = {"line": line.number, **error_json(sentence, error)}
            click.echo(visible(json.dumps(answer, ensure_ascii=False)))
        elif not self.credits_ended and self.refused <= _SHOWN_REFUSALS:
            self._say(f"Line {line.number:,}: {sentence.rstrip('.')}.")
            if self.refused == _SHOWN_REFUSALS:
                self._say("Further ones are only counted; --json tells all of them.")
        if isinstance(error, InsufficientCredits) and not self.credits_ended:
            self.credits_ended = True
            self._say("The credits have ended: what follows is not sent.")

    def interrupted(self, line: int, key: str) -> None:
        self._say(
            f"Stopped at line {line:,}, with {self.stored:,} scheduled before it. To go on,"
            f" give the same file and --idempotency-key {key}: nothing is stored twice."
        )

    def _say(self, sentence: str) -> None:
        if not self._remote.as_json:
            self._progress.say(sentence)


@click.command(name="batch")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--idempotency-key",
    metavar="KEY",
    help="Repeating the same file with it within a day stores nothing twice.",
)
@click.option("--lane", metavar="NAME", help="The lane of lines that name none.")
@remote_command(retry_for_s=_RETRY_FOR_S)
def batch_command(
    remote: Remote, file: IO[bytes], idempotency_key: str | None, lane: str | None
) -> None:
    """Store every line of FILE, a schedule in JSON.

    A line has the fields of the API; - reads standard input. The command sends a thousand at a time
    and waits when the API asks it to. A refused line does not stop the others, but then the exit
    status is 1. With --json it prints an object a line.

    \b
    {"targetUrl": "https://example.com/hook", "triggerAt": "2026-12-24T18:00:00Z"}
    """
    from postdate import PostdateError

    key = idempotency_key or uuid.uuid4().hex
    if len(key) > _LONGEST_KEY:
        raise click.UsageError(f"--idempotency-key has at most {_LONGEST_KEY} characters here.")
    progress = Progress("Scheduling", _size_bytes(file), shown=not remote.as_json)
    report = Report(remote, progress)
    line = 1
    try:
        for chunk in chunks(file, lane):
            _store(remote, chunk, key, report)
            line = chunk[-1].number + 1
            progress.add(len(chunk), sum(len(line.text) for line in chunk))
            if report.credits_ended:
                break
    except (PostdateError, KeyboardInterrupt):
        report.interrupted(line, key)
        raise
    finally:
        progress.clear()
    if not remote.as_json:
        existing = f"{report.existing:,} waited already, " if report.existing else ""
        click.echo(f"{report.stored:,} scheduled, {existing}{report.refused:,} refused")
    if report.refused:
        sys.exit(1)


def chunks(lines: IO[bytes], lane: str | None = None) -> Iterator[list[BatchLine]]:
    """The lines of each call. A file is always cut alike, so that its repeat repeats each call."""
    chunk: list[BatchLine] = []
    chunk_bytes = 0
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        if len(chunk) == _MOST_AT_ONCE or (chunk and chunk_bytes + len(text) > _MOST_BYTES):
            yield chunk
            chunk, chunk_bytes = [], 0
        chunk.append(BatchLine(number, text, _fault(text), lane))
        chunk_bytes += len(text)
    if chunk:
        yield chunk


def _fault(text: bytes) -> str | None:
    """Why this line would make the API refuse the whole call."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return "It is not JSON"
    return None if isinstance(found, dict) else "It is not a JSON object"


def _store(remote: Remote, chunk: list[BatchLine], key: str, report: Report) -> None:
    """Raises PostdateError for faults that are not about a single line."""
    from postdate import Created

    good = [line for line in chunk if line.fault is None]
    found = _sent(remote.client, good, key)
    results = dict(zip((line.number for line in good), found, strict=True))
    for line in chunk:
        result = results.get(line.number)
        if isinstance(result, Created):
            report.created(line, result)
        else:
            report.refuse(line, result)


def _sent(client: Postdate, lines: list[BatchLine], key: str) -> list[Created | PostdateError]:
    """An answer for each line; a call that is too large is sent in halves."""
    from postdate import InvalidRequest

    if not lines:
        return []
    try:
        items = [line.item for line in lines]
        return [*client.schedule_batch(items, idempotency_key=f"{key}-{lines[0].number}")]
    except InvalidRequest as error:
        if error.status_code != _TOO_LARGE:
            raise
        if len(lines) == 1:
            return [error]
    half = len(lines) // 2
    # The first half has another key than the whole had, whose body was another one.
    return _sent(client, lines[:half], f"{key}.{half}") + _sent(client, lines[half:], key)


def _size_bytes(file: IO[bytes]) -> int | None:
    """None where it is unknown, as of standard input."""
    with contextlib.suppress(OSError, ValueError):
        found = os.fstat(file.fileno())
        return found.st_size if stat.S_ISREG(found.st_mode) else None
    return None
