"""`postdate stats`: executions counted, and the credits that are left."""

from __future__ import annotations

import click

from cli.parameters import Moment, local_zone
from cli.remote import Remote, as_api, remote_command, when


@click.command(name="stats")
@click.option(
    "--from",
    "from_",
    type=Moment(),
    metavar="TIME",
    help="2026-12-24, '2026-12-24 18:00', 2026-12-24T18:00Z; without a zone it is this machine's"
    f" ({local_zone()}). [default: 30 days before the end]",
)
@click.option(
    "--to", type=Moment(), metavar="TIME", help="As --from; no longer in it. [default: now]"
)
@remote_command
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
