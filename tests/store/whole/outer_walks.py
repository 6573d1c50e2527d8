"""The walks of the API, the dashboard, the command line, the client, and the worker's queues."""

from __future__ import annotations

import asyncio
import io
from types import SimpleNamespace
from typing import Any, cast

from api.bulk_actions.runner import BulkRunner
from api.dashboard.requests.listing import latest_first
from api.dashboard.requests.picture import _searched
from api.schema.rules import Rules
from cli.customer.batch import chunks
from postdate.calls import Calls, Many
from scheduler import ids
from scheduler.models import LogStatus, Occurrence
from scheduler.runtime.settings import Settings
from scheduler.store import keys
from scheduler.store.bulk.records import Asked, Bulk, Kind, packed_ids
from scheduler.store.log.logs import LogQuery
from tests.store.lifecycle.end.dead_letters import fail
from tests.store.scene import COMPLETED, Scene, ids_of
from tests.store.whole.operator_walks import FAR_MS, Found, Place
from tests.support.commands import postdate_json
from tests.worker.desk import LEASE_MS, Desk, Invocations, ScriptedStore
from worker.leases import Touch
from worker.occurrences.advance import Occurrences

_ACTION = "abcdefghijklmnop"


async def cancelled_in_bulk(scene: Scene, count: int) -> Found:
    made = await scene.create_many(count, FAR_MS)
    bulk = await _acted(scene, Kind.CANCEL, made)
    assert bulk.progress.done == count
    return [each.schedule_id for each in await scene.log(statuses=["cancelled"])], made


async def replayed_in_bulk(scene: Scene, count: int) -> Found:
    """What became of each replay is looked at, a page of groups at a time."""
    made = await fail(scene, count)
    await scene.store.accounts.grant(scene.account_id, count)
    bulk = await _acted(scene, Kind.AGAIN, made)
    assert bulk.progress.ended == (count, 0, 0)
    return [(await scene.get(each)).status for each in made], ["failed"] * count


async def _acted(scene: Scene, kind: Kind, chosen: list[str]) -> Bulk:
    """The action once nothing of it is left to do; what it replays is completed meanwhile."""
    now_ms = await scene.clock.now_ms()
    asked = Asked(kind, "a test", now_ms, packed_ids(chosen), {}, now_ms, {})
    assert await scene.store.bulks.add(scene.account_id, _ACTION, asked)
    runner = BulkRunner(scene.store, Rules.of(Settings()))
    due = keys.shard(scene.shard) + keys.BULK_DUE
    while True:
        [bulk] = await scene.store.bulks.all(scene.account_id)
        if not bulk.is_due:
            return bulk
        await scene.redis.hset(scene.base + keys.BULK + _ACTION, "n", 1)
        await scene.redis.zadd(due, {keys.parts(scene.account_id).local: 1})
        await runner.step(scene.account_id)
        await scene.store.tick()
        await scene.ack(await scene.claim(), COMPLETED)


async def sorted_by_lateness(scene: Scene, count: int) -> Found:
    made = await _executed(scene, count)
    rows, since_ms = await latest_first(scene.store, scene.account_id, LogQuery(limit=100))
    assert since_ms is None
    return [each.schedule_id for each in rows.entries], made


async def pictured(scene: Scene, count: int) -> Found:
    made = await _executed(scene, count)
    query = LogQuery(statuses=[LogStatus.COMPLETED], limit=100)
    found = await _searched(scene.store, scene.account_id, query, 1000)
    assert found.is_all
    return [each.schedule_id for each in found.entries], made


async def _executed(scene: Scene, count: int) -> list[str]:
    made = await scene.create_many(count, await scene.clock.now_ms() - 1000)
    for each in await scene.claim(most=count):
        await scene.ack([each])
    return made


async def listed_by_a_command(scene: Place, count: int) -> Found:
    made = [await scene.account(f"n{n}") for n in range(count - 1)]
    listed = postdate_json("account", "list", redis_url=scene.stores.url)
    assert all(each["storedBytes"] == 0 for each in listed)
    return [each["accountId"] for each in listed], [scene.account_id, *made]


async def lines_of_a_file(_: Scene, count: int) -> Found:
    lines = [b'{"n": %d}\n' % n for n in range(count)]
    found = list(chunks(io.BytesIO(b"".join(lines))))
    assert all(found)
    return [line.text for chunk in found for line in chunk], lines


async def named_by_a_client(_: Scene, count: int) -> Found:
    class Counted(Calls):
        def __init__(self) -> None:
            """Over no server."""

        async def _some(self, _: Any, body: Any, *__: Any) -> Any:
            asked.extend(body["ids"])
            return [f"done {each}" for each in body["ids"]], None, 0

        async def _send(self, *_: Any) -> Any: ...

        async def _sleep(self, _: float) -> None: ...

    asked, names = list[str](), [f"sch_{n}" for n in range(count)]
    many = Many(str, "/schedule/cancel", "", ("", ""))
    results = await Counted()._each_named(many, names, None)
    assert list(results) == [f"done {each}" for each in names]
    return asked, names


async def claimed_from_many_shards(_: Scene, count: int) -> Found:
    desk = Desk(dict.fromkeys(range(count), 1), slots=10_000)
    desk.claims.most_shards = 4
    await desk.claimer.step()
    while len(desk.fired) < count:
        await asyncio.sleep(0)
    assert max(map(len, desk.claims.together)) <= 4
    return [shard for some in desk.claims.together for shard in some], list(range(count))


async def advanced_late(_: Scene, count: int) -> Found:
    """Late occurrences of one account."""
    store, make, tasks = ScriptedStore({0: 0}), Invocations(), list[Any]()
    sent, unsure, touch = list[Any](), list[Any](), Touch(LEASE_MS, LEASE_MS)
    occurrences = Occurrences(
        store.as_store,
        touch,
        cast("Any", SimpleNamespace()),
        cast("Any", SimpleNamespace(put=unsure.append)),
        cast("Any", SimpleNamespace(start=tasks.append)),
        ready=lambda some, _: sent.extend(some),
    )
    held = [make.one(recurring=Occurrence(ids.new_recurring_id(1), 1)) for _ in range(count)]
    occurrences.put(held, 0)
    await asyncio.gather(*tasks)
    assert unsure == []
    assert ids_of(sent) == ids_of(held)
    return ids_of(each for some in store.recurring.asked for each in some), ids_of(held)
