"""Calls that are bound to a tag: what they are bound to and what they do is one step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from scheduler.errors import OutcomeUnknown, PreconditionFailed
from scheduler.lane_settings import LaneSettings, Pause
from scheduler.models import Idempotency, Plan
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft, Put, Rule, RuleState
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.store.preconditions import ALWAYS, ANY, Precondition, quoted
from tests.store.clocks import START_MS
from tests.store.conftest import SHARDS
from tests.store.recurring.rules import HOUR_MS, Rules, draft
from tests.store.scene import Scene

OTHER = Precondition.of("another")
UNLESS_THERE = Precondition(None, frozenset((ANY,)))


def tags(*etags: str) -> frozenset[str]:
    return frozenset(each if each == ANY else quoted(each) for each in etags)


@pytest.fixture
def settings() -> Settings:
    """What is sealed anew has other bytes."""
    return Settings(shards=SHARDS, secret_key=(bytes(32),))


@pytest.mark.parametrize(
    ("match", "none_match", "etag", "is_so", "is_good"),
    [
        (None, None, "now", False, True),
        (None, None, None, False, True),
        (tags("now"), None, "now", False, True),
        (tags("old", "now"), None, "now", False, True),
        (tags("old"), None, "now", False, False),
        (frozenset(('W/"now"',)), None, "now", False, False),
        (tags(ANY), None, "now", False, True),
        # What is done already may have been done by this very call.
        (tags("old"), None, "now", True, True),
        (tags("old"), None, None, True, True),
        (tags("old"), None, None, False, False),
        (tags(ANY), None, None, False, False),
        (tags(ANY), None, None, True, False),
        (None, tags(ANY), None, False, True),
        (None, tags(ANY), "now", False, False),
        (None, tags(ANY), "now", True, False),
        (None, tags("old"), "now", False, True),
        (None, tags("old", "now"), "now", False, False),
        (tags("now"), tags(ANY), "now", False, False),
    ],
)
def test_a_write_is_judged(
    match: frozenset[str] | None,
    none_match: frozenset[str] | None,
    etag: str | None,
    *,
    is_so: bool,
    is_good: bool,
) -> None:
    """Without an etag it is not there."""
    wanted = Precondition(match, none_match)
    try:
        wanted.judge(etag, is_there=etag is not None, is_so=is_so)
    except PreconditionFailed:
        assert not is_good
    else:
        assert is_good


class Bound(NamedTuple):
    """`make` makes what the call is about, and returns its id; `act` is the call; `meddle` changes
    the same, whether or not the call has changed it already."""

    make: Callable[[Scene], Awaitable[str]]
    etag: Callable[[Scene, str], Awaitable[str | None]]
    act: Callable[[Scene, str, Precondition], Awaitable[Any]]
    meddle: Callable[[Scene, str], Awaitable[Any]]


async def a_rule(scene: Scene) -> str:
    made = await scene.store.recurring.create(scene.account_id, draft(Timing(every_ms=HOUR_MS)))
    return made.rule.recurring_id


async def a_paused_rule(scene: Scene) -> str:
    recurring_id = await a_rule(scene)
    await scene.store.recurring.pause(scene.account_id, recurring_id, Pause("us"))
    return recurring_id


async def rule_etag(scene: Scene, recurring_id: str) -> str:
    return (await scene.store.recurring.read(scene.account_id, recurring_id)).etag


def rule_with(**fields: Any) -> Callable[[Rule], Draft]:
    return lambda rule: Draft(replace(rule.request, **fields), rule.timing, rule.name)


async def meddle_with_rule(scene: Scene, recurring_id: str) -> None:
    change = rule_with(body=b"theirs")
    await scene.store.recurring.change(scene.account_id, recurring_id, change)


async def a_lane(scene: Scene) -> str:
    await scene.store.lanes.put(scene.account_id, "a", LaneSettings(note="first"))
    return "a"


async def lane_etag(scene: Scene, lane: str) -> str | None:
    return (await scene.store.lanes.read(scene.account_id, lane)).settings.etag


async def meddle_with_lane(scene: Scene, lane: str) -> None:
    await scene.store.lanes.put(scene.account_id, lane, LaneSettings(note="theirs"))


async def a_schedule(scene: Scene) -> str:
    return await scene.create(HOUR_MS)


async def schedule_etag(scene: Scene, schedule_id: str) -> str:
    return (await scene.store.schedules.read(scene.account_id, schedule_id)).etag


async def meddle_with_schedule(scene: Scene, schedule_id: str) -> None:
    await scene.change(schedule_id, body=b"theirs")


async def due_with_retries(scene: Scene) -> str:
    return await scene.create(retries=3)


async def attempt(scene: Scene, schedule_id: str) -> None:
    held = await scene.claim()
    assert [each.schedule_id for each in held] == [schedule_id]
    await scene.retry(held, HOUR_MS)


def change_schedule(scene: Scene, schedule_id: str, wanted: Precondition) -> Awaitable[Any]:
    return scene.store.schedules.change(
        scene.account_id, schedule_id, lambda old: replace(old, body=b"ours"), wanted=wanted
    )


def cancel(scene: Scene, schedule_id: str, wanted: Precondition) -> Awaitable[Any]:
    return scene.store.canceller.cancel(scene.account_id, schedule_id, wanted)


BOUND = {
    "a lane is set": Bound(
        a_lane,
        lane_etag,
        lambda s, n, w: s.store.lanes.put(s.account_id, n, LaneSettings(note="ours"), w),
        meddle_with_lane,
    ),
    "a lane is cleared": Bound(
        a_lane,
        lane_etag,
        lambda s, n, w: s.store.lanes.clear(s.account_id, n, w),
        meddle_with_lane,
    ),
    "a rule is changed": Bound(
        a_rule,
        rule_etag,
        lambda s, n, w: s.store.recurring.change(
            s.account_id, n, rule_with(body=b"ours"), wanted=w
        ),
        meddle_with_rule,
    ),
    "a rule is paused": Bound(
        a_rule,
        rule_etag,
        lambda s, n, w: s.store.recurring.pause(s.account_id, n, Pause("us"), w),
        meddle_with_rule,
    ),
    "a rule is resumed": Bound(
        a_paused_rule,
        rule_etag,
        lambda s, n, w: s.store.recurring.resume(s.account_id, n, w),
        meddle_with_rule,
    ),
    "a rule is deleted": Bound(
        a_rule,
        rule_etag,
        lambda s, n, w: s.store.recurring.delete(s.account_id, n, w),
        meddle_with_rule,
    ),
    "a schedule is changed": Bound(
        a_schedule, schedule_etag, change_schedule, meddle_with_schedule
    ),
    "a schedule is changed between attempts": Bound(
        due_with_retries, schedule_etag, change_schedule, attempt
    ),
    "a schedule is cancelled": Bound(a_schedule, schedule_etag, cancel, meddle_with_schedule),
    "a schedule is stopped": Bound(due_with_retries, schedule_etag, cancel, attempt),
}
WRITES = ("lanes/set", "lanes/clear", "recurring/step", "lifecycle/create/change", "lifecycle/end")
bound = pytest.mark.parametrize("bound", BOUND.values(), ids=BOUND)


@contextmanager
def at_the_first_write(
    scene: Scene, first: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
) -> Iterator[None]:
    """`first` gets the first write of the call, and may do something before it or after it."""
    server, run, met = scene.store.server, scene.store.server.run, list[str]()

    async def run_too(script: Any, *arguments: Any) -> Any:
        if met or not script.path.startswith(WRITES):
            return await run(script, *arguments)
        met.append(script.path)
        return await first(lambda: run(script, *arguments))

    with patch.object(server, "run", run_too):
        yield
    assert met


@bound
async def test_what_another_has_changed_since_is_not_overwritten(
    scene: Scene, bound: Bound
) -> None:
    """Not even between the look at the tag and the write."""
    name = await bound.make(scene)
    etag = await bound.etag(scene, name)
    assert etag is not None

    async def after_another(write: Callable[[], Awaitable[Any]]) -> Any:
        await bound.meddle(scene, name)
        return await write()

    with at_the_first_write(scene, after_another), pytest.raises(PreconditionFailed):
        await bound.act(scene, name, Precondition.of(etag))
    theirs, before = await bound.etag(scene, name), await scene.holdings()
    assert theirs not in (None, etag)
    for wanted in (OTHER, Precondition.of(etag), UNLESS_THERE):
        with pytest.raises(PreconditionFailed):
            await bound.act(scene, name, wanted)
    assert await bound.etag(scene, name) == theirs
    assert await scene.holdings() == before
    await bound.act(scene, name, Precondition.of(str(theirs)))


@bound
async def test_what_was_done_is_no_mismatch(scene: Scene, bound: Bound) -> None:
    """Neither to the store, whose reply was lost, nor to a client that repeats its call."""
    name = await bound.make(scene)
    if bound.meddle is attempt:
        await attempt(scene, name)
    wanted = Precondition.of(str(await bound.etag(scene, name)))

    async def lost(write: Callable[[], Awaitable[Any]]) -> Any:
        await write()
        raise OutcomeUnknown("The store's answer was lost")

    with at_the_first_write(scene, lost):
        await bound.act(scene, name, wanted)
    before = await scene.holdings()
    await bound.act(scene, name, wanted)
    assert await scene.holdings() == before


@pytest.mark.parametrize(
    "bound", [each for name, each in BOUND.items() if "a lane" in name or "changed" in name]
)
async def test_a_lost_reply_hides_no_change_that_followed(scene: Scene, bound: Bound) -> None:
    """The store has done it, and then another has changed the same: it is not done again."""
    if bound.meddle is attempt:
        return
    name = await bound.make(scene)
    wanted = Precondition.of(str(await bound.etag(scene, name)))

    async def lost(write: Callable[[], Awaitable[Any]]) -> Any:
        await write()
        await bound.meddle(scene, name)
        raise OutcomeUnknown("The store's answer was lost")

    with at_the_first_write(scene, lost):
        await bound.act(scene, name, wanted)
    theirs = await bound.etag(scene, name)
    await bound.meddle(scene, name)
    assert await bound.etag(scene, name) == theirs


async def test_a_schedules_tag_follows_all_but_who_holds_it(scene: Scene) -> None:
    schedule_id, etags = await due_with_retries(scene), list[str]()

    async def note(*, as_before: bool = False) -> None:
        etags.append(await schedule_etag(scene, schedule_id))
        assert (etags[-1] in etags[:-1]) is as_before

    await note()
    changed = await change_schedule(scene, schedule_id, ALWAYS)
    await note()
    assert changed.etag == etags[-1]
    same = await change_schedule(scene, schedule_id, OTHER)  # there is nothing to do
    await note(as_before=True)
    assert same.etag == etags[-1]
    held = await scene.claim()
    await note(as_before=True)
    await scene.retry(held, 0)
    await note()
    await scene.ack(await scene.claim())
    await note()


async def test_a_rules_tag_follows_its_settings_and_its_state(fake_rules: Rules) -> None:
    rules, scene = fake_rules, fake_rules.scene
    rule, etags = await rules.create(), list[str]()

    async def note(state: RuleState, *, as_before: bool = False) -> None:
        found = await rules.read(rule)
        etags.append(found.etag)
        assert (found.state, found.etag in etags[:-1]) == (state, as_before)

    await note(RuleState.ACTIVE)
    await rules.to(START_MS + HOUR_MS)
    await rules.fire()
    await note(RuleState.ACTIVE, as_before=True)
    await rules.change(rule, body=b"x")
    await note(RuleState.ACTIVE)
    await rules.recurring.pause(scene.account_id, rule.recurring_id, Pause("us"))
    await note(RuleState.PAUSED)
    await rules.recurring.resume(scene.account_id, rule.recurring_id)
    await note(RuleState.ACTIVE, as_before=True)
    await rules.take_credits(0)
    await rules.to(START_MS + 2 * HOUR_MS)
    await rules.fire()
    await note(RuleState.BLOCKED)


async def test_a_rule_is_put_as_its_name_has_it(rules: Rules) -> None:
    account_id = rules.scene.account_id

    async def put(binding: Precondition, **fields: Any) -> Put:
        wanted = draft(rules.timing, "ours", **fields)
        return await rules.recurring.put(account_id, "ours", lambda _: wanted, binding)

    for binding in (OTHER, Precondition(tags(ANY))):
        with pytest.raises(PreconditionFailed):
            await put(binding)
    made = await put(UNLESS_THERE)
    assert made.created
    for fields in ({}, {"body": b"x"}):
        with pytest.raises(PreconditionFailed):
            await put(UNLESS_THERE, **fields)
    changed = await put(Precondition(tags(ANY)), body=b"y")
    assert changed.rule.recurring_id == made.rule.recurring_id
    assert await rules.scene.store.check() == []


async def test_a_deletion_is_bound_too(rules: Rules) -> None:
    delete, account_id = rules.recurring.delete, rules.scene.account_id
    rule = await rules.create(name="ours")
    for wanted in (OTHER, UNLESS_THERE):
        with pytest.raises(PreconditionFailed):
            await delete(account_id, rule.recurring_id, wanted)
    seen = Precondition.of((await rules.read(rule)).etag)
    assert await delete(account_id, rule.recurring_id, seen) == "ours"
    assert await delete(account_id, rule.recurring_id, seen) is None
    with pytest.raises(PreconditionFailed):
        await delete(account_id, rule.recurring_id, Precondition(tags(ANY)))


async def test_a_trigger_is_judged_once(rules: Rules) -> None:
    trigger, account_id = rules.recurring.trigger, rules.scene.account_id
    rule, once = await rules.create(), Idempotency("k", "same")
    seen = Precondition.of((await rules.read(rule)).etag)
    first = await trigger(account_id, rule.recurring_id, once, seen)
    await rules.change(rule, body=b"x")
    again = await trigger(account_id, rule.recurring_id, once, seen)
    assert (again.schedule_ids, again.repeated) == (first.schedule_ids, True)
    with pytest.raises(PreconditionFailed):
        await trigger(account_id, rule.recurring_id, None, seen)
    assert len(await rules.waiting()) == 2
    await rules.recurring.delete(account_id, rule.recurring_id)
    gone = await trigger(account_id, rule.recurring_id, once, seen)
    assert gone.schedule_ids == first.schedule_ids


async def test_a_lane_is_there_while_it_has_a_setting(scene: Scene) -> None:
    lanes, account_id = scene.store.lanes, scene.account_id
    there = Precondition(tags(ANY))
    for write in (
        lambda wanted: lanes.put(account_id, "a", LaneSettings(note="x"), wanted),
        lambda wanted: lanes.clear(account_id, "a", wanted),
    ):
        with pytest.raises(PreconditionFailed):
            await write(there)
    await lanes.put(account_id, "a", LaneSettings(), UNLESS_THERE)
    await lanes.put(account_id, "a", LaneSettings(rate=1, per_ms=1000), UNLESS_THERE)
    with pytest.raises(PreconditionFailed):
        await lanes.put(account_id, "a", LaneSettings(note="x"), UNLESS_THERE)
    await lanes.change(account_id, "a", lambda old: replace(old, pause=Pause("ci")), there)
    await lanes.put(account_id, "a", LaneSettings(), there)
    assert (await lanes.read(account_id, "a")).settings.is_there, "it is paused"
    assert await lanes.clear(account_id, "a", there) == 0
    assert not (await lanes.read(account_id, "a")).settings.is_there


@pytest.mark.parametrize("noun", ["rule", "lane"])
async def test_of_many_that_create_at_once_one_does(processes: list[Store], noun: str) -> None:
    account = await processes[0].accounts.create("one", credits=9, plan=Plan.FREE)

    async def create(n: int) -> Any:
        store = processes[n % 2]
        if noun == "rule":
            wanted = draft(Timing(every_ms=HOUR_MS), "ours")
            put = store.recurring.put
            return await put(account.account_id, "ours", lambda _: wanted, UNLESS_THERE)
        settings = LaneSettings(note="the same")
        return await store.lanes.put(account.account_id, "a", settings, UNLESS_THERE)

    found = await asyncio.gather(*map(create, range(8)), return_exceptions=True)
    refused = [each for each in found if isinstance(each, PreconditionFailed)]
    assert len(refused) == len(found) - 1, found
