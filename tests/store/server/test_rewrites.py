"""While the files of a server are copied, it does not rewrite them."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from scheduler.store import Store
from scheduler.store.operators.system import System
from tests.support.plain import redis_of

_SETTING = "auto-aof-rewrite-percentage"


async def percentage(store: Store) -> int:
    client: Any = redis_of(store)
    return int((await client.config_get(_SETTING))[_SETTING])


async def test_rewrites_are_held_back_and_then_as_they_were(store: Store) -> None:
    client: Any = redis_of(store)
    before = await percentage(store)
    await client.config_set(_SETTING, 70)
    try:
        async with store.system.rewrites_held_back():
            assert await percentage(store) == 0
        assert await percentage(store) == 70
        with pytest.raises(OSError, match="no room"):
            async with store.system.rewrites_held_back():
                raise OSError("no room")
        assert await percentage(store) == 70
    finally:
        await client.config_set(_SETTING, before)


async def test_one_that_is_under_way_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Busy:
        """A server that ends a rewrite after three looks."""

        def __init__(self) -> None:
            self.calls: list[str] = []

        async def ask(self, *words: object) -> list[bytes]:
            if words[1] == "SET":
                self.calls.append(f"set {words[3]}")
            return [b"", b"100"]

        async def info(self, section: str) -> dict[str, str]:
            self.calls.append("look")
            return {"aof_rewrite_in_progress": str(int(self.calls.count("look") < 3))}

    monkeypatch.setattr("scheduler.store.operators.system._LOOK_EVERY_S", 0.0)
    busy: Any = Busy()
    async with System(busy, Mock(), Mock()).rewrites_held_back():
        busy.calls.append("copy")
    assert busy.calls == ["set 0", "look", "look", "look", "copy", "set b'100'"]
