"""`postdate cancel`: schedules that are no longer wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.output import fail
from cli.remote import Remote, remote_command

if TYPE_CHECKING:
    from postdate import Cancelled, PostdateError


@click.command(name="cancel")
@click.argument("schedule_ids", metavar="ID...", nargs=-1, required=True)
@remote_command
def cancel_command(remote: Remote, schedule_ids: tuple[str, ...]) -> None:
    """Cancel waiting schedules, and have their credits back.

    One that was attempted already is stopped: it ends as failed, and no credit comes back.
    """
    if len(schedule_ids) > 1:
        _cancel_many(remote, schedule_ids)
        return
    cancelled = remote.client.cancel(schedule_ids[0])
    text = f"{cancelled.schedule_id}  {cancelled.message}"
    remote.show(cancelled, f"{text}  {cancelled.credits_remaining:,} credits")


def _cancel_many(remote: Remote, schedule_ids: tuple[str, ...]) -> None:
    """A line for each; the exit status is 1 if one of them was not cancelled."""
    done = remote.client.cancel_many(schedule_ids)
    remote.show([_as_json(each) for each in done], "\n".join(map(_line, done)))
    refused = [each for each in done if isinstance(each, Exception)]
    if refused:
        fail(f"{len(refused):,} of {len(done):,} could not be cancelled", as_json=remote.as_json)


def _line(each: Cancelled | PostdateError) -> str:
    if isinstance(each, Exception):
        return f"{each.schedule_id}  {each}"
    how = "Cancelled" if each.status == "cancelled" else "Stopped after an attempt"
    return f"{each.schedule_id}  {how}  {each.credits_remaining:,} credits"


def _as_json(each: Cancelled | PostdateError) -> object:
    if isinstance(each, Exception):
        return {"scheduleId": each.schedule_id, "code": each.status_code, "error": str(each)}
    return each
