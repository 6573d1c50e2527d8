"""Costly steps: a few in each round of the loop, accounts in turn."""

from __future__ import annotations

import asyncio

from tests.support.waiting import DEADLINE_S
from worker.loop_budget import LoopBudget


async def test_so_many_go_through_in_a_round_and_accounts_take_turns() -> None:
    loop = asyncio.get_running_loop()
    loop_budget = LoopBudget(loop, 2)
    through: list[str] = []

    async def enter(account_id: str) -> None:
        await loop_budget.turn(account_id)
        through.append(account_id)

    flood = [asyncio.create_task(enter("flood")) for _ in range(10)]
    neighbour = asyncio.create_task(enter("neighbour"))
    given_up = asyncio.create_task(enter("gone"))
    await asyncio.sleep(0)
    assert through == ["flood", "flood"]
    given_up.cancel()
    most = 0
    async with asyncio.timeout(DEADLINE_S):
        while len(through) < 11:
            before = len(through)
            await asyncio.sleep(0)
            most = max(most, len(through) - before)
    assert most == 2
    assert through.index("neighbour") <= 4
    await asyncio.gather(neighbour, *flood)
    assert "gone" not in through
