"""Rules as their owners set them: named, changed, listed, triggered, within quotas."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from scheduler.errors import (
    InsufficientCredits,
    InvalidRequest,
    KeepsChanging,
    KeyReused,
    NotFound,
    QuotaExceeded,
    RecurringNameTaken,
    StoreFull,
    TooManyLanes,
    TooManyRecurring,
    TooManyScans,
    Unreadable,
)
from scheduler.lane_settings import Pause
from scheduler.models import Idempotency, Plan, RetryOn
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Put, RuleState
from scheduler.store import keys
from scheduler.store.recurring.steps import Answer
from scheduler.store.verdict import Verdict
from tests.store.clocks import START_MS
from tests.store.recurring.acts import Act, delete, pause, resume
from tests.store.recurring.rules import DAY_MS, HOUR_MS, HOURLY, Rules, draft, slot_of
from tests.store.scene import CREDITS, Scene

NEXT_MS = START_MS + HOUR_MS


async def bytes_of(scene: Scene) -> int:
    return int(await scene.redis.hget(scene.base + keys.ACCOUNT, "bytes") or 0)


# Names


async def test_a_put_creates_a_rule_and_then_changes_nothing(rules: Rules) -> None:
    scene, recurring = rules.scene, rules.recurring
    every = Timing(every_ms=HOUR_MS)
    drafts = {body: draft(every, "ours", body=body) for body in (b"{}", b"[]")}

    async def put(body: bytes) -> Put:
        return await recurring.put(scene.account_id, "ours", lambda _: drafts[body])

    made, *first = await put(b"{}")
    version = await scene.redis.hget(rules.key(made), "v")
    again, *second = await put(b"{}")
    assert (first, second) == ([True, False], [False, True])  # created, unchanged
    assert (again.recurring_id, again.schedule_id) == (made.recurring_id, made.schedule_id)
    assert await scene.redis.hget(rules.key(made), "v") == version
    changed, *third = await put(b"[]")
    assert (changed.request.body, third) == (b"[]", [False, False])
    assert changed.schedule_id == made.schedule_id
    assert await scene.credits() == CREDITS - 1
    assert await recurring.by_name(scene.account_id, "ours") == changed
    with pytest.raises(NotFound):
        await recurring.by_name(scene.account_id, "theirs")


async def test_a_put_that_was_carried_out_has_not_found_it_so(
    rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, recurring = rules.scene, rules.recurring
    await recurring.put(scene.account_id, "ours", lambda _: draft(HOURLY, "ours"))
    one = recurring._steps.one

    async def repeated(step: Any, **options: Any) -> Any:
        """The reply is lost, and the repeat meets another version."""
        await one(step, **options)
        return await one(step, **options)

    monkeypatch.setattr(recurring._steps, "one", repeated)
    other = draft(HOURLY, "ours", body=b"{}")
    put = await recurring.put(scene.account_id, "ours", lambda _: other)
    assert (put.rule.request.body, put.unchanged) == (b"{}", False)


async def test_puts_of_a_name_at_once_make_one_rule(rules: Rules) -> None:
    scene = rules.scene
    drafts = [draft(HOURLY, "ours", body=b"%d" % n) for n in range(6)]
    made = [partial(lambda each, _: each, each) for each in drafts]
    await asyncio.gather(*(rules.recurring.put(scene.account_id, "ours", each) for each in made))
    assert len((await rules.recurring.page(scene.account_id)).rules) == 1
    assert len(await rules.waiting()) == 1


async def test_a_name_is_of_one_rule(rules: Rules) -> None:
    first, second = await rules.create(name="a"), await rules.create(name="b")
    with pytest.raises(RecurringNameTaken):
        await rules.create(name="a")
    with pytest.raises(RecurringNameTaken):
        await rules.change(second, name="a")
    await rules.change(first, name="c")
    assert (await rules.change(second, name="a")).name == "a"
    assert (await rules.change(first, name=None)).name is None
    await rules.create(name="c")
    assert await rules.scene.credits() == CREDITS - 3


# Changes


async def test_a_change_reaches_the_occurrence_that_waits(rules: Rules) -> None:
    scene = rules.scene
    rule = await rules.create(lane="a", reference="x")
    more = {"labels": ("c", "d"), "retry_on": RetryOn.ANY, "door": b"as made"}
    changed = await rules.change(rule, lane="b", reference="y", body=b"{}", **more)
    assert (changed.schedule_id, changed.slot_ms) == (rule.schedule_id, rule.slot_ms)
    assert changed.etag != rule.etag
    found = await scene.get(str(rule.schedule_id))
    assert (found.request.lane, found.request.reference) == ("b", "y")
    assert found.request.body == b"{}"
    assert {name: getattr(found.request, name) for name in more} == more
    assert await rules.waiting() == [(rule.slot_ms, rule.slot_ms)]
    assert await scene.redis.zrange(scene.base + keys.LANES, 0, -1) == [b"b"]
    assert await scene.credits() == CREDITS - 1


async def test_a_resume_amid_a_pause_loses_no_time(
    rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, account_id = await rules.create(), rules.scene.account_id
    canceller, resumes = rules.recurring._canceller, [True]
    by_id = canceller.by_id

    async def late(*arguments: Any) -> Any:
        if resumes:
            resumes.clear()
            await rules.recurring.resume(account_id, rule.recurring_id)
        return await by_id(*arguments)

    monkeypatch.setattr(canceller, "by_id", late)
    await rules.recurring.pause(account_id, rule.recurring_id, Pause("us"))
    assert await rules.waiting() == [(rule.slot_ms,) * 2]
    assert (await rules.read(rule)).state == RuleState.ACTIVE


async def test_who_paused_first_stays_and_the_last_end_and_note_hold(rules: Rules) -> None:
    rule, account_id = await rules.create(), rules.scene.account_id
    first = await rules.recurring.pause(account_id, rule.recurring_id, Pause("us"))
    assert first.pause is not None
    end_ms = first.pause.since_ms + DAY_MS
    wanted = Pause("them", end_ms, "they mend it")
    second = await rules.recurring.pause(account_id, rule.recurring_id, wanted)
    assert second.pause == replace(first.pause, until_ms=end_ms, note="they mend it")
    assert len({rule.etag, first.etag, second.etag}) == 3
    resumed = await rules.recurring.resume(account_id, rule.recurring_id)
    assert (resumed.pause, resumed.etag) == (None, rule.etag)


@pytest.mark.parametrize("act", [pause, resume, delete])
async def test_a_call_that_met_only_changes_says_so(
    rules: Rules, monkeypatch: pytest.MonkeyPatch, act: Act
) -> None:
    rule = await rules.create()
    if act is resume:
        await pause(rules, rule)

    async def changed(*_: object, **__: object) -> Answer:
        return Answer(Verdict.CHANGED)

    monkeypatch.setattr(rules.recurring._steps, "one", changed)
    with pytest.raises(KeepsChanging):
        await act(rules, rule)


# Creates


async def test_a_key_creates_one_rule(rules: Rules) -> None:
    scene, once = rules.scene, Idempotency("a key", "what")
    asked = [rules.recurring.create(scene.account_id, draft(), once) for _ in range(4)]
    made = await asyncio.gather(*asked)
    first = next(each.rule for each in made if not each.repeated)
    for each in made:
        told = each.rule
        assert (told.recurring_id, told.schedule_id) == (first.recurring_id, first.schedule_id)
        assert (told.slot_ms, told.timing) == (first.slot_ms, first.timing)
    assert [each.repeated for each in made].count(False) == 1
    await rules.recurring.delete(scene.account_id, first.recurring_id)
    again = await rules.recurring.create(scene.account_id, draft(), once)
    assert (again.repeated, again.rule.recurring_id) == (True, first.recurring_id)
    with pytest.raises(KeyReused):
        await rules.recurring.create(scene.account_id, draft(), replace(once, fingerprint="other"))
    with pytest.raises(KeyReused):
        await scene.store.schedules.created_before(scene.account_id, replace(once, fingerprint=""))


@pytest.mark.parametrize(
    ("timing", "field"),
    [
        (Timing(cron="0 0 30 2 *"), "cron"),
        (Timing(cron="0 0 29 2 *", starts_at_ms=START_MS + 20 * 365 * DAY_MS), "startsAt"),
        (replace(HOURLY, ends_at_ms=START_MS + 1), "endsAt"),
    ],
)
async def test_a_rule_that_never_fires_is_refused(
    fake_rules: Rules, timing: Timing, field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await fake_rules.create(timing)
    assert [each.field for each in refused.value.details] == [field]
    assert await fake_rules.stored() == []


async def test_what_cannot_be_stored_leaves_nothing(
    rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = rules.scene
    await rules.take_credits(0)
    with pytest.raises(InsufficientCredits):
        await rules.create(name="ours")
    await scene.store.accounts.grant(scene.account_id, 3)
    with pytest.raises(NotFound):
        await rules.recurring.create("acc_00_22222222", draft())
    limits: Any = rules.recurring._steps._head
    quotas = list(limits)
    limits[quotas.index(Plan.FREE) + 1] = 500
    with pytest.raises(QuotaExceeded):
        await rules.create(name="ours")
    limits[:] = quotas
    limits[3] = 1
    await rules.create()
    with pytest.raises(TooManyRecurring):
        await rules.create(name="ours")
    limits[:] = quotas
    lanes = {f"lane{n}": 0 for n in range(10_000)}
    await scene.redis.zadd(scene.base + keys.LANES, lanes)
    with pytest.raises(TooManyLanes):
        await rules.create(name="ours", lane="another")
    assert await scene.credits() == 2
    assert len(await scene.redis.keys(scene.base + keys.RULE + "*")) == 1


async def test_a_rule_weighs_what_it_stores(rules: Rules) -> None:
    scene = rules.scene
    rule = await rules.create(name="ours", lane="a", reference="x", body=b"x" * 100)
    before = await bytes_of(scene)
    changed = await rules.change(rule, body=b"x" * 1100)
    assert await bytes_of(scene) == before + 2 * 1001  # the length has a byte more
    await rules.change(changed, body=b"x" * 100)
    assert await bytes_of(scene) == before
    d, r = await scene.redis.hmget(rules.key(rule), "d", "r")
    await scene.cancel_all([str(rule.schedule_id)])
    kept = sum(map(int, await scene.redis.hvals(scene.base + keys.EXPIRING)))
    assert await bytes_of(scene) == 256 + len(d) + len(r) + kept
    await rules.recurring.delete(scene.account_id, rule.recurring_id)
    assert await bytes_of(scene) == kept


# Triggers, lists and damage


async def test_a_trigger_makes_an_occurrence_beside_the_times(fake_rules: Rules) -> None:
    rules, scene = fake_rules, fake_rules.scene
    rule = await rules.create(replace(HOURLY, expires_after_ms=5000))
    made = await rules.recurring.trigger(scene.account_id, rule.recurring_id)
    [held] = await rules.fire()
    assert [held.schedule_id] == made.schedule_ids
    assert (slot_of(held.request), held.request.recurring_id) == (None, rule.recurring_id)
    assert held.request.expires_at_ms == START_MS + 5000
    assert await rules.waiting() == [(NEXT_MS, NEXT_MS)]
    once = Idempotency("a key", "what")
    twice = [await rules.recurring.trigger(scene.account_id, rule.recurring_id, once) for _ in "ab"]
    assert twice[0].schedule_ids == twice[1].schedule_ids
    assert [each.repeated for each in twice] == [False, True]
    assert await scene.credits() == CREDITS - 3


async def listed(rules: Rules, **query: Any) -> list[str]:
    found, cursor = list[str](), None
    while True:
        page = await rules.recurring.page(rules.scene.account_id, cursor=cursor, **query)
        found += [each.recurring_id for each in page.rules]
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7])
async def test_lists_have_each_rule_once(
    rules: Rules, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = rules.scene
    made = [await rules.create() for _ in range(6)]
    paused = made[1::2]
    for each in paused:
        await rules.recurring.pause(scene.account_id, each.recurring_id, Pause("us"))
    assert await listed(rules, limit=limit) == sorted(each.recurring_id for each in made)
    monkeypatch.setattr("scheduler.store.recurring.reading._BUDGET", 2)
    names = sorted(each.recurring_id for each in paused)
    assert await listed(rules, limit=limit, state=RuleState.PAUSED) == names
    assert await listed(rules, limit=limit, state=RuleState.ENDED) == []
    active = sorted(each.recurring_id for each in made[::2])
    assert await listed(rules, limit=limit, state=RuleState.ACTIVE) == active
    monkeypatch.setattr("scheduler.store.recurring.steps.CHUNK_BYTES", 1)
    assert await listed(rules, limit=limit) == sorted(each.recurring_id for each in made)
    with pytest.raises(InvalidRequest):
        await rules.recurring.page(scene.account_id, cursor="x")


async def test_a_page_of_those_that_are_not_active_reads_no_others(
    rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, account_id = [await rules.create() for _ in range(6)], rules.scene.account_id
    await rules.recurring.pause(account_id, made[-1].recurring_id, Pause("us"))
    monkeypatch.setattr("scheduler.store.recurring.reading._BUDGET", 2)
    page = await rules.recurring.page(account_id, state=RuleState.PAUSED, limit=1)
    assert ([each.recurring_id for each in page.rules], page.next_cursor) == (
        [made[-1].recurring_id],
        None,
    )


async def test_names_are_found_by_how_they_begin(
    rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any letter case; also where the names are read in several steps."""
    monkeypatch.setattr("scheduler.store.recurring.reading._BUDGET", 10)
    named = {name: await rules.create(name=name) for name in ("sync.b", "Sync.a", "syncXa", "asy")}
    for n in range(600):
        await rules.scene.redis.hset(rules.scene.base + keys.RULE_NAMES, f"other-{n}", "x")
    found = await rules.recurring.beginning(rules.scene.account_id, "sYnc.", 5)
    assert found == [(name, named[name].recurring_id) for name in ("Sync.a", "sync.b")]
    assert len(await rules.recurring.beginning(rules.scene.account_id, "other", 5)) == 5
    await rules.scene.redis.set(rules.scene.base + keys.SCANS, 2**52)
    with pytest.raises(TooManyScans):
        await rules.recurring.beginning(rules.scene.account_id, "s", 5)


