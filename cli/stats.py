"""`postdate stats`: executions counted, and the credits that are left."""

from __future__ import annotations

import click

from cli.parameters import from_option, to_option
from cli.remote import Remote, as_api, remote_command, when


@click.command(name="stats")
@from_option(" [default: 30 days before the end]")
@to_option(" [default: now]")
@remote_command()
def stats_command(remote: Remote, from_: str | None, to: str | None) -> None:
    """Count executions, and tell the credits that are left."""
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
