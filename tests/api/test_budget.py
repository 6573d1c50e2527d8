"""The bound on the bodies that a process holds, and on the objects made of them."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any
from unittest.mock import create_autospec

import pytest
from uvicorn.server import ServerState

from api.door.connections import ByteBudget, ConnectionLimits
from api.door.protocol import Protocol
from api.limits import MAX_ITEMS, UNCOUNTED_BYTES, budgets, made_of
from api.reading import end, read_body
from api.serve import uvicorn_config
from scheduler.models import Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from tests.api.conftest import payload
from tests.api.process import head, serving
from tests.support.servers import ValkeyProcess

MB = 1_000_000


async def turns(budget: ByteBudget, *wanted: int) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(budget.wait_for(each)) for each in wanted]
    await asyncio.sleep(0)
    return tasks


async def test_all_is_taken_or_nothing() -> None:
    budget = ByteBudget(100)
    assert budget.take(70)
    assert not budget.take(31)
    assert budget.take(30)
    budget.give_back(100)
    assert budget.left_bytes == 100


async def test_those_that_wait_are_served_in_turn() -> None:
    budget = ByteBudget(100)
    await budget.wait_for(80)
    large, small = await turns(budget, 50, 10)
    assert [each.done() for each in (large, small)] == [False, False]
    budget.give_back(80)
    await asyncio.gather(large, small)
    assert budget.left_bytes == 40


@pytest.mark.parametrize("granted", [False, True])
async def test_a_waiter_that_leaves_gives_up_its_turn(granted: bool) -> None:
    budget = ByteBudget(100)
    await budget.wait_for(80)
    leaves, stays = await turns(budget, 50, 60)
    if granted:
        budget.give_back(80)
    leaves.cancel()
    if not granted:
        await asyncio.sleep(0)
        budget.give_back(80)
    await stays
    assert budget.left_bytes == 40


def test_the_largest_body_and_what_is_made_of_it_always_fit() -> None:
    bodies_bytes, made_bytes = budgets(Settings(bodies_bytes=1, max_batch_bytes=16 * MB))
    assert bodies_bytes > 16 * MB
    assert made_bytes == made_of(16 * MB, MAX_ITEMS)


async def test_batches_at_once_stay_within_the_budget(own_valkey: ValkeyProcess) -> None:
    async with aclosing(await Store.open(Settings(redis_url=own_valkey.url))) as store:
        account = await store.accounts.create("bulk", credits=10**6, plan=Plan.UNLIMITED)
        key = (await store.api_keys.create(account.account_id, "test"))[1]
    item = json.dumps(payload(targetBodyText="x" * 15_000))
    body = f'{{"schedules":[{",".join([item] * 250)}]}}'.encode()
    request = head(key, f"Content-Length: {len(body)}", request="POST /schedule/batch") + body
    settings = {"max_batch_bytes": 4 * MB, "bodies_bytes": 100 * MB}
    with serving(own_valkey.url, **settings) as server, ThreadPoolExecutor(12) as clients:
        before = server.most_memory_bytes()
        replies = list(clients.map(lambda _: server.ask(request), range(14)))
        assert {each.status for each in replies} == {200}
        assert server.most_memory_bytes() - before < 90 * MB


async def test_a_body_counts_until_it_is_carried_out_though_its_client_has_left() -> None:
    reads, ends = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await read_body(scope, receive, MB)
        reads.set()
        await ends.wait()
        end(scope)

    guard = ConnectionLimits(Settings())
    before = guard.bodies.left_bytes, guard.made.left_bytes
    config = uvicorn_config(app, guard)
    config.load()
    protocol = Protocol(guard, config, ServerState(), {})
    protocol.connection_made(create_autospec(asyncio.Transport))
    size = 200_000
    protocol.data_received(head("", f"Content-Length: {size}") + b" " * size)
    await reads.wait()
    counted = size - UNCOUNTED_BYTES
    now = before[0] - counted, before[1] - 5 * counted
    assert (guard.bodies.left_bytes, guard.made.left_bytes) == now
    protocol.connection_lost(None)
    assert (guard.bodies.left_bytes, guard.made.left_bytes) == now
    ends.set()
    await asyncio.gather(*protocol.tasks)
    assert (guard.bodies.left_bytes, guard.made.left_bytes) == before