@pytest.mark.harmed
async def test_a_rule_whose_request_cannot_be_read_is_deleted(fake_rules: Rules) -> None:
    rule, scene = await fake_rules.create(), fake_rules.scene
    await scene.redis.hset(fake_rules.key(rule), "r", b"?")
    with pytest.raises(Unreadable):
        await fake_rules.read(rule)
    await fake_rules.recurring.delete(scene.account_id, rule.recurring_id)
    assert await fake_rules.waiting() == []
    assert await scene.redis.exists(fake_rules.key(rule)) == 0


@pytest.mark.harmed
@pytest.mark.parametrize("act", [pause, resume])
async def test_a_rule_whose_request_cannot_be_read_stays_as_it_is(
    fake_rules: Rules, act: Act
) -> None:
    """Also when the last time of a paused one has passed, so that nothing is packed for it."""
    rule, scene = await fake_rules.create(replace(HOURLY, ends_at_ms=NEXT_MS)), fake_rules.scene
    if act is resume:
        await pause(fake_rules, rule)
        await fake_rules.to(NEXT_MS + 1)
    await scene.redis.hset(fake_rules.key(rule), "r", b"?")
    before = await scene.redis.hgetall(fake_rules.key(rule)), await fake_rules.waiting()
    with pytest.raises(Unreadable):
        await act(fake_rules, rule)
    assert (await scene.redis.hgetall(fake_rules.key(rule)), await fake_rules.waiting()) == before


