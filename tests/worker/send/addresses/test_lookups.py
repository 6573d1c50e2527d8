"""Which name is looked up next, with answers that come when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.worker.scripted import until
from worker.send.addresses.lookups import MAX_LOOKUPS, Lookups

NEIGHBOUR = "neighbour.example"
FLOOD = 600


class Names:
    """Looks names up; each hangs until the test answers it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.waiting: list[asyncio.Future[str]] = []
        self.running: dict[str, asyncio.Future[str]] = {}
        self.lookups: Lookups[str] = Lookups(asyncio.get_running_loop(), self._ask)

    async def _ask(self, name: str, account_id: str) -> str:
        self.asked.append(name)
        self.running[name] = asyncio.get_running_loop().create_future()
        try:
            return await self.running[name]
        finally:
            del self.running[name]

    def wait_for(self, name: str, account_id: str = "flood") -> asyncio.Future[str]:
        self.waiting.append(asyncio.ensure_future(self.lookups.answer(name, account_id)))
        return self.waiting[-1]

    async def flood(self) -> list[asyncio.Future[str]]:
        waiting = [self.wait_for(f"n{number}.example") for number in range(FLOOD)]
        await until(lambda: len(self.asked) > 100)
        return waiting


async def given_up(waiting: list[asyncio.Future[str]]) -> None:
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@pytest.fixture
async def names() -> AsyncIterator[Names]:
    names = Names()
    yield names
    await given_up(names.waiting)
    names.lookups.close()


async def test_thousands_of_names_of_one_account_that_never_answer_leave_room_for_another(
    names: Names,
) -> None:
    await names.flood()
    names.wait_for(NEIGHBOUR, "neighbour")
    await until(lambda: NEIGHBOUR in names.asked)
    assert len(names.asked) < MAX_LOOKUPS


async def test_a_name_that_nobody_waits_for_any_more_is_not_looked_up(names: Names) -> None:
    flood = await names.flood()
    asked = list(names.asked)
    await given_up(flood[len(asked) : -1])
    for name in asked:
        names.running[name].set_result("answer")  # its place comes free
    await until(lambda: len(names.asked) > len(asked))
    assert names.asked[len(asked) :] == ["n599.example"]


async def test_a_name_is_looked_up_once_for_all_who_ask_meanwhile(names: Names) -> None:
    waiting = [names.wait_for("one.example", f"account {n}") for n in range(100)]
    names.lookups.refresh("one.example", "another")
    await until(lambda: "one.example" in names.running)
    waiting[0].cancel()
    names.running["one.example"].set_result("answer")
    assert await asyncio.gather(*waiting[1:]) == ["answer"] * 99
    assert names.asked == ["one.example"]
    again = names.wait_for("one.example")
    await until(lambda: "one.example" in names.running)
    names.running["one.example"].set_result("newer")
    assert await again == "newer"
