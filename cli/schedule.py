"""`postdate schedule`: a request with a future date on it."""

from __future__ import annotations

from typing import Any

import click

from cli.remote import Remote, remote_command
from cli.request import request_arguments, request_options, says_when


@click.command(name="schedule")
@click.argument("target", metavar="URL")
@request_options
@click.option("--idempotency-key", metavar="KEY", help="Repeating with it stores nothing twice.")
@remote_command()
def schedule_command(
    remote: Remote, target: str, idempotency_key: str | None, **options: Any
) -> None:
    """Have URL called at a chosen time. Costs one credit.

    \b
    postdate schedule https://example.com/hook --in 10m --body '{"hello": "future"}'
    """
    if not says_when(options):
        raise click.UsageError("Say when, with one of --in, --delay and --at.")
    created = remote.client.schedule(
        target, idempotency_key=idempotency_key, **request_arguments(options)
    )
    remote.show(created, f"{created.schedule_id}  {created.message}")
