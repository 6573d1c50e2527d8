"""What Overview and System say first: each need, its order and its act; or that all is well."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from api.dashboard.attention import account, service
from api.dashboard.attention.needs import MOST_SHOWN, Meter, Need, folded, in_order
from scheduler.durations import DAY_MS
from scheduler.errors import StoreUnavailable, TooManyScans
from scheduler.lane_settings import AccountSettings, Lane, LaneSettings, Pause
from scheduler.models import LogEntry, LogStatus, Request
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft, Rule, RuleState
from scheduler.store.accounts.accounts import Movements
from scheduler.store.lanes.lanes import Backlogs, LaneBacklog
from scheduler.store.lifecycle.callback.callbacks import CallbackCounts
from scheduler.store.log.overview import AccountSnapshot
from scheduler.store.operators.census import Due
from scheduler.store.operators.heartbeats import Process
from scheduler.store.operators.restore import Held
from scheduler.store.operators.roster import AccountRow, RosterLook
from scheduler.store.operators.system import ServerStatus, ShardState
from tests.dashboard.conftest import Browser, Dashboard, tiles_of


@pytest.fixture(autouse=True)
def _read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was read a moment ago is shown again."""
    monkeypatch.setattr("api.dashboard.shared._is_stale", lambda entry, _: entry.reading.done())


NOW_MS = 20_000 * DAY_MS + DAY_MS // 2
PULSE = AccountSnapshot(NOW_MS, 100, 0, 0, 0, 0, None, [])
RULE = Rule(
    *("rec_1", "nightly", Timing(every_ms=60_000), Request(0, "GET", "https://example.com/")),
    *(RuleState.ACTIVE, NOW_MS),
)
ENTRY = LogEntry("sch_1", 0, 0, 0, "https://example.com/", "GET", LogStatus.FAILED, at_ms=NOW_MS)
FAILED, DONE = ENTRY, replace(ENTRY, status=LogStatus.COMPLETED)
SERVER = ServerStatus("", "Valkey 9", 93, 93, 100, 0, 0, 0, 0, 0, [], [])
LANE = Lane("a", LaneSettings(20, 3_600_000), NOW_MS, waiting=5, due=5, last_due_at_ms=NOW_MS)
PAUSED = replace(LANE, settings=LaneSettings(pause=Pause("us", NOW_MS + 5000)))
ROW = AccountRow(
    *("acc_00_abcdefgh", "ada", "free", False, "", 1, 1, 0, 0, 0, None, 0, 40, 0, 40),
)


def spent(*by_day: int) -> list[Movements]:
    """Credits by day, today's first."""
    today_ms = NOW_MS // DAY_MS * DAY_MS
    return [Movements(today_ms - n * DAY_MS, 0, each, 0) for n, each in enumerate(by_day)]


def told(needs: list[Need]) -> list[str]:
    """Each line as it is read, with its level and act."""
    return [
        f"{each.level}: {each.words}{each.name}{each.rest}"
        + (f" [{each.act.words}]" if each.act else "")
        for each in needs
    ]


def backlogs(*due: int, total: int = 0) -> Backlogs:
    lanes = [LaneBacklog(f"lane-{n}", each, NOW_MS - 5000) for n, each in enumerate(due)]
    return Backlogs(lanes, 0, len(due), total or len(due))


