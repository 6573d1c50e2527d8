"""Small parts of calls, and calls that end between two of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from scheduler.errors import OutcomeUnknown
from scheduler.store.lifecycle.create.create_rows import Part
from scheduler.store.lifecycle.create.creator import _CREATE, Creator
from scheduler.store.server import Script
from tests.store.scene import Scene

# Rows of a part with `small_parts`, of whatever kind they are.
PIECE = 4


def at_part(
    monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], Awaitable[object]]
) -> None:
    """Does something before the part of that number is sent, of the next call that has so many."""
    send, sent = Creator._send, 0

    async def sending(self: Creator, call: Any, part: Part) -> bytes:
        nonlocal sent
        sent += 1
        if sent == number:
            await act()
        return await send(self, call, part)

    monkeypatch.setattr(Creator, "_send", sending)


async def cut() -> None:
    raise OutcomeUnknown("The store's answer was lost")


def lose_reply(monkeypatch: pytest.MonkeyPatch, scene: Scene, number: int) -> None:
    """Loses the store's reply to the part of that number, once."""
    write, sent = scene.store.server.write, 0

    async def lose(script: Script, key: str, arguments: Any) -> Any:
        nonlocal sent
        reply = await write(script, key, arguments)
        sent += script is _CREATE
        if sent == number and script is _CREATE:
            await cut()
        return reply

    monkeypatch.setattr(scene.store.server, "write", lose)
