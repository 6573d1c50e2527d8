"""`postdate cancel`: a schedule that is no longer wanted."""

from __future__ import annotations

import click

from cli.remote import Remote, remote_command


@click.command(name="cancel")
@click.argument("schedule_id", metavar="ID")
@remote_command
def cancel_command(remote: Remote, schedule_id: str) -> None:
    """Cancel the waiting schedule ID, and have its credit back."""
    cancelled = remote.client.cancel(schedule_id)
    text = f"{cancelled.schedule_id}  {cancelled.message}"
    remote.show(cancelled, f"{text}  {cancelled.credits_remaining:,} credits")
