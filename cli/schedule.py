"""`postdate schedule`: a request with a future date on it."""

from __future__ import annotations

from typing import Any

import click

from cli.parameters import Base64, Bytes, Duration, Header, JsonObject, Moment, local_zone
from cli.remote import Remote, remote_command


@click.command(name="schedule")
@click.argument("target", metavar="URL")
@click.option(
    "--in",
    "in_",
    type=Duration(),
    metavar="DURATION",
    help="10s, 5m, 2h, 1h30m, 1d; a plain number is seconds.",
)
@click.option(
    "--delay",
    type=Duration(),
    metavar="DURATION",
    help="As --in, but by the clock of Postdate and not by this machine's.",
)
@click.option(
    "--at",
    type=Moment(),
    metavar="TIME",
    help="'2026-12-24 18:00', 2026-12-24T18:00Z; without a zone it is this machine's"
    f" ({local_zone()}).",
)
@click.option("--method", help="[default: POST with a body, GET without]")
@click.option(
    "--header", "headers", type=Header(), multiple=True, metavar="K:V", help="As often as needed."
)
@click.option(
    "--body", type=JsonObject(), metavar="JSON", help="A JSON object; @FILE reads one, @- stdin."
)
@click.option("--text", metavar="TEXT", help="Text to send instead, as UTF-8.")
@click.option(
    "--data",
    type=Bytes(),
    metavar="DATA",
    help="Any bytes to send instead: @FILE reads a file, @- stdin.",
)
@click.option("--base64", type=Base64(), metavar="BASE64", help="Such bytes in base64.")
@click.option("--delivery", type=click.Choice(["at-least-once", "at-most-once"]))
@click.option(
    "--expires-at",
    type=Moment(),
    metavar="TIME",
    help="The last moment at which it may be fired; as --at.",
)
@click.option("--idempotency-key", metavar="KEY", help="Repeating with it stores nothing twice.")
@remote_command
def schedule_command(
    remote: Remote,
    target: str,
    headers: tuple[tuple[str, str], ...],
    body: dict[str, Any] | None,
    text: str | None,
    data: bytes | None,
    base64: bytes | None,
    **options: Any,
) -> None:
    """Have URL called at a chosen time. Costs one credit.

    \b
    postdate schedule https://example.com/hook --in 10m --body '{"hello": "future"}'
    """
    if [options["at"], options["in_"], options["delay"]].count(None) != 2:
        raise click.UsageError("Say when, with one of --in, --delay and --at.")
    if [body, text, data, base64].count(None) < 3:
        raise click.UsageError("Give one body, with --body, --text, --data or --base64.")
    created = remote.client.schedule(
        target,
        json=body,
        text=text,
        data=data if base64 is None else base64,
        headers=dict(headers) or None,
        **options,
    )
    remote.show(created, f"{created.schedule_id}  {created.message}")
