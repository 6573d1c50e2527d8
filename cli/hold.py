"""`postdate hold` and `postdate resume`: nothing is fired for a while, all else goes on."""

from __future__ import annotations

import click

from cli.options import Context, command, open_store, with_store
from scheduler.settings import Settings
from scheduler.times import format_iso8601


@click.command(name="hold")
@command()
def hold_command(context: Context) -> None:
    """Have no worker claim anything, until `postdate resume`.

    Schedules are accepted, changed and cancelled as ever; what is due waits, and fires late. What
    workers have claimed already ends as usual. It holds for workers that start later, too, and
    through restarts of the store.
    """
    tell_hold(context, with_store(context.settings, lambda store: store.hold.begin()))


@click.command(name="resume")
@command()
def resume_command(context: Context) -> None:
    """Have workers claim again what is due; the end of `postdate hold`."""
    with_store(context.settings, lambda store: store.hold.end())
    context.show({"onHoldSince": None}, "Resumed: what is due is claimed again.")


async def hold_since(settings: Settings, *, begin: bool) -> int | None:
    """Since when the store is on hold (ms), having begun it if that is wanted; None: it is not."""
    store = await open_store(settings)
    try:
        return await store.hold.begin() if begin else await store.hold.since_ms()
    finally:
        await store.aclose()


def tell_hold(context: Context, since_ms: int) -> None:
    since = format_iso8601(since_ms)
    context.show(
        {"onHoldSince": since},
        f"On hold since {since}: nothing is claimed. `postdate resume` goes on.",
    )