@pytest.mark.harmed
async def test_a_damaged_rule_is_in_no_other_s_way(fake_rules: Rules) -> None:
    rules, scene = fake_rules, fake_rules.scene
    damaged, sound = await rules.create(), await rules.create()
    await scene.redis.hset(rules.key(damaged), "d", b"\xc1")
    assert await listed(rules) == [sound.recurring_id]
    with pytest.raises(Unreadable):
        await rules.read(damaged)
    await rules.to(NEXT_MS)
    assert len(await rules.fire()) == 2
    assert await rules.waiting() == [(NEXT_MS + HOUR_MS,) * 2]
    await rules.to(NEXT_MS + 60_000)
    assert [await rules.tend(), await rules.tend()] == [1, 0]
    await scene.redis.delete(rules.key(damaged))
    await rules.to(NEXT_MS + 120_000)
    await rules.tend()
    assert len(await rules.due()) == 1


@pytest.mark.harmed
async def test_a_damaged_lane_is_in_no_other_rule_s_way(fake_rules: Rules) -> None:
    """Rules of an account advance together."""
    rules, scene = fake_rules, fake_rules.scene
    sound, laned = await rules.create(), await rules.create(lane="a")
    await rules.to(NEXT_MS)
    held = await scene.claim()
    await scene.redis.delete(scene.base + keys.LANE_QUEUE + "a")
    await scene.redis.set(scene.base + keys.LANE_QUEUE + "a", "1")
    await rules.recurring.advance(held)
    assert (await rules.read(sound)).slot_ms == NEXT_MS + HOUR_MS
    assert (await rules.read(laned)).slot_ms == NEXT_MS


