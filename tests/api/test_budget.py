"""What a process may hold of bodies, and of what is made of them."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from api.budget import Budget
from api.limits import MAX_ITEMS, UNCOUNTED_BYTES, Limits, made_of
from scheduler.models import Plan
from scheduler.settings import Settings
from scheduler.store import Store
from tests.api.conftest import payload
from tests.api.process import ApiProcess, Reply, head
from tests.servers import ValkeyProcess

MB = 1_000_000


async def turns(budget: Budget, *wanted: int) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(budget.room(each)) for each in wanted]
    await asyncio.sleep(0)
    return tasks


async def test_what_is_read_leaves_room_for_what_is_made() -> None:
    budget = Budget(100, kept_bytes=60)
    assert budget.take(30)
    await budget.room(60)
    assert budget.take(10)
    assert not budget.take(1)
    budget.free(60)
    assert not budget.take(1)
    budget.give_back(40)
    assert budget.take(40)
    assert budget.left_bytes == 60


async def test_what_is_made_beyond_what_is_kept_is_not_there_to_read() -> None:
    budget = Budget(100, kept_bytes=60)
    await budget.room(60)
    await budget.room(30)
    assert not budget.take(11)
    assert budget.take(10)


async def test_those_that_wait_are_served_in_turn() -> None:
    budget = Budget(100, kept_bytes=100)
    await budget.room(80)
    large, small = await turns(budget, 50, 10)
    assert [each.done() for each in (large, small)] == [False, False]
    budget.free(80)
    await asyncio.gather(large, small)
    assert budget.left_bytes == 40


@pytest.mark.parametrize("granted", [False, True])
async def test_a_waiter_that_leaves_gives_up_its_turn(granted: bool) -> None:
    budget = Budget(100, kept_bytes=100)
    await budget.room(80)
    leaves, stays = await turns(budget, 50, 60)
    if granted:
        budget.free(80)
    leaves.cancel()
    if not granted:
        await asyncio.sleep(0)
        budget.free(80)
    await stays
    assert budget.left_bytes == 40


@pytest.mark.parametrize(
    ("body_bytes", "items", "made"),
    [
        (UNCOUNTED_BYTES, 1, 0),
        (UNCOUNTED_BYTES, 64, 0),
        (UNCOUNTED_BYTES + 10, 1, 50),
        (3000, 1000, 1000 * 1024 - UNCOUNTED_BYTES),
    ],
)
def test_of_a_small_body_nothing_counts_but_many_items(
    body_bytes: int, items: int, made: int
) -> None:
    assert made_of(body_bytes, items) == made


def test_there_is_room_for_what_is_made_of_the_largest() -> None:
    limits = Limits.of(Settings(bodies_bytes=1, max_batch_bytes=16 * MB))
    budget = Budget(limits.bodies_bytes, limits.kept_bytes)
    assert budget.take(16 * MB)
    assert budget.left_bytes >= made_of(16 * MB, MAX_ITEMS)


async def test_batches_at_once_take_no_more_memory_than_the_budget(
    own_valkey: ValkeyProcess,
) -> None:
    store = await Store.open(Settings(redis_url=own_valkey.url))
    account = await store.accounts.create("bulk", credits=10**6, plan=Plan.UNLIMITED)
    _, key = await store.api_keys.create(account.account_id, "test")
    await store.aclose()
    item = json.dumps(payload(targetBodyText="x" * 15_000))
    body = f'{{"schedules":[{",".join([item] * 250)}]}}'.encode()
    request = head(key, f"Content-Length: {len(body)}", request="POST /schedule/batch") + body
    server = ApiProcess(own_valkey.url, max_batch_bytes=4 * MB, bodies_bytes=72 * MB)
    try:
        server.wait_until_ready()

        def ask(_: int) -> int:
            with closing(server.connect()) as connection:
                connection.sendall(request)
                return Reply(connection).status

        before = server.most_memory_bytes()
        with ThreadPoolExecutor(12) as clients:
            assert set(clients.map(ask, range(36))) == {200}
        assert server.most_memory_bytes() - before < 90 * MB
    finally:
        server.remove()
