"""Every walk that takes what it walks over a piece at a time, with what its pieces are bounded by.

Each takes a scene and a number of things, and returns what the walk met and what there was: a piece
that it drops or doubles makes these two differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import msgspec

from scheduler import ids
from scheduler.events import Kind
from scheduler.models import Invocation, Occurrence, Status
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from scheduler.rollups import DAY_MS
from scheduler.store import keys
from scheduler.store.bulk.records import Asked
from scheduler.store.bulk.records import Kind as BulkKind
from scheduler.store.lifecycle.claim.claim import UnreadClaim
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.log.entries import entry, pack_chunk
from scheduler.store.log.overview import ChartRange
from tests.store.keyed import REQUEST
from tests.store.scene import COMPLETED, Scene, ids_of
from tests.store.whole import operator_walks as operators
from tests.store.whole import outer_walks as outer
from tests.store.whole.operator_walks import DUE_MS, FAR_MS, Found, Place
from tests.support.waiting import DEADLINE_S
from tests.worker.desk import LEASE_MS, Invocations, ScriptedStore
from worker.acks import Acks
from worker.claimer import ClaimSoon
from worker.holdings import Holdings
from worker.leases import Leases, Touch
from worker.occurrences.advance import Occurrences
from worker.occurrences.unreadable import Unreadables
from worker.signatures import Signatures

_PIECE = 4
_EDGES = (_PIECE - 1, _PIECE, _PIECE + 1, 2 * _PIECE + 1)


class Walk(NamedTuple):
    """The constants, by their dotted names, that bound a piece, and to what the test sets them;
    over how many things it walks. None are set where a script has the size."""

    over: Callable[[Place, int], Awaitable[Found]]
    bounds: tuple[str, ...]
    piece: int = _PIECE
    counts: tuple[int, ...] = _EDGES


# Accounts


async def deleted_data(scene: Scene, count: int) -> Found:
    await scene.create_many(count, FAR_MS)
    await scene.store.changes.delete(scene.account_id)
    return await scene.redis.keys(scene.base + "*"), []


async def listed_events(scene: Scene, count: int) -> Found:
    names = [str(number) for number in range(count)]
    for name in names:
        await scene.store.events.record(Kind.GRANT, about=name)
    page = await scene.store.events.page(lambda _: True, limit=100)
    return [each.about for each in page.events], names


async def taken_up(scene: Scene, count: int) -> Found:
    """Accounts with a bulk action, of one shard."""
    bulks, asked = scene.store.bulks, Asked(BulkKind.CANCEL, "", 1, bytes(16), {}, 1, {})
    accounts = await scene.neighbours(count)
    for account_id in accounts:
        assert await bulks.add(account_id, "an action", asked)
    taken = list[str]()
    async with asyncio.timeout(DEADLINE_S):
        # By this process's clock an action may be due a moment later than it was stored.
        while (due := await bulks.due()) or len(taken) < count:
            taken += [each for each in due if await bulks.take(each) is not None]
    return taken, accounts


async def listed_accounts(scene: Scene, count: int) -> Found:
    made = [scene.account_id] + [await scene.account(f"n{n}") for n in range(count - 1)]
    accounts, there = await scene.store.accounts.some(100)
    assert there == count
    return [each.account_id for each in accounts], made


async def admitted_keys(scene: Scene, count: int) -> Found:
    made = [await scene.store.api_keys.create(scene.account_id, f"n{n}") for n in range(count)]
    callers = await asyncio.gather(*(scene.store.api_keys.admit(value) for _, value in made))
    return [each and each.key_id for each in callers], [key.key_id for key, _ in made]


# Schedules, claims and the log


async def created_at_once(scene: Scene, count: int) -> Found:
    made = await asyncio.gather(*(scene.create_at(FAR_MS) for _ in range(count)))
    return ids_of(await scene.listed(scene.store.unended, limit=3)), made


async def listed_schedules(scene: Scene, count: int) -> Found:
    made = await scene.create_many(count, FAR_MS)
    pages = [await scene.listed(scene.store.unended, limit=limit) for limit in (3, 100)]
    assert pages[0] == pages[1]
    return ids_of(pages[0]), made


async def told_what_holds_them(scene: Scene, count: int) -> Found:
    made = await scene.create_many(count, DUE_MS)
    return ids_of(await scene.listed(scene.store.unended, held=True, limit=100)), made


async def cancelled(scene: Scene, count: int) -> Found:
    made = await scene.create_many(count, FAR_MS)
    done = await scene.store.canceller.by_id(scene.account_id, made)
    assert [each.refusal for each in done.each] == [None] * count
    return [each.schedule_id for each in await scene.log(statuses=["cancelled"])], made


async def claimed(scene: Scene, count: int) -> Found:
    made = await scene.create_many(count, DUE_MS)
    found = await scene.claim(most=count)
    client = scene.redis
    assert await client.zcard(scene.base + keys.HELD) == count
    assert await client.zcount(scene.base + keys.WAITING, "-inf", DUE_MS) == 0
    return ids_of(found), made


async def realigned(scene: Scene, count: int) -> Found:
    """Accounts whose turn stands in the future, though something of theirs is due."""
    prefix, client = keys.shard(scene.shard), scene.redis
    names = [f"n{number}" for number in range(count)]
    for name in names:
        await client.zadd(f"{prefix}{name}:{keys.WAITING}", {"s": DUE_MS})
        await client.zadd(prefix + keys.HEADS, {name: FAR_MS})
    await client.zadd(prefix + keys.ACCOUNTS, dict.fromkeys(names, 0))
    await scene.store.claims.realign(scene.shard)
    heads = await client.zrange(prefix + keys.HEADS, "-inf", FAR_MS - 1, byscore=True)
    return [each.decode() for each in heads], names


async def realigned_lanes(scene: Scene, count: int) -> Found:
    """Lanes of one account, whose turns stand in the future, though something of each is due."""
    names = sorted(f"n{number}" for number in range(count))
    for name in names:
        await scene.create_at(DUE_MS, lane=name)
        await scene.redis.zadd(scene.base + keys.LANE_HEADS, {name: FAR_MS})
    await scene.store.claims.realign(scene.shard)
    heads = await scene.redis.zrange(scene.base + keys.LANE_HEADS, "-inf", FAR_MS - 1, byscore=True)
    return [each.decode() for each in heads], names


async def realigned_rules(scene: Scene, count: int) -> Found:
    """Recurring schedules of one account that nobody would look after."""
    names = sorted(f"n{number}" for number in range(count))
    await scene.redis.zadd(scene.base + keys.RULES, dict.fromkeys(names, 0))
    await scene.store.claims.realign(scene.shard)
    due = await scene.redis.zrange(keys.shard(scene.shard) + keys.RULES_DUE, 0, -1)
    return sorted(each.decode().partition(":")[2] for each in due), names


async def _executed(scene: Scene, count: int) -> list[str]:
    """Chunks of one millisecond of the log, with an execution each."""
    made = [ids.new_schedule_ids(1, 1)[0] for _ in range(count)]
    at_ms = await scene.clock.now_ms() - 1
    request = msgspec.structs.replace(REQUEST, trigger_at_ms=at_ms)
    for number, each in enumerate(made):
        chunk = pack_chunk([entry(each, request, COMPLETED)])
        name = f"{at_ms}-{number}"
        await scene.redis.xadd(scene.base + keys.LOG, {"c": chunk}, id=name)
    return made


async def counted(scene: Scene, count: int) -> Found:
    """A millisecond is less than a rollup has, so it is read from the log."""
    await _executed(scene, count)
    await scene.store.tick()
    now_ms = await scene.clock.now_ms()
    [(last, _)] = await scene.redis.xrevrange(scene.base + keys.LOG, count=1)
    at_ms = int(last.split(b"-")[0])
    assert at_ms < now_ms
    usage = await scene.store.stats.usage(scene.account_id, at_ms, at_ms + 1)
    return [usage.completed], [count]


async def summed(scene: Scene, count: int) -> Found:
    """Days, as statistics and the overview add them up."""
    today = await scene.clock.now_ms() // DAY_MS
    for day in range(today - count, today):
        await scene.redis.hset(f"{scene.base}{keys.DAY}{day}", "5", b"\x81\xa1c\x01")
    await scene.redis.hset(scene.base + keys.LOGGED, "first", today * DAY_MS)  # it was trimmed
    stretch = ChartRange((today - count) * DAY_MS, DAY_MS, count)
    usage = await scene.store.stats.usage(scene.account_id, stretch.from_ms, stretch.to_ms)
    series = await scene.store.overview.past(scene.account_id, stretch)
    return [usage.completed, *(each.completed for each in series.points)], [count] + [1] * count


async def read_log(scene: Scene, count: int) -> Found:
    """Page by page, and in one."""
    made = await _executed(scene, count)
    assert [each.schedule_id for each in await scene.log(limit=3)] == made[::-1]
    return [each.schedule_id for each in await scene.log(limit=100)], made


async def listed_ended(scene: Scene, count: int) -> Found:
    """Page by page, and in one, over two indexes."""
    made = await scene.create_many(count, FAR_MS)
    await scene.store.canceller.by_id(scene.account_id, made[::2])
    for each in made[1::2]:
        await scene.store.canceller.by_id(scene.account_id, [each])
    both = (Status.COMPLETED, Status.CANCELLED)
    pages = [await scene.listed(scene.store.kept, both, limit=limit) for limit in (3, 100)]
    assert pages[0] == pages[1]
    return ids_of(pages[0]), made


# The worker, over a scripted store


TOUCH = Touch(LEASE_MS, LEASE_MS)


def held_by_a_worker(count: int) -> tuple[ScriptedStore, Holdings, list[Invocation]]:
    """Of an account each, under leases that have ended."""
    store, holdings = ScriptedStore({0: 0}), Holdings(1000, 10**9)
    make = store.claims.make
    held = [make.one(0, f"{number:08}", lease_until_s=0.0) for number in range(count)]
    holdings.add(held)
    return store, holdings, held


async def signed(scene: Scene, count: int) -> Found:
    store, holdings, held = held_by_a_worker(count)
    signatures = Signatures(store.as_store, holdings, TOUCH)
    await signatures.read_all()
    assert signatures.missing(held) == set()
    asked = [each for some in store.signing.asked for each in some]
    return asked, [each.account_id for each in held]


async def extended(scene: Scene, count: int) -> Found:
    store, holdings, held = held_by_a_worker(count)
    await Leases(store.as_store, holdings, TOUCH, LEASE_MS).extend(0)
    return ids_of(store.claims.extended), ids_of(held)


async def acked(scene: Scene, count: int) -> Found:
    store, holdings, held = held_by_a_worker(count)
    acks = Acks(store.ends, holdings, TOUCH, ClaimSoon())
    for each in held:
        acks.add(Ack(each, COMPLETED, 0))
    await asyncio.wait_for(holdings.emptied(), 5)
    return ids_of(each.invocation for each in store.claims.acked), ids_of(held)


async def put_off(scene: Scene, count: int) -> Found:
    store, holdings, held = held_by_a_worker(count)
    presence: Any = SimpleNamespace(yields=False)
    leases = Leases(store.as_store, holdings, TOUCH, LEASE_MS)
    shelf = Unreadables(store.as_store, leases, TOUCH, presence)
    shelf.put([UnreadClaim(each, "damaged", "") for each in held])
    await shelf.settle()
    assert len(holdings) == 0
    return ids_of(store.claims.released), ids_of(held)


async def tended(scene: Scene, count: int) -> Found:
    """Recurring schedules of which the occurrence was cancelled."""
    draft, recurring = Draft(REQUEST, Timing(cron="0 0 1 1 *")), scene.store.recurring
    made = [(await recurring.create(scene.account_id, draft)).rule for _ in range(count)]
    await scene.store.canceller.by_id(scene.account_id, [each.schedule_id or "" for each in made])
    await scene.store.tick()
    while await recurring.tend_due(scene.shard):
        pass
    page = await recurring.page(scene.account_id, limit=100)
    found = [each.recurring_id for each in page.rules if each.schedule_id is not None]
    assert await scene.redis.zcard(scene.base + keys.WAITING) == count
    return found, [each.recurring_id for each in made]


async def renewed(scene: Scene, count: int) -> Found:
    draft, recurring = Draft(REQUEST, Timing(cron="0 0 1 1 *")), scene.store.recurring
    for _ in range(count):
        await recurring.create(scene.account_id, draft)
    return [await scene.store.renewal.renew(scene.shard)], [count]


async def advanced(scene: Scene, count: int) -> Found:
    """Occurrences, which may be sent then."""
    store, make, shelf = ScriptedStore({0: 0}), Invocations(), cast("Any", None)
    occurrence = Occurrence(ids.new_recurring_id(1), 1)
    held = [make.one(recurring=occurrence) for _ in range(count)]
    unsure, none = cast("Any", SimpleNamespace(put=held.remove)), cast("Any", None)
    occurrences = Occurrences(store.as_store, TOUCH, shelf, unsure, none, ready=none)
    assert await occurrences.advance(held) == held
    return ids_of(each for some in store.recurring.asked for each in some), ids_of(held)


_CHECK = "scheduler.store.check.check."
_LETTERS = "scheduler.store.check.dead_letters."
_ACCOUNTS = "scheduler.store.check.damage._SCAN_COUNT"
_RESTORE = "scheduler.store.operators.restore."
_LOG = "scheduler.store.log."
_RECURRING = "scheduler.store.recurring."
_CLOCK_BACK = "scheduler.store.lifecycle.claim.clock_back."
_BULK_STEP = ("api.bulk_actions.runner.STEP", "scheduler.store.bulk.records.STEP")

WALKS = (
    Walk(operators.given_back, (_RESTORE + "_MOST_AT_ONCE",)),
    Walk(operators.expired, (_RESTORE + "_MOST_AT_ONCE",)),
    Walk(operators.long_leases, (_CLOCK_BACK + "_SCHEDULES_AT_ONCE",)),
    Walk(operators.long_calls, (_CLOCK_BACK + "_SCHEDULES_AT_ONCE",)),
    Walk(operators.long_leases_of_accounts, (_CLOCK_BACK + "_ACCOUNTS_AT_ONCE",)),
    Walk(operators.not_among_the_waiting, (_CHECK + "_CHUNK",)),
    Walk(operators.letters_without_a_request, (_CHECK + "_CHUNK",)),
    Walk(operators.unlisted_letters, (_LETTERS + "_CHUNK",)),
    Walk(operators.strayed_letters, (_LETTERS + "_CHUNK",)),
    Walk(operators.among_the_callbacks, ("scheduler.store.check.callbacks._CHUNK",)),
    Walk(operators.in_the_queue_of_a_lane, ("scheduler.store.check.lanes._CHUNK",)),
    Walk(operators.weighed_notes, ("scheduler.store.check.weights._NOTES_AT_ONCE",)),
    Walk(operators.stray_references, ("scheduler.store.check.references._CHUNK",)),
    Walk(operators.stray_rules, ("scheduler.store.check.recurring._CHUNK",)),
    Walk(operators.damaged_requests, ("scheduler.store.queries.reading.CHUNK_BYTES",), 100),
    Walk(operators.damaged_log, (_CHECK + "_CHUNKS",)),
    Walk(operators.of_another_kind, ("scheduler.store.check.damage._SCAN_COUNT",)),
    Walk(operators.names_that_lead_nowhere, ("scheduler.store.check.reserved._SCAN_COUNT",)),
    Walk(operators.on_the_roster, ("scheduler.store.operators.roster._AT_ONCE",)),
    Walk(operators.owned, ("scheduler.store.operators.owners._AT_ONCE", _ACCOUNTS)),
    Walk(operators.resealed, ("scheduler.store.operators.reseal._SCHEDULES_AT_ONCE",)),
    Walk(operators.resealed, ("scheduler.store.queries.reading.CHUNK_BYTES",), 400),
    Walk(operators.resealed_secrets, (_ACCOUNTS,)),
    Walk(deleted_data, ("scheduler.store.accounts.accounts._SCAN_COUNT",)),
    Walk(listed_events, ("scheduler.store.events.events._CHUNK",)),
    Walk(taken_up, ("scheduler.store.bulk.bulks._DUE_AT_ONCE",)),
    Walk(listed_accounts, ("scheduler.store.accounts.accounts._READ_AT_ONCE",)),
    Walk(admitted_keys, ("scheduler.store.accounts.api_keys._MOST_KEYS_AT_ONCE",)),
    Walk(told_what_holds_them, ("scheduler.store.queries.held_by._AT_ONCE",)),
    Walk(created_at_once, ("scheduler.store.lifecycle.create.creator._MOST_AT_ONCE",)),
    Walk(listed_schedules, ("scheduler.store.queries.listing.CHUNK",)),
    Walk(cancelled, ("scheduler.store.queries.reading.CHUNK",)),
    Walk(cancelled, (), counts=(999, 1000, 1001, 2001)),
    Walk(claimed, (), counts=(999, 1000, 1001, 2001)),
    Walk(realigned, ("scheduler.store.lifecycle.claim.claim._REALIGNED_AT_ONCE",)),
    Walk(realigned_lanes, ("scheduler.store.lifecycle.claim.claim._LANES_REALIGNED_AT_ONCE",)),
    Walk(realigned_rules, ("scheduler.store.lifecycle.claim.claim._RULES_REALIGNED_AT_ONCE",)),
    Walk(counted, ("scheduler.store.log.statistics._PAGE",)),
    Walk(summed, (_LOG + "statistics._ROLLUPS_AT_ONCE", _LOG + "overview._ROLLUPS_AT_ONCE")),
    Walk(read_log, (_LOG + "ended._CHUNKS",)),
    Walk(listed_ended, (_LOG + "ended._CHUNKS", "scheduler.store.queries.listing.CHUNK")),
    Walk(signed, ("worker.signatures._MOST_AT_ONCE",)),
    Walk(extended, ("worker.leases._MOST_AT_ONCE",)),
    Walk(acked, ("worker.acks._MOST_AT_ONCE",)),
    Walk(tended, (_RECURRING + "tending._TENDED_AT_ONCE", _RECURRING + "steps._MOST_AT_ONCE")),
    Walk(renewed, (_RECURRING + "renewal._CHUNK",)),
    Walk(advanced, ("worker.occurrences.advance._MOST_AT_ONCE",)),
    Walk(put_off, ("worker.leases._MOST_AT_ONCE",)),
    Walk(outer.advanced_late, ("worker.occurrences.advance._MOST_LATE",)),
    Walk(outer.claimed_from_many_shards, ()),
    Walk(outer.cancelled_in_bulk, _BULK_STEP),
    Walk(
        outer.replayed_in_bulk,
        (
            "api.bulk_actions.runner._GROUPS_AT_ONCE",
            "api.bulk_actions.runner.STEP",
            "scheduler.store.bulk.records.STEP",
        ),
        counts=(7, 8, 9, 17),
        piece=2,
    ),
    Walk(outer.sorted_by_lateness, ("api.dashboard.requests.listing._SORTED_AT_ONCE",)),
    Walk(outer.pictured, ("api.dashboard.requests.picture._AT_ONCE",)),
    Walk(outer.listed_by_a_command, ("cli.accounts._READ_AT_ONCE",)),
    Walk(outer.lines_of_a_file, ("cli.customer.batch._MOST_AT_ONCE",)),
    Walk(outer.named_by_a_client, ("postdate.calls._AT_ONCE",)),
)
