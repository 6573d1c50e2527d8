"""`postdate migrate`: brings the store to the format of this version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.options import Context, command, with_store

if TYPE_CHECKING:
    from scheduler.store import Store


@click.command(name="migrate")
@command()
def migrate_command(context: Context) -> None:
    """Bring the store to the format of this version.

    Safe to repeat, and to run before every upgrade. The formats before this one were never
    released, so that there is nothing to bring; a store of another one is refused, and left as it
    is.
    """

    async def read(store: Store) -> int:  # which was opened, so it is a format that we read
        return store.shards.format

    found = with_store(context.settings, read)
    context.show(
        {"format": found, "migrated": False},
        f"The store has format {found}, as this version: there is nothing to migrate.",
    )
