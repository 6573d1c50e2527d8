"""Damage told as a finding: of a key that is of another kind, or has what nobody wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from scheduler import ids
from scheduler.errors import StoreRefused

_DAMAGED = (StoreRefused, msgspec.MsgspecError, ValueError)


@contextmanager
def told(found: list[str], what: str) -> Iterator[None]:
    """Around a look at something: where it is damaged, that is a finding, and others are looked at.
    That the store is away is none."""
    try:
        yield
    except _DAMAGED as error:
        why = str(error).partition(" script: ")[0]
        found.append(f"{what} cannot be read: {why}")


def text(stored: bytes) -> str:
    """What should be text, shown whatever it is."""
    return stored.decode(errors="backslashreplace")


def schedule_or_none(local: bytes) -> str | None:
    """A schedule as the store spells it; None if it can be none."""
    found = text(local)
    return found if ids.is_schedule_id(ids.schedule_id(found)) else None