async def test_the_rules_of_a_deleted_account_are_not_tended(rules: Rules) -> None:
    scene = rules.scene
    await rules.create()
    member, _ = (await rules.due()).popitem()
    await scene.store.changes.delete(scene.account_id)
    due = keys.shard(scene.shard) + keys.RULES_DUE
    await scene.redis.zadd(due, {member: 1})
    assert await rules.tend() == 1
    assert await rules.due() == {}
    assert await scene.redis.keys(scene.base + "*") == []


@pytest.mark.harmed
async def test_a_damaged_account_is_in_no_other_s_way(rules: Rules) -> None:
    """Its rule is to lose its occurrence, and the list of those that are held is none."""
    scene = rules.scene
    [other] = await scene.neighbours(1)
    rule, theirs = await rules.create(), (await rules.recurring.create(other, draft())).rule
    await scene.redis.hset(rules.key(rule), "p", "paused")
    await scene.store.canceller.cancel(other, str(theirs.schedule_id))
    for key in (keys.WAITING, keys.HELD):
        await scene.redis.delete(scene.base + key)
        await scene.redis.set(scene.base + key, "1")
    due = keys.shard(scene.shard) + keys.RULES_DUE
    for member in await rules.due():
        await scene.redis.zadd(due, {member: 1})
    assert await rules.tend() == 2
    assert await rules.tend() == 0
    assert (await rules.recurring.read(other, theirs.recurring_id)).schedule_id is not None


