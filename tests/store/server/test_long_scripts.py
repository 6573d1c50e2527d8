"""Long scripts go to the store one at a time, and accounts take turns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.models import Packed, Request, Upsert
from scheduler.runtime.one_at_a_time import OneAtATime
from scheduler.store.server import Script
from tests.store.scene import URL, Scene


class Sent:
    """Scripts that are sent and not answered until they may be."""

    def __init__(self) -> None:
        self.scripts = OneAtATime()
        self.order: list[str] = []
        self.under_way = 0

    async def send(self, account: str, place: str = "") -> None:
        async with self.scripts.turn(place, account):
            self.order.append(account)
            self.under_way += 1
            await asyncio.sleep(0)
            self.under_way -= 1

    def start(self, *accounts: str, place: str = "") -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.send(each, place)) for each in accounts]


async def test_one_goes_at_a_time_and_accounts_take_turns() -> None:
    sent, most = Sent(), 0
    tasks = sent.start(*"aaaaa", "b", "b", "c")
    while not all(each.done() for each in tasks):
        await asyncio.sleep(0)
        most = max(most, sent.under_way)
    assert most == 1
    assert "".join(sent.order) == "aabcabaa"
    assert not sent.scripts._waiting


async def test_those_of_other_places_do_not_wait() -> None:
    sent = Sent()
    tasks = sent.start("a", place="one") + sent.start("a", place="other")
    await asyncio.sleep(0)
    assert sent.under_way == 2
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("given_up", range(4))
@pytest.mark.parametrize("rounds", range(6))
async def test_one_that_is_given_up_holds_up_no_other(given_up: int, rounds: int) -> None:
    sent = Sent()
    tasks = sent.start(*"abcd")
    for _ in range(rounds):
        await asyncio.sleep(0)
    tasks[given_up].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert {*"abcd"} - {"abcd"[given_up]} <= {*sent.order}
    assert not sent.scripts._waiting


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["create", "upsert", "cancel"])
async def test_of_creates_and_cancellations_one_long_script_is_on_its_way(
    fake_scene: Scene, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Of all shards."""
    store, count = fake_scene.store, 100
    names = ("other", "third", "fourth")
    accounts = [await fake_scene.account(name, credits=1000) for name in names]
    due_ms = await fake_scene.clock.now_ms() + 60_000
    requests = [Request(due_ms, "POST", URL, reference=f"r{n}") for n in range(count)]
    made = [await store.schedules.create_all(each, requests) for each in accounts]
    under_way, most = 0, list[int]()
    write = store.server.write

    async def counted(script: Script, key: str, arguments: Sequence[Any]) -> Any:
        nonlocal under_way
        under_way += 1
        most.append(under_way)
        try:
            for _ in range(20):
                await asyncio.sleep(0)
            return await write(script, key, arguments)
        finally:
            under_way -= 1

    monkeypatch.setattr(store.server, "write", counted)
    wanted: dict[str, Sequence[Request | Packed | Upsert]] = {
        "create": requests,
        "upsert": [Upsert(each, keep=True) for each in requests],
    }
    if kind == "cancel":
        by_id = store.canceller.by_id
        ended = zip(accounts, made, strict=True)
        await asyncio.gather(*(by_id(each, one.schedule_ids) for each, one in ended))
    else:
        create_all = store.schedules.create_all
        await asyncio.gather(*(create_all(each, wanted[kind]) for each in accounts * 2))
    assert max(most) == 1
    assert len(most) >= len(accounts)
    assert await store.check() == []
