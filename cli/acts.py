"""Operators' acts by the command line, noted for the dashboard's audit page."""

from __future__ import annotations

import getpass
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click

from scheduler.events import Kind

if TYPE_CHECKING:
    from scheduler.store import Store


def _by() -> str:
    """Who runs the command, as the machine knows them."""
    try:
        return f"command line ({getpass.getuser()})"
    except (OSError, KeyError):  # a container runs with a number that has no name
        return f"command line (user {os.getuid()})"


@asynccontextmanager
async def noted(
    store: Store,
    kind: Kind,
    account_id: str = "",
    about: str = "",
    since_ms: int | None = None,
) -> AsyncIterator[None]:
    """Around an act; says on standard error if it was done and could not be noted."""
    act = store.events.act(kind, who=_by(), account_id=account_id, about=about, since_ms=since_ms)
    async with act as note:
        yield
    if note.lost:
        click.echo("It was done, but the store did not take its entry for the audit.", err=True)


async def begin_hold(store: Store) -> int:
    """Returns since when (ms)."""
    async with noted(store, Kind.HOLD):
        return await store.hold.begin()


async def end_hold(store: Store) -> None:
    held = await store.hold.look()
    async with noted(store, Kind.RESUMED, since_ms=held.since_ms):
        await store.hold.end()
