"""While the files of a server are copied, it does not rewrite them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.store import Store
from scheduler.store.operators.rewrites import Rewrites

_SETTING = "auto-aof-rewrite-percentage"


async def percentage(store: Store) -> int:
    client: Any = store.client
    return int((await client.config_get(_SETTING))[_SETTING])


async def test_rewrites_are_held_back_and_then_as_they_were(store: Store) -> None:
    client: Any = store.client
    before = await percentage(store)
    await client.config_set(_SETTING, 70)
    try:
        async with store.rewrites.held_back():
            assert await percentage(store) == 0
        assert await percentage(store) == 70
        with pytest.raises(OSError, match="no room"):
            async with store.rewrites.held_back():
                raise OSError("no room")
        assert await percentage(store) == 70
    finally:
        await client.config_set(_SETTING, before)


async def test_one_that_is_under_way_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Busy:
        """A client of a server that ends a rewrite after three looks."""

        def __init__(self) -> None:
            self.calls: list[str] = []

        async def config_get(self, name: str) -> dict[str, str]:
            return {name: "100"}

        async def config_set(self, name: str, value: object) -> None:
            self.calls.append(f"set {value}")

        async def info(self, section: str) -> dict[str, int]:
            self.calls.append("look")
            return {"aof_rewrite_in_progress": int(self.calls.count("look") < 3)}

    monkeypatch.setattr("scheduler.store.operators.rewrites._LOOK_EVERY_S", 0.0)
    client: Any = Busy()
    async with Rewrites(client).held_back():
        client.calls.append("copy")
    assert client.calls == ["set 0", "look", "look", "look", "copy", "set 100"]
