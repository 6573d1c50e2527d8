"""`postdate change`: another time, or another request, for what still waits."""

from __future__ import annotations

from typing import Any

import click

from cli.remote import Remote, remote_command
from cli.request import request_arguments, request_options
from cli.schedules import details_of

# What may be given up, by the names of the client's arguments.
_CLEARED = {
    "body": "json",
    "text": "text",
    "data": "data",
    "method": "method",
    "headers": "headers",
    "delivery": "delivery",
    "expires-at": "expires_at",
    "retries": "retries",
    "retry-delays": "retry_delays",
}


@click.command(name="change")
@click.argument("schedule_id", metavar="ID")
@click.option("--target", metavar="URL", help="Where to send it instead.")
@request_options
@click.option(
    "--clear",
    "cleared",
    type=click.Choice(list(_CLEARED)),
    multiple=True,
    help="What it shall no longer say; as often as needed.",
)
@remote_command()
def change_command(
    remote: Remote,
    schedule_id: str,
    target: str | None,
    cleared: tuple[str, ...],
    **options: Any,
) -> None:
    """Change what the waiting schedule ID asks for, or when. What is not given stays.

    Each is replaced as a whole, all headers by those that are given. No credit moves.

    \b
    postdate change sch_01m7zb65jxey8a0h1qyts1g7mv --in 2h
    """
    given = request_arguments(options)
    nothing: dict[str, Any] = {_CLEARED[name]: None for name in cleared}
    both = sorted(given.keys() & nothing.keys())
    if both:
        raise click.UsageError(f"It cannot be given and cleared: {', '.join(both)}.")
    if target is not None:
        given["url"] = target
    if not given and not nothing:
        raise click.UsageError("Say what to change: postdate change --help lists it.")
    changed = remote.client.change(schedule_id, **given, **nothing)
    remote.show(changed, details_of(changed))