JUDGED: dict[str, tuple[list[Need], list[str]]] = {
    "overdue": (account.pulse_needs(PULSE._replace(overdue=3), 5000), ["alarm: 3 overdue"]),
    "in time": (account.pulse_needs(PULSE._replace(held=3), 99), []),
    "late": (
        account.pulse_needs(PULSE, 1500),
        ["alarm: 1 % of the last hour's requests were about 1.5 s late, or later"],
    ),
    "hold": (
        service.hold_needs(Held(5, 4, 4, 5)),
        ["alarm: The service is on hold: nothing starts [Resume]"],
    ),
    "hold of some": (
        service.hold_needs(Held(None, 3, 4, 5)),
        ["alarm: 3 of 4 parts of the service are on hold: nothing starts there [Resume]"],
    ),
    "no hold": (service.hold_needs(Held(None, 0, 4)), []),
    "no worker": (
        service.worker_needs(alive=False),
        ["alarm: No worker is alive: nothing is sent"],
    ),
    "store full": (
        service.store_needs([Meter(SERVER, 93.0, 2 * DAY_MS, "alarm")]),
        ["alarm: The service's memory is 93 % full: at 100 % nothing new is stored, in 2 days"],
    ),
    "store fills": (service.store_needs([Meter(SERVER, 80.0, None, "warning")]), []),
    "suspended": (
        account.pause_needs(AccountSettings(), PULSE._replace(held=2), suspended=True),
        ["alarm: This account is suspended: 2 due requests wait"],
    ),
    "paused": (
        account.pause_needs(AccountSettings(Pause("us")), PULSE, suspended=False),
        ["warning: This account is paused: nothing starts [Resume]"],
    ),
    "not paused": (account.pause_needs(AccountSettings(), PULSE, suspended=False), []),
    "no credits": (
        account.credit_needs(0, [], NOW_MS),
        ["alarm: No credits left: nothing can be scheduled"],
    ),
    "credits end": (
        account.credit_needs(60, spent(0, 90), NOW_MS),
        ["alarm: 60 credits left, enough for 1 day at this rate"],
    ),
    "credits end this week": (
        account.credit_needs(100, spent(0, 0, 0, 0, 0, 0, 260), NOW_MS),
        ["warning: 100 credits left, enough for 2 days at this rate"],
    ),
    "credits for long": (account.credit_needs(10_000, spent(90, 90), NOW_MS), []),
    "credits unused": (account.credit_needs(1, spent(0, 0), NOW_MS), []),
    "stored": (
        account.stored_needs(96, 100),
        ["alarm: 96.0 % of the bytes that may be stored are used"],
    ),
    "room": (account.stored_needs(79, 100), []),
    "lane": (
        account.lane_needs(backlogs(5), [LANE], PULSE),
        ["warning: 5 due in lane a: 20 per hour"],
    ),
    "paused lane": (
        account.lane_needs(backlogs(5), [PAUSED], PULSE),
        ["warning: 5 due in lane a: paused [Resume]"],
    ),
    "lanes": (
        account.lane_needs(backlogs(5, 6, 1000), [LANE, LANE, LANE], PULSE),
        ["warning: 3 lanes wait: 1,011 due"],
    ),
    "too many lanes": (
        account.lane_needs(backlogs(5, total=2000), [LANE], PULSE._replace(held=9)),
        [
            "warning: 5 due in lane a: 20 per hour",
            "warning: 4 more due in lanes beyond the first 1",
        ],
    ),
    "blocked": (
        account.blocked_needs(1, [replace(RULE, state=RuleState.BLOCKED, missed=3)]),
        ["alarm: nightly is blocked: 3 missed"],
    ),
    "many blocked": (
        account.blocked_needs(500, [RULE, RULE]),
        ["alarm: 500 recurring schedules are blocked"],
    ),
    "blocked and damaged": (
        account.blocked_needs(1, []),
        ["alarm: 1 recurring schedule is blocked"],
    ),
    "rule fails": (
        account.rule_needs([(RULE, [FAILED, FAILED, FAILED, DONE])]),
        ["warning: nightly has failed 3 times in a row [Pause]"],
    ),
    "rule recovered": (account.rule_needs([(RULE, [DONE, FAILED, FAILED, FAILED])]), []),
    "rule paused": (
        account.rule_needs([(replace(RULE, state=RuleState.PAUSED), [FAILED] * 20)]),
        [],
    ),
    "target": (
        account.target_needs({"a.example": (4, NOW_MS)}, {"a.example": (100, 5)}, NOW_MS),
        ["alarm: 4 requests to a.example failed, 5.0 % of its last 100 [Run again]"],
    ),
    "target recovered": (
        account.target_needs({"a.example": (4, NOW_MS)}, {"a.example": (300, 0)}, NOW_MS),
        [],
    ),
    "callbacks": (
        account.callback_needs(CallbackCounts(3, 7, NOW_MS)),
        ["warning: 7 callbacks failed [Send again]"],
    ),
    "callbacks pending": (account.callback_needs(CallbackCounts(3)), []),
}


@pytest.mark.parametrize(("needs", "lines"), JUDGED.values(), ids=JUDGED)
def test_each_need_is_a_line(needs: list[Need], lines: list[str]) -> None:
    assert told(needs) == lines


def test_operators_are_told_of_the_whole_service() -> None:
    alive, silent, lost = (
        Process("w", NOW_MS - age, {"host": "h", "pid": age}) for age in (0, 6000, 20_000)
    )
    shards = [ShardState(n, 1, 1, None, NOW_MS - 5000 if n == 1 else None) for n in range(4)]
    due = {0: Due(3.0, 5000.0, []), 1: Due(0.0, 0.0, []), 2: Due(1.0, 200.0, [])}
    meters = [
        Meter(SERVER, 93.0, None, "alarm"),
        Meter(SERVER._replace(name="n2", warnings=["It evicts keys."]), 10.0, None, ""),
    ]
    look = RosterLook([ROW, ROW._replace(failed=20)], ["acc_00_damaged0"], 5, 0)
    found = service.service_needs([alive, silent, lost], due, shards, meters, look, NOW_MS)
    assert told(found.needs) == [
        "alarm: 93.0 % of the store's memory is used",
        "alarm: Server n2: It evicts keys.",
        "alarm: 3 overdue in shard 00",
        "warning: Worker h 6000 is silent",
        "warning: Worker h 20000 is lost",
        "warning: 0 overdue in shard 01",
        "warning: 20 requests of ada failed in two hours, 50.0 % of all",
    ]
    assert found.unread == ["shard 03", "the accounts acc_00_damaged0", "2 more accounts"]
    well = service.service_needs([alive], {}, [], [], RosterLook([], [], 0, 0), NOW_MS)
    assert well.is_well
    unread = service.service_needs([alive], {}, [], [], None, NOW_MS)
    assert (unread.unread, unread.is_well) == (["the accounts"], False)
    none = service.service_needs([lost] * 4, {}, [], [], RosterLook([], [], 0, 0), NOW_MS)
    assert told(none.needs) == [
        "alarm: No worker is alive: nothing is sent",
        "warning: 4 workers are lost or silent",
    ]


