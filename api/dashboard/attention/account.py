"""What needs the attention of an account's members, judged for Overview, and the reads for that.
Overview names what could not be read, and does not call it well."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from api.dashboard.attention.needs import (
    MOST_SHOWN,
    Act,
    Attention,
    Need,
    at_this_rate,
    ends_level,
    folded,
    in_order,
    level,
    meters_of,
)
from api.dashboard.attention.service import hold_needs, store_needs, worker_needs
from api.dashboard.formats import duration, number, share
from api.dashboard.lanes import limits
from api.dashboard.recurring.texts import ADDRESS as RECURRING
from api.dashboard.recurring.texts import name_of, why_blocked
from api.dashboard.requests.filters import Filter
from api.dashboard.shared import Shared
from api.dashboard.viewer.session import ROOT
from scheduler.callbacks import CallbackStatus
from scheduler.errors import NotFound, StoreError, TooManyScans
from scheduler.lane_settings import AccountSettings, Lane, LaneState
from scheduler.models import Account, LogEntry, LogStatus
from scheduler.recurrence.recurring import Rule, RuleState
from scheduler.rollups import DAY_MS, HOUR_MS, MINUTE_MS
from scheduler.store import Store
from scheduler.store.accounts.accounts import Movements
from scheduler.store.lanes.lanes import Backlogs, LaneBacklog
from scheduler.store.lifecycle.callback.callbacks import CallbackCounts
from scheduler.store.log.logs import LogQuery
from scheduler.store.log.overview import AccountSnapshot
from scheduler.target.targets import split_url

# From where on a figure is a warning, and an alarm.
FAILED_SHARES = (0.01, 0.05)
LATENESS_MS = (100, 1000)
STORED_SHARES = (0.8, 0.95)
# Fewer failures are no reason to warn of a target or a recurring schedule.
_LEAST_FAILURES = 3
# A target's share of failures is that of so many requests of the last hour.
_SAMPLED, _PER_PAGE = 300, 100
_MOST_RULES, _MOST_OUTCOMES = 5, 20
_PATIENCE_S = 2.0
# A live page asks each second: what a press changes is never older than the page after it.
_SOON_S, _LATER_S, _RARELY_S = 1.0, 5.0, 30.0


class Failing(NamedTuple):
    """Failures that were not replayed, by host, of the last hour: how many, and when the last was
    (ms); and failures of the last day by recurring schedule."""

    hosts: Mapping[str, tuple[int, int]]
    rules: Mapping[str, int]


class Source(NamedTuple):
    """The account, and what the page has read of it already. `most_bytes`: 0 without a quota."""

    store: Store
    shared: Shared
    account: Account
    pulse: AccountSnapshot
    failing: Failing
    late_ms: int
    most_bytes: int


_Read = Callable[[Source], Awaitable[list[Need]]]


async def attention_of(source: Source) -> Attention:
    """All needs of an account. What cannot be read within 2 s is named instead."""
    # By what they read, as the page names it.
    reads: dict[str, _Read] = {
        "whether the service is on hold": _of_hold,
        "the workers": _of_workers,
        "the memory of the store": _of_store,
        "the account's pause": _of_pause,
        "the credits": _of_credits,
        "the stored bytes": _of_stored,
        "the lanes": _of_lanes,
        "blocked recurring schedules": _of_blocked,
        "the outcomes of recurring schedules": _of_rules,
        "the targets": _of_targets,
        "the callbacks": _of_callbacks,
    }

    async def read(one: _Read) -> list[Need]:
        async with asyncio.timeout(_PATIENCE_S):
            return await one(source)

    found = await asyncio.gather(*map(read, reads.values()), return_exceptions=True)
    needs, unread = pulse_needs(source.pulse, source.late_ms), list[str]()
    for name, some in zip(reads, found, strict=True):
        if isinstance(some, list):
            needs += some
        elif isinstance(some, (StoreError, TooManyScans, TimeoutError)):
            unread.append(name)
        else:
            raise some
    return Attention(in_order(needs), unread, source.store.clock.now_ms())


def pulse_needs(pulse: AccountSnapshot, late_ms: int) -> list[Need]:
    """`late_ms`: the 99th percentile of the last hour. Pure."""
    if pulse.overdue:
        wanted = Filter(LogStatus.SCHEDULED, late_ms=1000).address()
        times = [("oldest due", pulse.overdue_since_ms)] if pulse.overdue_since_ms else []
        return [Need("overdue", "alarm", f"{number(pulse.overdue)} overdue", "", "", times, wanted)]
    if how := level(late_ms - 1, LATENESS_MS):
        words = f"1 % of the last hour's requests were about {duration(late_ms)} late, or later"
        return [Need("late", how, words, address=Filter(by_lateness=True, when="1h").address())]
    return []


async def _of_hold(source: Source) -> list[Need]:
    return hold_needs(await source.shared.get("hold", 1.0, source.store.hold.look))


async def _of_workers(source: Source) -> list[Need]:
    found = await source.shared.get("workers", _SOON_S, source.store.workers.all)
    now_ms = source.store.clock.now_ms()
    return worker_needs(alive=any(not each.is_lost(now_ms) for each in found))


async def _of_store(source: Source) -> list[Need]:
    return store_needs(await meters_of(source.store, source.shared))


async def _of_pause(source: Source) -> list[Need]:
    account_id = source.account.account_id
    settings = await source.store.pauses.read(account_id)
    return pause_needs(settings, source.pulse, suspended=source.account.suspended)


def pause_needs(
    settings: AccountSettings, pulse: AccountSnapshot, *, suspended: bool
) -> list[Need]:
    """Pure."""
    waits = f": {number(pulse.held)} due requests wait" if pulse.held else ": nothing starts"
    if suspended:
        return [Need("suspended", "alarm", f"This account is suspended{waits}")]
    if (pause := settings.pause) is None:
        return []
    times: list[tuple[str, float]] = [("since", pause.since_ms)]
    if pause.until_ms:
        times.append(("ends", pause.until_ms))
    act, page = Act("Resume", f"{ROOT}/account/resume"), f"{ROOT}/account"
    words = f"This account is paused{waits}"
    return [Need("paused", "warning", words, "", "", times, page, act=act)]


async def _of_credits(source: Source) -> list[Need]:
    store, account_id = source.store, source.account.account_id
    days = await source.shared.get(
        (account_id, "movements"), _RARELY_S, lambda: store.accounts.movements(account_id)
    )
    return credit_needs(source.pulse.credits, days, source.pulse.now_ms)


def credit_needs(credits: int, days: Sequence[Movements], now_ms: int) -> list[Need]:
    """Pure."""
    page = f"{ROOT}/credits"
    if credits <= 0:
        words = "No credits left: nothing can be scheduled"
        return [Need("credits", "alarm", words, address=page)]
    left_ms = lasts_ms(credits, days, now_ms)
    how, rate = ends_level(left_ms), at_this_rate("enough for", left_ms)
    words = f"{number(credits)} credits left{rate}"
    return [Need("credits", how, words, address=page)] if how else []


def lasts_ms(credits: int, days: Sequence[Movements], now_ms: int) -> float | None:
    """How long credits last at the rate since yesterday began, or of a week, whichever ends sooner;
    None if none are spent. Days are UTC. Pure."""
    today_ms, found = now_ms // DAY_MS * DAY_MS, list[float]()
    for back in (1, 6):
        since_ms = today_ms - back * DAY_MS
        spent = sum(each.spent - each.refunded for each in days if each.day_ms >= since_ms)
        if spent > 0:
            found.append(credits * (now_ms - since_ms) / spent)
    return min(found, default=None)


async def _of_stored(source: Source) -> list[Need]:
    store, account_id = source.store, source.account.account_id
    if not source.most_bytes:
        return []
    used = await source.shared.get(
        (account_id, "stored"), _LATER_S, lambda: store.accounts.stored_bytes(account_id)
    )
    return stored_needs(used, source.most_bytes)


def stored_needs(used: int, most: int) -> list[Need]:
    """Pure."""
    how = level(used / most, STORED_SHARES)
    words = f"{share(used, most)} of the bytes that may be stored are used"
    return [Need("stored", how, words, address=f"{ROOT}/credits")] if how else []


async def _of_lanes(source: Source) -> list[Need]:
    if not source.pulse.soon_in_lanes:
        return []
    store, account_id = source.store, source.account.account_id
    found = await backlogs_of(store, source.shared, account_id)
    reads = (store.lanes.read(account_id, each.lane) for each in found.lanes[:MOST_SHOWN])
    return lane_needs(found, await asyncio.gather(*reads), source.pulse)


async def backlogs_of(store: Store, shared: Shared, account_id: str) -> Backlogs:
    key = (account_id, "backlogs")
    return await shared.get(key, _SOON_S, lambda: store.lanes.backlogs(account_id))


def lane_needs(found: Backlogs, lanes: Sequence[Lane], pulse: AccountSnapshot) -> list[Need]:
    """`lanes` are the first of those that were found. Pure."""
    needs = [_lane_need(*both) for both in zip(found.lanes, lanes, strict=False)]
    due = sum(each.due for each in found.lanes)
    words, page = f"{number(len(found.lanes))} lanes wait: {number(due)} due", f"{ROOT}/lanes"
    needs = folded(needs, words, page, len(found.lanes))
    if found.looked_at < found.total and pulse.held > due:
        words = f"{number(pulse.held - due)} more due in lanes beyond the first {found.looked_at:,}"
        needs.append(Need("lane", "warning", words, address=page))
    return needs


def _lane_need(found: LaneBacklog, lane: Lane) -> Need:
    page, settings, act = f"{ROOT}/lanes/{lane.lane}", lane.settings, None
    times: list[tuple[str, float]] = [("oldest due", found.oldest_ms)]
    match lane.state:
        case LaneState.PAUSED:
            why, act = "paused", Act("Resume", f"{page}/resume")
            if settings.pause and settings.pause.until_ms:
                times.append(("pause ends", settings.pause.until_ms))
        case LaneState.CALM:
            why = "its target asked for calm"
            times.append(("calm ends", lane.calm_until_ms or 0))
        case _:
            has_limits = settings.rate is not None or settings.parallelism is not None
            why = limits(settings) if has_limits else "not started yet"
    if lane.empty_at_ms is not None:
        times.append(("empty", lane.empty_at_ms))
    words = f"{number(found.due)} due in lane "
    return Need("lane", "warning", words, lane.lane, f": {why}", times, page, "Open", act)


async def _of_blocked(source: Source) -> list[Need]:
    store, account_id = source.store, source.account.account_id
    total, rules = await source.shared.get(
        (account_id, "blocked"), _SOON_S, lambda: store.recurring.blocked(account_id, MOST_SHOWN)
    )
    return blocked_needs(total, rules)


def blocked_needs(total: int, rules: Sequence[Rule]) -> list[Need]:
    """Pure."""
    page = f"{RECURRING}?state=blocked"
    needs = [_blocked_need(each) for each in rules]
    words = f"{total:,} recurring schedules are blocked"
    if total and not needs:  # those that were read are damaged
        words = words if total > 1 else "1 recurring schedule is blocked"
        return [Need("blocked", "alarm", words, address=page)]
    return folded(needs, words, page, total)


def _blocked_need(rule: Rule) -> Need:
    why = why_blocked(rule)
    times = [] if rule.slot_ms is None else [("tried again", rule.slot_ms)]
    rest = f" is blocked: {why}" if why else " is blocked"
    page = f"{RECURRING}/{rule.recurring_id}"
    return Need("blocked", "alarm", "", name_of(rule), rest, times, page, "Fix")


async def _of_rules(source: Source) -> list[Need]:
    worst_first = sorted(source.failing.rules.items(), key=lambda each: -each[1])
    ids = [rule for rule, count in worst_first if count >= _LEAST_FAILURES][:_MOST_RULES]
    if not ids:
        return []
    store, account_id = source.store, source.account.account_id

    async def read() -> list[tuple[Rule, Sequence[LogEntry]]]:
        found = list[tuple[Rule, Sequence[LogEntry]]]()
        for each in ids:
            statuses = (LogStatus.COMPLETED, LogStatus.FAILED)
            query = LogQuery(statuses, limit=_MOST_OUTCOMES, recurring_id=each)
            outcomes = (await store.logs.page(account_id, query)).entries
            try:
                found.append((await store.recurring.read(account_id, each), outcomes))
            except NotFound:  # deleted since
                continue
        return found

    return rule_needs(await source.shared.get((account_id, "rules", *ids), _LATER_S, read))


def rule_needs(found: Sequence[tuple[Rule, Sequence[LogEntry]]]) -> list[Need]:
    """Of active rules with their last outcomes, the newest first. Pure."""
    needs = list[Need]()
    for rule, outcomes in found:
        failed = next(
            (n for n, each in enumerate(outcomes) if each.status is not LogStatus.FAILED),
            len(outcomes),
        )
        if failed < _LEAST_FAILURES or rule.state is not RuleState.ACTIVE:
            continue
        page = f"{RECURRING}/{rule.recurring_id}"
        many = "at least " if failed == _MOST_OUTCOMES else ""
        rest = f" has failed {many}{failed} times in a row"
        times = [("first", outcomes[failed - 1].at_ms)]
        act = Act("Pause", f"{page}/pause")
        needs.append(Need("rule", "warning", "", name_of(rule), rest, times, page, "Open", act))
    return folded(needs, f"{len(needs)} recurring schedules fail", RECURRING)


async def _of_targets(source: Source) -> list[Need]:
    hosts = {
        host: told for host, told in source.failing.hosts.items() if told[0] >= _LEAST_FAILURES
    }
    if not hosts:
        return []
    store, account_id = source.store, source.account.account_id

    async def read() -> dict[str, tuple[int, int]]:
        """By host, how many of the newest requests went to it, and how many of these failed."""
        from_ms, found = store.clock.now_ms() - HOUR_MS, dict[str, tuple[int, int]]()
        statuses = (LogStatus.COMPLETED, LogStatus.FAILED)
        query = LogQuery(statuses, from_ms=from_ms, limit=_PER_PAGE)
        for _ in range(_SAMPLED // _PER_PAGE):
            log = await store.logs.page(account_id, query)
            for each in log.entries:
                host = split_url(each.url)[0].lower()
                sent, failed = found.get(host, (0, 0))
                found[host] = (sent + 1, failed + (each.status is LogStatus.FAILED))
            if log.next_cursor is None:
                break
            query = query._replace(cursor=log.next_cursor)
        return found

    sample = await source.shared.get((account_id, "sample"), _LATER_S, read)
    return target_needs(hosts, sample, source.pulse.now_ms)


def target_needs(
    hosts: Mapping[str, tuple[int, int]], sample: Mapping[str, tuple[int, int]], now_ms: int
) -> list[Need]:
    """`hosts` as of `Failing`; `sample`: sent and failed by host. Pure."""
    since_ms = (now_ms - HOUR_MS) // MINUTE_MS * MINUTE_MS
    needs = list[Need]()
    for host, (count, last_ms) in sorted(hosts.items(), key=lambda each: -each[1][0]):
        sent, failed = sample.get(host, (0, 0))
        how = level(failed / sent, FAILED_SHARES) if sent else ""
        if not how:
            continue
        wanted = Filter(LogStatus.FAILED, host=host, replayable=True, from_ms=since_ms)
        fields = wanted.pairs() | {"scope": "matching", "action": "again"}
        act = Act("Run again", f"{ROOT}/requests/bulk", fields)
        rest = f" failed, {share(failed, sent)} of its last {sent}"
        words, times = f"{number(count)} requests to ", [("last", last_ms)]
        page = wanted.address()
        needs.append(Need("target", how, words, host, rest, times, page, "List", act))
    return folded(needs, f"{len(needs)} targets fail", f"{ROOT}/requests?status=failed&replayed=no")


async def _of_callbacks(source: Source) -> list[Need]:
    store, account_id = source.store, source.account.account_id
    counts = await source.shared.get(
        (account_id, "callbacks"), _SOON_S, lambda: store.callbacks.counts(account_id)
    )
    return callback_needs(counts)


def callback_needs(counts: CallbackCounts) -> list[Need]:
    """Pure."""
    if not counts.failed:
        return []
    wanted = Filter(callback=CallbackStatus.FAILED)
    fields = wanted.pairs() | {"scope": "matching", "action": "callback"}
    act = Act("Send again", f"{ROOT}/requests/bulk", fields)
    words = f"{number(counts.failed)} callback{'s' if counts.failed > 1 else ''} failed"
    times = [] if counts.failed_since_ms is None else [("first", counts.failed_since_ms)]
    return [Need("callbacks", "warning", words, "", "", times, wanted.address(), "List", act)]
