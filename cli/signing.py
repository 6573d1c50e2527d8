"""`postdate signing`: what requests are signed with."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from cli.parameters import duration
from cli.remote import Remote, remote_command, when

if TYPE_CHECKING:
    from postdate import SigningSecret


@click.group(name="signing")
def signing_group() -> None:
    """Show what requests are signed with, and rotate it."""


@signing_group.command(name="show")
@remote_command()
def show_command(remote: Remote) -> None:
    """Show the secrets that requests are signed with, the newest first."""
    secrets = remote.client.signing()
    remote.show(secrets, _text(secrets))


@signing_group.command(name="rotate")
@click.option(
    "--keep-for",
    type=duration,
    help="How long the secrets before stay good: 0s to 7d. [default: 1d]",
)
@remote_command()
def rotate_command(remote: Remote, keep_for: timedelta | None) -> None:
    """Make a new secret; those before stay good for a while, so that targets can follow."""
    secrets = remote.client.rotate_signing(keep_for=keep_for)
    remote.show(secrets, _text(secrets))


def _text(secrets: Sequence[SigningSecret]) -> str:
    lines = []
    for each in secrets:
        since = f"since {when(each.created_at)}"
        good = f"until {when(each.expires_at)}" if each.expires_at else since
        lines.append(f"{each.secret_id}  {each.secret}  {good}")
    return "\n".join(lines)
