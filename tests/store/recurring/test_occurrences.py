"""Occurrences of recurring schedules, as every other part of the store meets them: they stay what
they are, and the step that cancels one hands its rule over to be looked after."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler import ids
from scheduler.callbacks import Callback
from scheduler.models import Occurrence, Outcome, Request, Status, Upsert
from scheduler.store import keys
from scheduler.store.queries.listing import Selection
from tests.store.lifecycle.end.dead_letters import fail
from tests.store.scene import CREDITS, URL, Scene, new_id

pytestmark = pytest.mark.sound
RULE = "rec_01h455vb4pex5vsknk084sn02q"
SLOT_MS = 2_000_000_000_000
OCCURRENCE = Occurrence(RULE, SLOT_MS)
_LANE, _REFERENCE = {"lane": "a"}, {"reference": "x"}
NAMED: list[dict[str, Any]] = [{}, _LANE, _REFERENCE, _LANE | _REFERENCE]


@pytest.fixture(autouse=True)
async def _by_hand(scene: Scene) -> AsyncIterator[None]:
    """Rules that were made by hand are gone before all else is checked to be sound."""
    yield
    made = [key async for key in scene.redis.scan_iter(match=keys.ALL_RULES)]
    await scene.redis.delete(keys.shard(scene.shard) + keys.RULES_DUE, *made)


def rule_key(scene: Scene, rule: str = RULE) -> str:
    return scene.base + keys.RULE + ids.local(rule)


def stands(schedule_id: str) -> str:
    """Of a rule with this occurrence; "": with none."""
    return f"{ids.local(schedule_id)} {SLOT_MS} {SLOT_MS - 1}"


async def put_rule(scene: Scene, schedule_id: str, rule: str = RULE) -> None:
    """A rule that says that this is its occurrence."""
    values = {"v": 7, "n": stands(schedule_id)}
    await scene.redis.hset(rule_key(scene, rule), mapping=values)


async def rule_of(scene: Scene, rule: str = RULE) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = await scene.redis.hgetall(rule_key(scene, rule))
    return found


async def rules_due(scene: Scene) -> dict[bytes, float]:
    return dict(
        await scene.redis.zrange(keys.shard(scene.shard) + keys.RULES_DUE, 0, -1, withscores=True)
    )


def due_name(scene: Scene, rule: str = RULE) -> bytes:
    return f"{keys.parts(scene.account_id).local}:{ids.local(rule)}".encode()


@pytest.mark.parametrize("named", NAMED)
async def test_a_cancellation_hands_the_rule_over(scene: Scene, named: dict[str, Any]) -> None:
    before_ms = await scene.clock.now_ms()
    schedule_id = await scene.create(60_000, recurring=OCCURRENCE, **named)
    await put_rule(scene, schedule_id)
    [done] = (await scene.cancel(schedule_id)).each
    assert done.recurring_id == RULE
    assert await rule_of(scene) == {b"v": b"8", b"n": stands("").encode()}
    [(name, due_ms)] = (await rules_due(scene)).items()
    assert name == due_name(scene)
    assert before_ms <= due_ms <= await scene.clock.now_ms()
    assert (await scene.get(schedule_id)).request.recurring == OCCURRENCE

    # A repeat finds the rule anew, and does nothing to it.
    await scene.redis.hset(rule_key(scene), "n", stands(new_id()))
    again = (await scene.cancel(schedule_id)).each[0]
    assert (again.repeated, again.recurring_id) == (True, RULE)
    assert (await rule_of(scene))[b"v"] == b"8"


async def test_a_bulk_cancellation_hands_over_each_rule(scene: Scene) -> None:
    """By their ids: a filter leaves out occurrences with a slot."""
    rules, with_slots = [ids.new_recurring_id(SLOT_MS) for _ in range(20)], list[str]()
    for place, rule in enumerate(rules):
        named = NAMED[place % 4]
        made = await scene.create(60_000, recurring=Occurrence(rule, SLOT_MS), **named)
        await put_rule(scene, made, rule)
        with_slots.append(made)
        await scene.create(60_000, recurring=Occurrence(rule), **named)  # beside its slots
        await scene.create(60_000)
    others = await scene.store.canceller.waiting(scene.account_id, Selection(limit=200))
    assert (others.left, len(others.each)) == (20, 40)
    assert {each.recurring_id for each in others.each} == {None}
    done = await scene.cancel_all(with_slots)
    assert done.credits == CREDITS
    assert [each.recurring_id for each in done.each] == rules
    assert (await rules_due(scene)).keys() == {due_name(scene, rule) for rule in rules}
    for rule in rules:
        assert await rule_of(scene, rule) == {b"v": b"8", b"n": stands("").encode()}


@pytest.mark.parametrize("occurrence", [None, Occurrence(RULE), OCCURRENCE])
async def test_a_rule_with_another_occurrence_stays(
    scene: Scene, occurrence: Occurrence | None
) -> None:
    await put_rule(scene, new_id())
    rule = await rule_of(scene)
    await scene.cancel(await scene.create(60_000, recurring=occurrence))
    assert (await rule_of(scene), await rules_due(scene)) == (rule, {})


async def test_an_occurrence_between_two_attempts_has_left_its_rule(scene: Scene) -> None:
    invocation = await scene.held(recurring=OCCURRENCE, retries=1)
    await put_rule(scene, invocation.schedule_id)
    await scene.retry([invocation], 60_000)
    [done] = (await scene.cancel(invocation.schedule_id)).each
    assert done.stopped
    assert done.recurring_id is None
    assert (await rule_of(scene))[b"v"] == b"7"
    assert not await rules_due(scene)


@pytest.mark.parametrize("damage", ["rule", "version", "rules_due"])
async def test_a_damaged_rule_keeps_no_occurrence_from_being_cancelled(
    scene: Scene, damage: str
) -> None:
    whole, harmed = [ids.new_recurring_id(SLOT_MS) for _ in range(2)]
    made = []
    for rule in (whole, harmed):
        made.append(await scene.create(60_000, recurring=Occurrence(rule, SLOT_MS)))
        await put_rule(scene, made[-1], rule)
    if damage == "rule":
        await scene.redis.set(rule_key(scene, harmed), "1")
    elif damage == "version":
        await scene.redis.hset(rule_key(scene, harmed), "v", "seven")
    else:
        await scene.redis.set(keys.shard(scene.shard) + keys.RULES_DUE, "1")
    before = await scene.redis.dump(rule_key(scene, harmed))
    done = await scene.cancel_all(made)
    assert [each.refusal for each in done.each] == [None, None]
    assert done.credits == CREDITS
    assert await scene.redis.dump(rule_key(scene, harmed)) == before
    if damage == "rules_due":
        assert (await rule_of(scene, whole))[b"v"] == b"7"
        await scene.redis.delete(keys.shard(scene.shard) + keys.RULES_DUE)
    else:
        assert (await rules_due(scene)).keys() == {due_name(scene, whole)}
        await scene.redis.delete(rule_key(scene, harmed))


@pytest.mark.parametrize("named", NAMED)
@pytest.mark.parametrize("act", ["change", "replay", "onto", "onto a lane"])
async def test_it_stays_an_occurrence_and_a_replay_is_one_beside_the_slots(
    scene: Scene, named: dict[str, Any], act: str
) -> None:
    if act == "replay":
        [made] = await fail(scene, recurring=OCCURRENCE, **named)
    else:
        made = await scene.create(60_000, recurring=OCCURRENCE, **named)
    due_ms, schedules = await scene.clock.now_ms() + 90_000, scene.store.schedules
    lane = "b" if act == "onto a lane" else None
    request = Request(due_ms, "PUT", URL, body=b"{}", lane=lane, reference="x")
    if act == "change":
        changed = await schedules.change(scene.account_id, made, lambda _: request)
        assert changed.schedule == await scene.get(made)
    elif act == "replay":
        done = await schedules.replay(scene.account_id, made, lambda _: request)
        new = await scene.get(str(done.each[0].schedule_id))
        assert new.request.recurring == Occurrence(RULE)
    elif "reference" in named:
        upserts = [Upsert(each, keep=False) for each in (replace(request, url=URL + "/1"), request)]
        placed = await schedules.create_all(scene.account_id, upserts)
        assert placed.schedule_ids == [made] * 2
    else:
        return  # without a reference nothing is created onto it
    found = (await scene.get(made)).request
    assert found.recurring == OCCURRENCE
    assert act == "replay" or found == replace(request, recurring=OCCURRENCE)


async def test_the_report_of_an_occurrence_names_its_rule(scene: Scene) -> None:
    callback = Callback("https://example.com/ended")
    invocation = await scene.held(recurring=OCCURRENCE, callback=callback)
    await scene.ack([invocation], Outcome(Status.COMPLETED, 200, 1, ""))
    report = await scene.claim_one()
    assert report.is_callback
    assert json.loads(report.request.body or b"")["data"]["recurringId"] == RULE


async def test_a_deleted_account_leaves_no_rule_behind_that_is_due(scene: Scene) -> None:
    [leaving] = await scene.neighbours(1)
    theirs = f"{keys.parts(leaving).local}:{ids.local(RULE)}".encode()
    await scene.redis.zadd(keys.account(leaving) + keys.RULES, {ids.local(RULE): 0})
    due = keys.shard(scene.shard) + keys.RULES_DUE
    await scene.redis.zadd(due, {due_name(scene): 1, theirs: 1})
    await scene.store.changes.delete(leaving)
    assert (await rules_due(scene)).keys() == {due_name(scene)}
