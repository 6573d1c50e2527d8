"""`postdate hold` and `postdate resume`: nothing is fired for a while, all else goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.options import Context, command, with_store
from scheduler.times import format_iso8601

if TYPE_CHECKING:
    from scheduler.store.operators.hold import Held


@click.command(name="hold")
@click.option("--status", is_flag=True, help="Only say whether it is on hold, and since when.")
@command()
def hold_command(context: Context, status: bool) -> None:
    """Have no worker claim anything, until `postdate resume`.

    Schedules are accepted, changed and cancelled as ever; what is due waits, and fires late. What
    workers have claimed already ends as usual. It holds for workers that start later, too, and
    through restarts of the store.
    """
    if status:
        held = with_store(
            context.settings, lambda store: store.hold.look(), read_only=True, needs_keys=False
        )
        _tell_status(context, held)
        return
    begun = with_store(context.settings, lambda store: store.hold.begin(), needs_keys=False)
    tell_hold(context, begun)


@click.command(name="resume")
@command()
def resume_command(context: Context) -> None:
    """Have workers claim again what is due: ends `postdate hold`."""
    with_store(context.settings, lambda store: store.hold.end(), needs_keys=False)
    context.show({"onHoldSince": None}, "Resumed: what is due is claimed again.")


def _tell_status(context: Context, held: Held) -> None:
    """JSON has the shards too: a command that was cut off leaves only some of them on hold."""
    since = None if held.since_ms is None else format_iso8601(held.since_ms)
    text = "Not on hold: what is due is claimed."
    if since is not None:
        text = _on_hold(since)
    elif held.on_hold:
        text = (
            f"{held.on_hold} of {held.shards} shards are on hold, and the others are not: repeat"
            " `postdate hold` or `postdate resume`, which was cut off."
        )
    answer = {"onHoldSince": since, "shardsOnHold": held.on_hold, "shards": held.shards}
    context.show(answer, text)


def tell_hold(context: Context, since_ms: int) -> None:
    since = format_iso8601(since_ms)
    context.show({"onHoldSince": since}, _on_hold(since))


def _on_hold(since: str) -> str:
    return f"On hold since {since}: nothing is claimed. `postdate resume` goes on."
