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
from cli.parameters import (
    duration,
    filter_options,
    from_option,
    to_option,
    words,
)
from scheduler.texts import visible

if TYPE_CHECKING:
    from postdate import LogEntry, LogFilter, LogStatus, Postdate, SigningSecret

_EVERY_S = 1.0
_ENDED: tuple[LogStatus, ...] = ("retrying", "completed", "failed", "cancelled", "skipped")


@click.command(name="logs")
@click.argument("schedule_id", metavar="[ID]", required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on with what ends from now on.")
@click.option(
    "--status",
    "statuses",
    type=words("scheduled", *_ENDED, "executed", "all"),
    metavar="STATUS,...",
    help=f"Only these: scheduled, {', '.join(_ENDED)}; executed is completed and failed."
    "  [default: all]",
)
@click.option(
    "--callback",
    type=click.Choice(["pending", "delivered", "failed"]),
    help="Only ends whose callback stands so.",
)
@filter_options()
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--order", type=click.Choice(["asc", "desc"]), help="[default: desc, newest first]")
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
    """Show the log: executed, cancelled and waiting schedules; of the schedule ID its attempts, the
    oldest first.

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
                "--follow goes with --status (of what ended), --target, --reference, --lane,"
                " --recurring, --limit."
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
    line = _attempt_lines if schedule_id else _line
    remote.show(entries, "\n".join(map(line, entries)) or "No entries.")


@click.command(name="stats")
@from_option(" [default: 30 days before the end]")
@to_option(" [default: now]")
@remote_command()
def stats_command(remote: Remote, from_: str | None, to: str | None) -> None:
    """Count executions, and show the credits that are left."""
    found = remote.client.stats(from_=from_, to=to)
    remaining = remote.client.credits()
    period = f"from {when(found.time_range.from_)} to {when(found.time_range.to)}"
    ended = f"{found.successful_invocations:,} completed, {found.failed_invocations:,} failed"
    lines = [
        f"{found.total_invocations:,} executed {period}",
        f"{ended}, {found.average_response_time:,.1f} ms on average",
        f"{remaining:,} credits left",
    ]
    answer = {**dict(as_api(found)), "creditsRemaining": remaining}  # type: ignore[call-overload]
    remote.show(answer, "\n".join(lines))


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
        _print(remote, tail.look(limit))  # here they are errors like any other
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


def _print(remote: Remote, entries: list[LogEntry]) -> None:
    for entry in entries:
        remote.show(entry, _line(entry))


def _line(entry: LogEntry) -> str:
    parts = [
        when(entry.executed_at or entry.scheduled_at),
        f"{entry.status:9}",
        f"{entry.status_code or '-':>3}",
        f"{entry.response_time_ms:>5} ms",
        f"{entry.target_method} {entry.target_url}",
        entry.schedule_id,
        *([] if entry.reference is None else [entry.reference]),
        *([] if entry.lane is None else [f"in {entry.lane}"]),
        entry.error_message,
    ]
    if entry.status == "skipped":
        parts[2:] = [f"{entry.missed:,} missed", entry.recurring_id or "", entry.error_message]
    if entry.next_attempt_at is not None:
        parts.append(f"attempt {entry.attempt + 1} at {when(entry.next_attempt_at)}")
    return "  ".join(parts).rstrip()


def _attempt_lines(entry: LogEntry) -> str:
    """The same, and below it how late it was, its phases, and what the target said."""
    lines = [_line(entry)]
    if entry.lateness_ms is not None:
        lines.append(f"{entry.lateness_ms:,} ms late")
    if entry.phases is not None:
        lines.append(phases_text(entry.phases))
    if entry.response_body:
        lines.append(shown_text(entry.response_body))
    return "\n    ".join(lines)


@click.group(name="signing")
def signing_group() -> None:
    """Show or rotate the secrets that sign requests."""


@signing_group.command(name="show")
@remote_command()
def show_command(remote: Remote) -> None:
    """Show the secrets that sign requests, the newest first."""
    secrets = remote.client.signing()
    remote.show(secrets, _secrets_text(secrets))


@signing_group.command(name="rotate")
@click.option(
    "--keep-for",
    type=duration,
    help="How long older secrets stay valid: 0s to 7d. [default: 1d]",
)
@remote_command()
def rotate_command(remote: Remote, keep_for: timedelta | None) -> None:
    """Make a new secret. Older ones stay valid for a while, so that targets can follow."""
    secrets = remote.client.rotate_signing(keep_for=keep_for)
    remote.show(secrets, _secrets_text(secrets))


def _secrets_text(secrets: Sequence[SigningSecret]) -> str:
    lines = []
    for each in secrets:
        since = f"since {when(each.created_at)}"
        good = f"until {when(each.expires_at)}" if each.expires_at else since
        lines.append(f"{each.secret_id}  {each.secret}  {good}")
    return "\n".join(lines)
