"""The keys of the door's signature, over HTTP."""

from __future__ import annotations

import asyncio

from tests.qstash.conftest import Door, door_of

KEYS, ROTATE = "/qstash/v2/keys", "/qstash/v2/keys/rotate"


async def test_two_first_calls_get_the_same_keys(door: Door) -> None:
    answers = await asyncio.gather(*(door.client.get(KEYS) for _ in range(3)))
    assert [each.status_code for each in answers] == [200] * 3
    first = answers[0].json()
    assert [each.json() for each in answers] == [first] * 3
    assert sorted(first) == ["current", "next"]
    other = await door_of(door.app, door.store)
    theirs = (await other.client.get(KEYS)).json()
    assert not set(theirs.values()) & set(first.values())


async def test_a_rotation_is_told_and_noted(door: Door) -> None:
    before = (await door.client.get(KEYS)).json()
    answer = await door.client.post(ROTATE)
    assert answer.status_code == 200
    after = answer.json()
    assert after["current"] == before["next"]
    assert after["next"] not in before.values()
    assert (await door.client.get(KEYS)).json() == after
    event, *_ = await door.store.events.newest(door.account_id)
    assert (event.kind, event.who) == ("secrets-rotated", "API key test")


async def test_native_calls_do_not_show_them(door: Door) -> None:
    before = (await door.client.get(KEYS)).json()
    answer = await door.client.get("/signing", headers={"x-api-key": door.key})
    assert answer.status_code == 200
    [only] = answer.json()["secrets"]
    assert only["secretId"].startswith("sec_")
    assert not any(each in answer.text for each in before.values())