def test_the_worst_comes_first_and_many_are_one_line() -> None:
    alarm, warning = Need("lane", "alarm", "b"), Need("paused", "warning", "a")
    wide = Need("hold", "alarm", "c")
    assert in_order([warning, alarm, wide]) == [wide, alarm, warning]
    lanes = [Need("lane", "warning", str(n), times=[("oldest due", 9.0 - n)]) for n in range(9)]
    assert folded(lanes[:2], "two", "/x") == lanes[:2]
    [one] = folded([*lanes, alarm], "ten", "/x", 12)
    assert (one.level, one.words, [*one.times]) == ("alarm", "ten", [("oldest due", 1.0)])
    assert (len(one.folded), one.more) == (MOST_SHOWN, 4)


async def attention(browser: Browser, path: str = "") -> str:
    """The words of a page's list, and its acts."""
    found = re.search(
        r'<section class="attention".*?</section>', await browser.text(path), re.DOTALL
    )
    return " ".join(re.sub(r"<[^>]+>", " ", found[0]).split()) if found else ""


async def test_overview_says_what_needs_attention_and_a_press_mends_it(
    dashboard: Dashboard, browser: Browser, boss: Browser
) -> None:
    store = browser.store
    await store.workers.beat("w", {"host": "quiet", "pid": 1})
    assert await attention(browser) == "", "a new account has none"
    await browser.schedule()
    assert "All is well" in await attention(browser)
    await browser.write("/lanes/slow/pause")
    for _ in range(2):
        await browser.schedule(-60_000, lane="slow")
    text = await browser.text("")
    assert {"overdue": "0", "held": "2", "soon": "0"}.items() <= tiles_of(text).items()
    assert "all in time" not in text
    assert "2 due in lane slow : paused oldest due 1 min ago" in await attention(browser)
    assert 'action="/dashboard/lanes/slow/resume"' in text
    looked_at = await boss.text(f"/as/{browser.account_id}")
    assert "2 due in lane" in looked_at
    assert "Resume" not in await attention(boss, f"/as/{browser.account_id}")
    await browser.write("/lanes/slow/resume")
    assert "2 due in lane slow : not started yet" in await attention(browser)
    assert tiles_of(await browser.text(""))["soon"] == "2"
    await store.hold.begin()
    assert "The service is on hold" in await attention(browser)
    assert tiles_of(await browser.text(""))["soon"] == "0", "none of them can start"
    assert "Resume" not in await attention(browser), "that is for operators"
    assert "The service is on hold: nothing starts" in await attention(boss)
    assert "All is well" not in await attention(boss, "/system")


@pytest.mark.parametrize(
    ("of", "name", "error", "said"),
    [
        ("hold", "look", StoreUnavailable("away"), "whether the service is on hold"),
        ("callbacks", "counts", TooManyScans(500), "the callbacks"),
        ("pauses", "read", ValueError("a defect"), None),
    ],
)
async def test_nothing_is_well_that_cannot_be_read(
    browser: Browser,
    monkeypatch: pytest.MonkeyPatch,
    of: str,
    name: str,
    error: Exception,
    said: Any,
) -> None:
    await browser.store.workers.beat("w", {"host": "quiet", "pid": 1})
    await browser.schedule()

    async def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(getattr(browser.store, of), name, fails)
    if said is None:
        assert (await browser.get("")).status_code == 500
        return
    text = await attention(browser)
    assert "All is well" not in text
    assert f"this could not be read: {said}." in text


async def test_failing_targets_and_rules_are_named(browser: Browser) -> None:
    store, account_id = browser.store, browser.account_id
    await store.workers.beat("w", {"host": "quiet", "pid": 1})
    timing = Timing(every_ms=3_600_000)
    draft = Draft(Request(0, "GET", "https://bad.example/x"), timing, "nightly")
    rule = (await store.recurring.create(account_id, draft)).rule
    for _ in range(3):
        await store.recurring.trigger(account_id, rule.recurring_id)
        await browser.end(503)
    text = await attention(browser)
    assert "3 requests to bad.example failed, 100 % of its last 3" in text
    assert "nightly has failed 3 times in a row" in text