@pytest.mark.harmed
async def test_a_damaged_queue_is_in_no_other_s_way(rules: Rules) -> None:
    """Rules of both accounts are to get an occurrence, in one call."""
    scene = rules.scene
    [other] = await scene.neighbours(1)
    ours, theirs = await rules.create(), (await rules.recurring.create(other, draft())).rule
    for account_id, rule in ((scene.account_id, ours), (other, theirs)):
        await scene.store.canceller.cancel(account_id, str(rule.schedule_id))
    await scene.redis.delete(scene.base + keys.WAITING)
    await scene.redis.set(scene.base + keys.WAITING, "1")
    due = keys.shard(scene.shard) + keys.RULES_DUE
    for member in await rules.due():
        await scene.redis.zadd(due, {member: 1})
    assert [await rules.tend(), await rules.tend()] == [2, 0]
    assert (await rules.recurring.read(other, theirs.recurring_id)).schedule_id is not None
    assert (await rules.recurring.read(scene.account_id, ours.recurring_id)).schedule_id is None


@pytest.mark.parametrize(
    ("damaged", "field", "told"),
    [
        ("rule", "d", "a recurring schedule cannot be read"),
        ("account", "credits", "a recurring schedule is damaged, or its account is"),
    ],
)
@pytest.mark.harmed
async def test_the_log_says_once_what_keeps_a_rule_from_going_on(
    fake_rules: Rules, damaged: str, field: str, told: str
) -> None:
    rules, scene = fake_rules, fake_rules.scene
    rule = await rules.create()
    await scene.cancel(str(rule.schedule_id))
    key = rules.key(rule) if damaged == "rule" else scene.base + keys.ACCOUNT
    await scene.redis.hset(key, field, b"\xc1")
    await rules.to(NEXT_MS)
    with capture_logs() as logs:
        assert await rules.tend() == 1
    assert [(each["event"], each["recurring"]) for each in logs] == [(told, rule.recurring_id)]


async def test_a_full_store_goes_on_with_rules_and_takes_no_new_ones(rules: Rules) -> None:
    scene, recurring = rules.scene, rules.recurring
    rule = await rules.create()
    await scene.change(str(rule.schedule_id), trigger_at_ms=1)
    await scene.redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(StoreFull):
            await rules.create()
        with pytest.raises(StoreFull):
            await rules.change(rule, body=b"{}")
        assert len(await rules.fire()) == 1
        [(slot_ms, _)] = await rules.waiting()
        assert slot_ms == (rule.slot_ms or 0) + HOUR_MS
        await recurring.pause(scene.account_id, rule.recurring_id, Pause("us"))
        assert await rules.waiting() == []
        await recurring.delete(scene.account_id, rule.recurring_id)
    finally:
        await scene.redis.config_set("maxmemory", 0)
