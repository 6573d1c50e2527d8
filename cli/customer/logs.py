"""`postdate logs`, once or as it comes, `stats` and `signing`: what an account has besides its
schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import takewhile
from time import sleep as _pause
from typing import TYPE_CHECKING, Any, Literal

import click

from cli.customer.remote import Remote, as_api, remote_command, sentence_of, when
from cli.customer.schedules import phases_text, shown_text
from cli.output import show
from cli.parameters import (
    Choice,
    Group,
    Whole,
    Words,
    duration,
    filter_options,
    from_option,
    to_option,
)
from cli.tables import LABELS, NOTE, REQUEST, Column, Row, at, fields, streamed
from scheduler.texts import visible

if TYPE_CHECKING:
    from postdate import LogEntry, LogFilter, LogStatus, Postdate, SigningSecret

_EVERY_S = 1.0
_COLUMNS = (
    Column("TIME (UTC)", usual=19), Column("STATUS", usual=9), Column("CODE", right=True),
    Column("MS", right=True, usual=5), Column("ID", usual=30), REQUEST,
    Column("REFERENCE"), Column("LANE"), LABELS, NOTE,
)  # fmt: skip
_SECRET_COLUMNS = (
    Column("ID"), Column("SECRET"), Column("SINCE (UTC)"), Column("UNTIL (UTC)"),
)  # fmt: skip
_ENDED: tuple[LogStatus, ...] = ("retrying", "completed", "failed", "cancelled", "skipped")


@click.command(name="logs")
@click.argument("schedule_id", metavar="[ID]", required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on with what ends from now on.")
@click.option(
    "--status",
    "statuses",
    type=Words("scheduled", *_ENDED, "executed", "all"),
    metavar="STATUS,...",
    help=f"Only these: scheduled, {', '.join(_ENDED)}; executed is completed and failed."
    "  [default: all]",
)
@click.option(
    "--callback",
    type=Choice(["pending", "delivered", "failed"]),
    help="Only ends whose callback stands so.",
)
@filter_options()
@click.option("--limit", type=Whole(min=1), default=20, show_default=True)
@click.option("--order", type=Choice(["asc", "desc"]), help="[default: desc, newest first]")
@remote_command()
def logs_command(
    remote: Remote,
    schedule_id: str | None,
    follow: bool,
    statuses: list[LogFilter] | None,
    limit: int,
    order: Literal["asc", "desc"] | None,
    **filters: Any,
) -> None:
    """Show the log of all schedules, or the attempts of one.

    It has executed, cancelled and waiting schedules, the newest first, or the attempts of the
    schedule ID, the oldest first.
    With --follow it goes on until Ctrl-C, oldest first, one line (with --json, one object) an
    entry, with all that has ended.
    """
    if follow:
        if (
            schedule_id
            or filters["from_"]
            or filters["to"]
            or order
            or filters["callback"]
            or "scheduled" in (statuses or ())
        ):
            raise click.UsageError(
                "--follow goes with --status (of what ended), --target, --reference, --label,"
                " --lane, --recurring, --limit."
            )
        tail = Tail(remote.client, statuses or ["all"], filters)
        _follow(remote, tail, limit)
        return
    found = remote.client.logs(
        schedule_id=schedule_id,
        status=statuses or (None if filters["callback"] else "all"),
        limit=limit,
        order=order,
        **filters,
    )
    entries = list(found)
    row = _attempt_row if schedule_id else _row
    remote.show_table(entries, _COLUMNS, [row(entry) for entry in entries], "No entries.")


@click.command(name="stats")
@from_option(" [default: 30 days before the end]")
@to_option(" [default: now]")
@remote_command()
def stats_command(remote: Remote, from_: str | None, to: str | None) -> None:
    """Count executions, and show the credits that are left."""
    found = remote.client.stats(from_=from_, to=to)
    remaining = remote.client.credits()
    lines = {
        "from": when(found.time_range.from_),
        "to": when(found.time_range.to),
        "executed": f"{found.total_invocations:,}",
        "completed": f"{found.successful_invocations:,}",
        "failed": f"{found.failed_invocations:,}",
        "response time": f"{found.average_response_time:,.1f} ms on average",
        "credits left": f"{remaining:,}",
    }
    answer = {**dict(as_api(found)), "creditsRemaining": remaining}  # type: ignore[call-overload]
    remote.show(answer, fields(lines))


class Tail:
    """What has ended since the last look; "all" names all such statuses. The newest entry seen is
    where the next look stops: entries are only added at the end, so no clock matters."""

    def __init__(
        self,
        client: Postdate,
        statuses: Sequence[LogFilter],
        filters: Mapping[str, Any] | None = None,
    ) -> None:
        self._client = client
        self._statuses = _ENDED if "all" in statuses else statuses
        self._filters = filters or {}
        self._newest: tuple[object, ...] = ()
        self._first = True

    def look(self, limit: int) -> list[LogEntry]:
        """Oldest first; the first look finds the last `limit`, the others all that is new.

        Raises PostdateError; the next look then finds what this one would have.
        """
        most = limit if self._first else None
        entries = self._client.logs(status=self._statuses, limit=most, **self._filters)
        new = list(takewhile(lambda entry: _name(entry) != self._newest, entries))
        self._first = False
        self._newest = _name(new[0]) if new else self._newest
        return new[::-1]


def _name(entry: LogEntry) -> tuple[object, ...]:
    """Unique: an invocation has several attempts, and one that is stopped ends as the last did.
    One that is skipped has no invocation."""
    missed = (entry.recurring_id, entry.scheduled_at) if entry.status == "skipped" else ()
    return entry.invocation_id, entry.attempt, entry.status, *missed


def _follow(remote: Remote, tail: Tail, limit: int) -> None:
    """Until Ctrl-C. Errors that may pass are printed once and waited for."""
    from postdate import ConnectionFailed, RateLimited, Unavailable

    passing: Any = (ConnectionFailed, RateLimited, Unavailable)
    warned = False
    try:
        _print(remote, tail.look(limit), head=True)  # here they are errors like any other
        while True:
            _pause(_EVERY_S)
            try:
                _print(remote, tail.look(limit))
                warned = False
            except passing as error:
                if not warned:
                    click.echo(visible(f"{sentence_of(error)}; trying again."), err=True)
                warned = True
    except KeyboardInterrupt:
        return


def _print(remote: Remote, entries: list[LogEntry], *, head: bool = False) -> None:
    if remote.as_json:
        for entry in entries:
            remote.show(entry, "")
    elif entries or head:
        show(None, streamed(_COLUMNS, map(_row, entries), head=head), as_json=False)


def _row(entry: LogEntry) -> Row:
    request = f"{entry.target_method} {entry.target_url}"
    code, took, name = (
        f"{entry.status_code or ''}",
        f"{entry.response_time_ms:,}" if entry.executed_at else "",
        entry.schedule_id,
    )
    notes = [entry.error_message] if entry.error_message else []
    if entry.status == "skipped":
        code, took, request, name = "", "", "", entry.recurring_id or ""
        notes.insert(0, f"{entry.missed:,} missed")
    if entry.next_attempt_at is not None:
        notes.append(f"attempt {entry.attempt + 1} at {at(entry.next_attempt_at)}")
    moment = at(entry.executed_at or entry.scheduled_at)
    names = (name, request, entry.reference or "", entry.lane or "", ", ".join(entry.labels))
    return Row([moment, entry.status, code, took, *names, ", ".join(notes)])


def _attempt_row(entry: LogEntry) -> Row:
    """The same, and below it how late it was, its phases, and what the target said."""
    below = []
    if entry.lateness_ms is not None:
        below.append(f"{entry.lateness_ms:,} ms late")
    if entry.phases is not None:
        below.append(phases_text(entry.phases))
    if entry.response_body:
        below.append(shown_text(entry.response_body))
    return _row(entry)._replace(below=below)


@click.group(name="signing", cls=Group)
def signing_group() -> None:
    """Show or rotate the secrets that sign requests."""


@signing_group.command(name="show")
@remote_command()
def show_command(remote: Remote) -> None:
    """Show the secrets that sign requests, the newest first."""
    _show_secrets(remote, remote.client.signing())


@signing_group.command(name="rotate")
@click.option(
    "--keep-for",
    type=duration,
    help="How long older secrets stay valid: 0s to 7d. [default: 1d]",
)
@remote_command()
def rotate_command(remote: Remote, keep_for: timedelta | None) -> None:
    """Make a new secret. Older ones stay valid for a while, so that targets can follow."""
    _show_secrets(remote, remote.client.rotate_signing(keep_for=keep_for))


def _show_secrets(remote: Remote, secrets: Sequence[SigningSecret]) -> None:
    rows = [
        Row([each.secret_id, each.secret, at(each.created_at), at(each.expires_at)])
        for each in secrets
    ]
    remote.show_table(secrets, _SECRET_COLUMNS, rows)
