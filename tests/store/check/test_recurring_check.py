"""`Store.check` of recurring schedules: each index and occurrence, broken by hand, gives a
sentence; what goes on in their lives gives none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from scheduler import ids
from scheduler.lane_settings import Pause
from scheduler.models import Occurrence, Request
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft, Rule
from scheduler.store import keys
from tests.store.scene import URL, Scene, new_id

# Looked after within the hour, whatever the time is.
OFTEN = Timing(every_ms=1_800_000)
FAR_MS = 2**42
Breakage = Callable[[Scene, Rule], Awaitable[object]]

pytestmark = pytest.mark.usefixtures("checks_at_once")


async def create(scene: Scene, name: str | None = "nightly", timing: Timing = OFTEN) -> Rule:
    draft = Draft(Request(0, "POST", URL), timing, name)
    return (await scene.store.recurring.create(scene.account_id, draft)).rule


def key(scene: Scene, rule: Rule) -> str:
    return scene.base + keys.RULE + ids.local(rule.recurring_id)


def due(scene: Scene) -> str:
    return keys.shard(scene.shard) + keys.RULES_DUE


def member(scene: Scene, rule: Rule) -> str:
    return f"{keys.parts(scene.account_id).local}:{ids.local(rule.recurring_id)}"


def fields(**values: object) -> Breakage:
    return lambda scene, rule: scene.redis.hset(key(scene, rule), mapping=values)


def stands(*, occurrence: str | None = None, slot: int | None = None, fired: int = 0) -> Breakage:
    """Another place than it has; None: the same."""

    async def harm(scene: Scene, rule: Rule) -> object:
        was = rule.schedule_id or "sch_", rule.slot_ms
        at = ids.local(was[0]) if occurrence is None else occurrence
        value = f"{at} {was[1] if slot is None else slot} {fired}"
        return await scene.redis.hset(key(scene, rule), "n", value)

    return harm


def listed(name: str, member_: str) -> Breakage:
    return lambda scene, _: scene.redis.zadd(scene.base + name, {member_: 0})


def looked_at(at_ms: float | None) -> Breakage:
    async def harm(scene: Scene, rule: Rule) -> object:
        if at_ms is None:
            return await scene.redis.zrem(due(scene), member(scene, rule))
        return await scene.redis.zadd(due(scene), {member(scene, rule): at_ms})

    return harm


async def unlisted(scene: Scene, rule: Rule) -> object:
    return await scene.redis.delete(scene.base + keys.RULES)


async def unnamed(scene: Scene, rule: Rule) -> object:
    return await scene.redis.delete(scene.base + keys.RULE_NAMES)


async def misnamed(scene: Scene, rule: Rule) -> object:
    other = await create(scene, None)
    local = ids.local(other.recurring_id)
    return await scene.redis.hset(scene.base + keys.RULE_NAMES, "nightly", local)


async def miscounted(scene: Scene, rule: Rule) -> object:
    local = ids.local(rule.recurring_id)
    return await scene.redis.zadd(scene.base + keys.RULE_STATES, {local: 1})


async def gone(scene: Scene, rule: Rule) -> object:
    return await scene.redis.delete(key(scene, rule))


async def occurrence_ended(scene: Scene, rule: Rule) -> object:
    """As if it was fired by a worker that makes no next one."""
    now_ms = await scene.clock.now_ms()
    await scene.store.schedules.change(
        scene.account_id, rule.schedule_id or "", lambda old: replace(old, trigger_at_ms=now_ms - 1)
    )
    return await scene.ack(await scene.claim())


async def another_for_its_slot(scene: Scene, rule: Rule) -> object:
    occurrence = Occurrence(rule.recurring_id, rule.slot_ms)
    return await scene.create(60_000, recurring=occurrence)


@pytest.mark.parametrize(
    ("breakage", "sentences"),
    [
        (unlisted, ["is not among its account's recurring schedules"]),
        (listed(keys.RULES, "x"), ["among its rules is 'x', which is gone"]),
        (listed(keys.RULE_STATES, "x"), ["among its rule_states is 'x', which is gone"]),
        (miscounted, ["is active, and counted as in another state"]),
        (unnamed, ["has the name 'nightly', which does not lead to it"]),
        (misnamed, ["has the name 'nightly', which does not lead to it"]),
        (looked_at(None), ["needs to be looked after, and no worker will"]),
        (looked_at(FAR_MS), ["is looked after too late"]),
        (stands(occurrence=""), ["has no occurrence for its slot"]),
        (stands(occurrence=new_id()[4:]), ["has no occurrence for its slot"]),
        (stands(slot=1), ["has no occurrence for its slot"]),
        (stands(fired=FAR_MS), ["which is settled"]),
        (occurrence_ended, ["has no occurrence for its slot"]),
        (another_for_its_slot, ["has two schedules for its slot"]),
        (fields(p="dancing"), ["cannot be read", "its schedules that have not ended"]),
        (fields(d="?"), ["cannot be read", "its schedules that have not ended"]),
        (fields(r="?"), ["cannot be read", "its schedules that have not ended"]),
        (
            gone,
            [
                "among its rules is",
                "the name 'nightly' leads to",
                "looks after",
                "its schedules that have not ended",
            ],
        ),
    ],
)
async def test_each_fault_of_a_recurring_schedule_has_a_sentence(
    scene: Scene, breakage: Breakage, sentences: list[str]
) -> None:
    rule = await create(scene)
    assert await scene.store.check() == []
    await breakage(scene, rule)
    told = await scene.store.check()
    assert len(told) == len(sentences), told
    for sentence in sentences:
        assert any(sentence in each for each in told), told


async def test_what_goes_on_in_its_life_breaks_nothing(fake_scene: Scene) -> None:
    scene, recurring = fake_scene, fake_scene.store.recurring
    rule = await create(scene)
    account_id, name = scene.account_id, rule.recurring_id

    async def sound() -> None:
        assert await scene.store.check() == []

    await scene.clock.pass_ms(rule.slot_ms - await scene.clock.now_ms())
    held = await scene.claim()
    await sound()  # a worker may be lost here,
    await scene.store.tick()
    await recurring.advance(held)
    await sound()  # and here
    await scene.ack(held)
    await sound()
    after = await recurring.read(account_id, name)
    await scene.store.canceller.cancel(account_id, after.schedule_id or "")
    await sound()  # the rule is to be tended at once
    await recurring.tend(account_id, [name])
    await recurring.trigger(account_id, name)
    await sound()
    await recurring.pause(account_id, name, Pause("us"))
    await sound()
    await recurring.resume(account_id, name)
    await sound()
    await recurring.delete(account_id, name)
    await sound()


@pytest.mark.parametrize(
    ("due_ms", "sentences"),
    [
        (None, ["needs to be looked after, and no worker will"]),
        (2 * FAR_MS, ["is looked after too late"]),
    ],
)
async def test_a_pause_that_nobody_would_end_is_found(
    scene: Scene, due_ms: int | None, sentences: list[str]
) -> None:
    rule, pause = await create(scene), Pause("us", FAR_MS)
    await scene.store.recurring.pause(scene.account_id, rule.recurring_id, pause)
    assert await scene.store.check() == []
    await looked_at(due_ms)(scene, rule)
    assert await scene.store.check() == [
        f"{scene.account_id}: {rule.recurring_id} {each}" for each in sentences
    ]


async def test_a_rule_that_another_key_sealed_cannot_be_read(scene: Scene) -> None:
    rule = await create(scene)
    sealed = b"\xc1" + bytes(40)
    packed = await scene.redis.hget(key(scene, rule), "r")
    await scene.redis.hset(key(scene, rule), "r", packed[:33] + sealed)
    [told, *_] = await scene.store.check()
    assert f"{rule.recurring_id} cannot be read" in told


async def test_a_damaged_pause_is_in_no_other_rules_way(scene: Scene) -> None:
    damaged, sound = await create(scene, None), await create(scene, None)
    for each in (damaged, sound):
        await scene.store.recurring.pause(scene.account_id, each.recurring_id, Pause("us", FAR_MS))
        await looked_at(None)(scene, each)
    await fields(h=b"\xc1")(scene, damaged)
    await scene.store.claims.realign(scene.shard)
    for each in (damaged, sound):
        assert await scene.redis.zscore(due(scene), member(scene, each)) is not None


@pytest.mark.parametrize(
    "state", ["active", "paused", "paused with an occurrence", "paused until then", "ended"]
)
async def test_a_worker_finds_a_rule_that_nobody_would_look_after(scene: Scene, state: str) -> None:
    rule = await create(scene)
    if state != "active":
        pause = Pause("us", FAR_MS if state == "paused until then" else None)
        await scene.store.recurring.pause(scene.account_id, rule.recurring_id, pause)
    if state == "paused with an occurrence":
        await stands(occurrence=new_id()[4:])(scene, rule)
    if state == "ended":
        await fields(p="ended")(scene, rule)
        await scene.redis.zadd(scene.base + keys.RULE_STATES, {ids.local(rule.recurring_id): 3})
    await looked_at(None)(scene, rule)
    await scene.store.claims.realign(scene.shard)
    is_due = await scene.redis.zscore(due(scene), member(scene, rule)) is not None
    assert is_due is (state not in ("paused", "ended"))
    assert "no worker will" not in "".join(await scene.store.check())
