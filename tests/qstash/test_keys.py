"""The keys of the door's signature, over HTTP."""

from __future__ import annotations

import asyncio

from tests.qstash.conftest import Door
from tests.qstash.ends import get, post, said


async def test_first_calls_get_the_same_keys(door: Door) -> None:
    first, *others = await asyncio.gather(*(get(door, "keys") for _ in range(3)))
    assert others == [first] * 2
    assert sorted(first) == ["current", "next"]


async def test_a_rotation_is_told_and_noted(door: Door) -> None:
    before = await get(door, "keys")
    after = await post(door, "keys/rotate")
    assert after["current"] == before["next"]
    assert after["next"] not in before.values()
    assert await get(door, "keys") == after
    event, *_ = await door.store.events.newest(door.account_id)
    assert (event.kind, event.who) == ("secrets-rotated", "API key test")


async def test_native_calls_do_not_show_them(door: Door) -> None:
    keys = await get(door, "keys")
    native = await said(await door.client.get("/signing"))
    assert [each["secretId"][:4] for each in native["secrets"]] == ["sec_"]
    assert not any(each in str(native) for each in keys.values())
