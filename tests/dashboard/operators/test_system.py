"""The pages of operators."""

from __future__ import annotations

import json
import re
from typing import Any
from unittest.mock import AsyncMock

import pytest

from api.dashboard.attention.needs import meter_of
from api.dashboard.operators.accounts import COLUMNS
from api.dashboard.operators.holds import draining
from scheduler.events import Kind
from scheduler.rollups import DAY_MS
from scheduler.store import keys
from scheduler.store.operators.filling import Sample
from scheduler.store.operators.heartbeats import Process
from scheduler.store.operators.system import ServerStatus
from tests.dashboard.conftest import Browser, Dashboard, once_of, tiles_of
from tests.support.plain import redis_of

# She came by a link.
BOSS = "operator's link (boss)"
SAYS: dict[str, Any] = {"host": "quiet", "pid": 1, "inFlight": 2, "concurrency": 4096, "fired": 3}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was read a moment ago is shown again."""
    for name in ("operators.system._", "operators.accounts._"):
        monkeypatch.setattr(f"api.dashboard.{name}GOOD_FOR_S", 0.0)
    for name in ("SERVERS", "HISTORY"):
        monkeypatch.setattr(f"api.dashboard.attention.needs._{name}_GOOD_FOR_S", 0.0)
    monkeypatch.setattr("api.dashboard.viewer.session._HOLD_GOOD_FOR_S", 0.0)


async def test_the_system_is_for_operators(browser: Browser, boss: Browser) -> None:
    assert "/dashboard/system" not in await browser.text("")
    await browser.store.workers.beat("w", SAYS)
    text = await boss.text("/system")
    for words in ("2 of 4,096", "ada", "boss", "Valkey"):
        assert words in text
    assert "Put on hold" not in text


async def test_a_worker_that_is_gone_stays_listed_as_lost(
    boss: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await boss.store.workers.beat("w", SAYS)
    assert "No worker is alive" not in await boss.text("/system")
    now_ms = boss.store.clock.now_ms()
    monkeypatch.setattr(type(boss.store.clock), "now_ms", lambda _: now_ms)
    stored = f"{now_ms - 20_000} {json.dumps(SAYS)}"
    await redis_of(boss.store).hset(keys.WORKERS, "w", stored)
    text = await boss.text("/system")
    assert "No worker is alive" in text
    assert re.search(r"quiet.*?lost.*?20 s ago", text, re.DOTALL)


async def test_operators_see_a_hold_be_it_of_some_shards_only(boss: Browser) -> None:
    await boss.store.hold.begin()
    assert "Put on hold" in await boss.text("/system")
    await redis_of(boss.store).delete(keys.shard(0) + keys.HOLD)
    assert "3 of 4 shards were put on hold" in await boss.text("/system")
    assert "3 of 4 shards are <b>on hold</b>" in await boss.text("/lanes")


async def test_a_press_holds_and_shows_what_is_in_flight_until_it_is_safe(
    boss: Browser, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, client = boss.store, redis_of(boss.store)

    async def said(age_ms: int, in_flight: int) -> str:
        await client.delete(keys.WORKERS)
        heard_ms = store.clock.now_ms() - age_ms
        stored = f"{heard_ms} {json.dumps(SAYS | {'inFlight': in_flight})}"
        await client.hset(keys.WORKERS, "w", stored)
        text = await boss.text("/system")
        return re.sub(r"<[^>]+>|\s+", " ", text[text.index('id="draining"') :])

    assert "on hold" not in await boss.text("/credits")
    assert "Put all workers on hold?" in await boss.text("/system/hold")
    for _ in range(2):  # two operators
        answer = await boss.write("/system/hold")
        assert "On hold: workers claim nothing" in await boss.text_after(answer)
    assert "Workers are <b>on hold</b>" in await boss.text("/lanes")
    assert "on hold" not in await browser.text("/lanes"), "that is for operators"
    assert "has not told yet since the hold began" in await said(0, 0)
    for shard in range(4):
        await client.set(keys.shard(shard) + keys.HOLD, store.clock.now_ms() - 60_000)
    assert "14 in flight , wait until they end" in await said(0, 14)
    assert "0 in flight, safe to stop" in await said(0, 0)
    now_ms = store.clock.now_ms()
    monkeypatch.setattr(type(store.clock), "now_ms", lambda _: now_ms)
    silent = await said(20_000, 3)
    assert "not known to be safe" in silent
    assert "silent for 20 s, with 3 in flight: it may still send" in silent


async def test_a_late_press_ends_no_newer_hold(boss: Browser) -> None:
    store = boss.store
    since_ms = await store.hold.begin()
    assert (await boss.write("/system/resume", since=str(since_ms - 60_000))).status_code == 303
    assert (await store.hold.look()).since_ms == since_ms
    assert "put on hold again since then" in await boss.text("/system")
    assert f'name="since" value="{since_ms}"' in await boss.text("/system")
    for wrong in ("", "x", "-1", "\u0661"):
        assert (await boss.write("/system/resume", since=wrong)).status_code == 400
    for _ in range(2):
        assert (await boss.write("/system/resume", since=str(since_ms))).status_code == 303
    assert (await store.hold.look()).on_hold == 0
    assert "Resumed: workers claim due schedules again" in await boss.text("/system")


async def test_operators_acts_are_noted(boss: Browser, browser: Browser) -> None:
    store = boss.store
    form = {"account": browser.account_id, "credits": "1700", "once": "x" * 16}
    await boss.write("/system/grant", **form)
    await boss.write("/system/hold")
    since_ms = (await store.hold.look()).latest_ms
    await boss.write("/system/resume", since=str(since_ms))
    noted = [each[2:7] for each in reversed(await store.events.newest())]
    assert noted == [
        (Kind.GRANT, browser.account_id, BOSS, "1,700 credits", None),
        (Kind.HOLD, "", BOSS, "", None),
        (Kind.RESUMED, "", BOSS, "", since_ms),
    ]


async def test_an_act_is_done_if_its_note_is_lost_and_says_so(
    boss: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boss.store.events, "record", AsyncMock(return_value=False))
    answer = await boss.write("/system/hold")
    assert "did not take its entry for the audit" in await boss.text_after(answer)
    assert (await boss.store.hold.look()).on_hold == 4


NOW_MS = 1_000_000


def process(age_ms: int, in_flight: int) -> Process:
    return Process("w", NOW_MS - age_ms, {"inFlight": in_flight})


@pytest.mark.parametrize(
    ("workers", "in_flight", "unheard", "is_safe"),
    [
        ([], 0, 0, True),
        ([process(0, 0), process(900, 0)], 0, 0, True),
        ([process(0, 14), process(900, 0)], 14, 0, False),
        ([process(5001, 3)], 0, 1, False),  # silent: it may still send
        ([process(20_000, 0)], 0, 0, True),  # it said so after the hold began
        ([process(61_000, 0)], 0, 1, False),  # before that it said nothing of what it claimed since
        ([process(59_000, 0)], 0, 1, False),  # a claim may have been on its way to it
    ],
)
def test_it_is_safe_once_each_worker_said_so_since_the_hold_began(
    workers: list[Process], in_flight: int, unheard: int, is_safe: bool
) -> None:
    found = draining(workers, NOW_MS - 60_000, NOW_MS)
    assert (found.in_flight, len(found.unheard), found.is_safe) == (in_flight, unheard, is_safe)


async def test_operators_find_accounts_and_what_they_did(browser: Browser, boss: Browser) -> None:
    await browser.execute()
    await browser.execute(503)
    await browser.schedule(-90_000)
    for wanted in ("AD", "ada@example.com", browser.account_id[-5:]):
        text = await boss.text("/system", q=wanted)
        table = text[text.index('id="accounts"') :]
        assert browser.account_id in table
        assert "boss" not in table
        row = re.sub(r"<[^>]+>", " ", table[table.index("<tbody>") :])
        facts = r"free\s+100 %\s+2\s+1\s+1\s+1\s+1 min ago\s+[\d.]+ \w+\s+[\d.]+ %\s+97\s+of 100"
        assert re.search(facts, row), row
    assert "No account is like that" in await boss.text("/system", q="nobody")
    tiles = tiles_of(text)
    assert (tiles["overdue"], tiles["workers"]) == ("1", "0 of 0")


async def test_accounts_are_sorted_by_any_column_as_the_address_says(
    dashboard: Dashboard, boss: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, credits, waiting in (("zeta", 5, 3), ("Eta", 9, 0), ("beta", 7, 1)):
        theirs = dashboard.browser(await dashboard.account(name, credits=credits))
        for _ in range(waiting):
            await theirs.schedule()

    async def names(sort: str, **query: str) -> list[str]:
        text = await boss.text("/system/accounts", sort=sort, **query)
        return re.findall(r'class="name"><a href="/dashboard/as/[^>]*><bdi>(\w+)<', text)

    assert await names("name") == ["beta", "boss", "Eta", "zeta"]
    assert await names("-name", q="eta") == ["zeta", "Eta", "beta"]
    assert await names("-waiting", q="eta") == ["zeta", "beta", "Eta"]
    assert await names("credits", q="eta") == ["zeta", "beta", "Eta"]
    assert await names("-credits", q="eta") == ["Eta", "beta", "zeta"]
    for column in COLUMNS:
        text = await boss.text("/system", sort=f"-{column}", q="eta")
        assert text.count('aria-sort="descending"') == 1
        assert f'href="/dashboard/system?q=eta&amp;sort={column}#accounts"' in text
        assert f'hx-get="/dashboard/system/accounts?q=eta&amp;sort=-{column}"' in text
    assert 'sort=-share"' in await boss.text("/system", sort="nonsense")
    monkeypatch.setattr("api.dashboard.operators.accounts._MOST_LOOKED_AT", 1)
    text = await boss.text("/system/accounts")
    assert "4 shown of 4" in text, "one of each shard"
    assert "looked at" not in text
    await dashboard.account("fifth")
    text = await boss.text("/system/accounts")
    assert "4 shown of 5, of the 4 looked at" in text
    assert "fifth" in await boss.text("/system/accounts", q="fifth"), "a whole name is found"


async def test_operators_grant_credits_once(browser: Browser, boss: Browser) -> None:
    once = once_of(await boss.text("/system/grant", account=browser.account_id))
    form = {"account": browser.account_id, "credits": "7", "once": once}
    for _ in range(2):  # a form that is sent twice
        answer = await boss.write("/system/grant", **form)
        assert answer.status_code == 303
    assert "7 credits granted to ada: 107 are left" in await boss.text("/system")
    assert (await boss.get("/system/grant", account="x")).status_code == 404
    for credits in ("", "0", "-5", "1.5", "١٢", "9" * 14):
        assert (await boss.write("/system/grant", **form | {"credits": credits})).status_code == 400
    assert (await browser.write("/system/grant", **form | {"once": "x" * 16})).status_code == 404
    assert await browser.credits() == 107


GIB = 1 << 30


def server(used: float, most: float) -> ServerStatus:
    sizes = (int(used * GIB), int(used * GIB), int(most * GIB), 64 * GIB, 0)
    return ServerStatus("", "Valkey 9", *sizes, 1, 1, 0, [], [])


@pytest.mark.parametrize(
    ("used", "most", "grows", "level", "percent"),
    [
        (10, 100, 0, "", 10.0),
        (80, 100, 0, "warning", 80.0),
        (91, 100, 0, "alarm", 91.0),
        (10, 100, 10, "", 10.0),  # full in nine days
        (50, 100, 10, "warning", 50.0),
        (50, 100, 60, "alarm", 50.0),
        (120, 100, 0, "alarm", 100.0),
        (10, 0, 60, "", 0.0),  # no limit
    ],
)
def test_the_meter_is_red_when_full_or_full_within_a_day(
    used: float, most: float, grows: float, level: str, percent: float
) -> None:
    now_ms, day = 10**12, 48
    history = [
        Sample(now_ms - i * DAY_MS // day, int((used - grows * i / day) * GIB))
        for i in range(day, 0, -1)
    ]
    meter = meter_of(server(used, most), history, now_ms)
    assert (meter.level, meter.percent) == (level, percent)
    assert (meter.full_in_ms is None) == (not grows or not most)


async def test_the_page_says_when_the_store_is_full_at_this_rate(boss: Browser) -> None:
    store, client = boss.store, redis_of(boss.store)
    before = (await client.config_get("maxmemory"))["maxmemory"]
    try:
        await client.config_set("maxmemory", 0)
        assert "and no limit: set <code>maxmemory</code>" in await boss.text("/system")
        used = int((await client.info("memory"))["used_memory"])
        await client.config_set("maxmemory", 10 * used)
        assert "no steady growth seen" in await boss.text("/system")
        step = store.clock.now_ms() // (DAY_MS // 48)
        for i in range(48):  # it was empty a day ago, and about a tenth is used
            await client.hset(keys.FILLING, step - 48 + i, json.dumps({"": used * i // 48}))
        text = await boss.text("/system")
        assert re.search(r"full in ([89]|10) days at this rate", text)
    finally:
        await client.config_set("maxmemory", before)
