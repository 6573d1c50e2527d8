"""`postdate cancel`: schedules that are no longer wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.remote import Remote, remote_command

if TYPE_CHECKING:
    from postdate import Cancelled


@click.command(name="cancel")
@click.argument("schedule_ids", metavar="ID...", nargs=-1, required=True)
@remote_command()
def cancel_command(remote: Remote, schedule_ids: tuple[str, ...]) -> None:
    """Cancel waiting schedules, and have their credits back.

    One that was attempted already is stopped: it ends as failed, and no credit comes back.
    """
    if len(schedule_ids) > 1:
        done = remote.client.cancel_many(schedule_ids)
        remote.show_many(done, _text, id_name="scheduleId", was="cancelled")
        return
    cancelled = remote.client.cancel(schedule_ids[0])
    text = f"{cancelled.schedule_id}  {cancelled.message}"
    remote.show(cancelled, f"{text}  {cancelled.credits_remaining:,} credits")


def _text(each: Cancelled) -> str:
    how = "Cancelled" if each.status == "cancelled" else "Stopped after an attempt"
    return f"{how}  {each.credits_remaining:,} credits"
