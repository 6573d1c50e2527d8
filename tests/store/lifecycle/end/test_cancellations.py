"""Cancelling: each that still waits, and every credit back once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler.errors import (
    Conflict,
    NotFound,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
)
from scheduler.models import Occurrence, Request, Status
from scheduler.store import keys
from scheduler.store.lifecycle.end import cancel
from scheduler.store.lifecycle.end.cancel import Cancellations
from scheduler.store.queries.listing import Selection
from scheduler.store.queries.reading import read_by_id
from scheduler.store.verdict import MOST_CHANGES_MET
from tests.store.lifecycle.end.dead_letters import fail
from tests.store.recurring.rules import Rules
from tests.store.scene import (
    COMPLETED,
    CREDITS,
    URL,
    Holdings,
    Scene,
    after_the_first_read,
    ids_of,
    new_id,
    settled,
)

pytestmark = pytest.mark.sound
RULE = Occurrence("rec_01h455vb4pex5vsknk084sn02q")


async def test_of_parallel_cancellations_one_wins(scene: Scene) -> None:
    schedule_id = await scene.create(60_000)
    calls = [settled(lambda: scene.cancel(schedule_id)) for _ in range(50)]
    done = await asyncio.gather(*calls)
    assert sorted(each.each[0].repeated for each in done) == [False] + [True] * 49
    assert await scene.holdings() == Holdings(CREDITS, 0, 0, 0, {"cancelled": 1})


def refusals(done: Cancellations) -> list[str]:
    return [str(each.refusal or "") for each in done.each]


@pytest.mark.parametrize("count", [1, 450])
async def test_all_that_wait_are_cancelled_logged_and_refunded(scene: Scene, count: int) -> None:
    await scene.store.accounts.grant(scene.account_id, count)
    requests = [Request(2**41, "POST", f"{URL}?{n % 20}") for n in range(count)]
    made = (await scene.store.schedules.create_all(scene.account_id, requests)).schedule_ids
    done = await scene.cancel_all(made)
    assert [each.schedule_id for each in done.each] == made
    assert refusals(done) == [""] * count
    assert done.credits == CREDITS + count
    assert await scene.holdings() == Holdings(CREDITS + count, 0, 0, 0, {"cancelled": count})
    entries = await scene.log(statuses=["cancelled"])
    assert sorted(ids_of(entries)) == sorted(made)
    assert {(each.executed_at_ms, each.status_code, each.method) for each in entries} == {
        (None, 0, "POST")
    }
    stored = await scene.get(made[-1])
    assert (stored.status, stored.executing, stored.outcome) == (Status.CANCELLED, False, None)
    of_one = await scene.log(url=f"{URL}?0")
    assert {each.schedule_id for each in of_one} == set(made[::20])
    [day] = [k async for k in scene.redis.scan_iter(match=scene.base + keys.DAY + "*")]
    assert await scene.redis.hget(day, "refunded") == b"%d" % count
    again = await scene.cancel_all(made)
    assert again.each == [each._replace(repeated=True) for each in done.each]
    assert again.credits == CREDITS + count
    assert scene.store.canceller.cancelled == count


async def test_each_is_answered_on_its_own_and_in_order(scene: Scene) -> None:
    [failed] = await fail(scene)
    completed = await scene.run(COMPLETED)
    held = (await scene.held()).schedule_id
    waiting, cancelled, last = [await scene.create(60_000) for _ in range(3)]
    await scene.cancel(cancelled)
    theirs = await scene.create(60_000, account_id=await scene.account("other"))
    ids = [new_id(), waiting, failed, completed, held, cancelled, last, theirs]
    done = await scene.cancel_all([*ids, waiting])
    assert [each.schedule_id for each in done.each] == ids
    assert refusals(done) == [
        "There is no such schedule",
        "",
        "The schedule is failed already",
        "The schedule is completed already",
        "Execution has started",
        "",
        "",
        "There is no such schedule",
    ]
    assert isinstance(done.each[0].refusal, NotFound)
    statuses = [each.refusal.status for each in done.each if isinstance(each.refusal, Conflict)]
    assert statuses == [Status.FAILED, Status.COMPLETED, Status.SCHEDULED]
    assert done.credits == CREDITS - 3


@pytest.mark.parametrize(("groups", "kind"), [(0, StoreUnavailable), (1, OutcomeUnknown)])
async def test_what_was_done_before_the_store_failed_makes_the_outcome_unknown(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, groups: int, kind: type[StoreError]
) -> None:
    """Otherwise the answer would say that nothing was done."""
    made = await scene.create_many(300, await scene.clock.now_ms() + 60_000)
    canceller, server, writes = scene.store.canceller, scene.store.server, []
    write = server.write

    async def failing_write(*of: Any) -> Any:
        writes.append(of)
        if len(writes) > groups:
            raise StoreUnavailable("gone")
        return await write(*of)

    monkeypatch.setattr(server, "write", failing_write)
    with pytest.raises(StoreError) as caught:
        await canceller.by_id(scene.account_id, made)
    assert type(caught.value) is kind
    monkeypatch.undo()
    left = await canceller.by_id(scene.account_id, made)
    assert left.credits == CREDITS + 300
    assert canceller.cancelled == 300


async def test_a_selection_is_cancelled_and_no_other(scene: Scene) -> None:
    """What a worker holds is in none."""
    now_ms = await scene.clock.now_ms()
    await scene.held()
    more: dict[int, dict[str, Any]] = {0: {"lane": "a"}, 2: {"lane": "a"}, 8: {"recurring": RULE}}
    more |= {4: {"reference": "a-1"}, 6: {"reference": "a-2"}, 9: {"reference": "b"}}
    made = [
        await scene.create_at(now_ms + 60_000 + n, url=f"{URL}?{n % 2}", **more.get(n, {}))
        for n in range(10)
    ]
    for selection, places in (
        (Selection(f"{URL}?1", now_ms + 60_002, now_ms + 60_008, 100), (3, 5, 7)),
        (Selection(lane="a"), (0, 2)),
        (Selection(reference="a-*"), (4, 6)),
        (Selection(recurring_id=RULE.recurring_id), (8,)),
        (Selection(), (1, 9)),
    ):
        done = await scene.store.canceller.waiting(scene.account_id, selection)
        assert [each.schedule_id for each in done.each] == [made[n] for n in places]
        assert refusals(done) == [""] * len(places)
        assert done.next_cursor is None


async def test_one_that_changes_meanwhile_is_cancelled_as_it_then_is(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [await scene.create(60_000) for _ in range(3)]

    async def one_is_changed() -> None:
        await scene.change(made[1], url=f"{URL}/new")

    reads = after_the_first_read(monkeypatch, one_is_changed)
    assert refusals(await scene.cancel_all(made)) == [""] * 3
    assert reads() == 2
    urls = {each.schedule_id: each.url for each in await scene.log()}
    assert urls == {made[0]: URL, made[1]: f"{URL}/new", made[2]: URL}


async def test_racing_claims_each_has_one_winner(scene: Scene) -> None:
    made = await scene.create_many(400, await scene.clock.now_ms() - 1)

    async def claim() -> list[str]:
        found = []
        for _ in range(20):
            claimed = await scene.claim(most=10)
            found += ids_of(claimed)
            await scene.ack(claimed)
        return found

    async def cancel() -> list[str]:
        done = [await scene.cancel_all(made[n : n + 40]) for n in reversed(range(0, 400, 40))]
        return [each.schedule_id for part in done for each in part.each if not each.refusal]

    claimed, cancelled = await asyncio.gather(claim(), cancel())
    assert claimed
    assert cancelled
    assert set(claimed).isdisjoint(cancelled)
    found = await scene.holdings()
    assert found.credits == CREDITS + 400 - len(claimed)
    assert found.waiting == 400 - len(claimed) - len(cancelled)


async def test_a_rule_keeps_an_occurrence_that_changes_whenever_it_is_to_be_cancelled(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules, reads = Rules(scene), 0
    rule = await rules.create()
    name, due = str(rule.schedule_id), await rules.due()

    async def read(*which: Any) -> AsyncIterator[Any]:
        nonlocal reads
        async for chunk in read_by_id(*which):
            reads += 1
            await scene.change(name, body=b'{"n":%d}' % reads)
            yield chunk

    monkeypatch.setattr(cancel, "read_by_id", read)
    credits = await scene.credits()
    [done] = (await scene.cancel_all([name])).each
    assert isinstance(done.refusal, Conflict)
    assert reads == MOST_CHANGES_MET
    assert (await rules.read(rule)).schedule_id == name
    assert (await rules.due(), await scene.credits()) == (due, credits)


async def test_a_process_that_only_cancels_hears_the_servers_clock_too(fake_scene: Scene) -> None:
    """It would never notice that it was set back."""
    schedule_id, clock = await fake_scene.create(60_000), fake_scene.store.clock
    before = clock.readings
    await fake_scene.cancel(schedule_id)
    assert clock.readings > before
