"""Recurring schedules: how they stand, and what may be done with one press."""

from __future__ import annotations

import html
import re
from unittest.mock import AsyncMock

import pytest

from api.dashboard.recurring import listing
from api.dashboard.zones import zone_named
from scheduler.errors import TooManyScans
from scheduler.ids import local
from scheduler.models import LogEntry, LogStatus
from scheduler.recurrence.recurring import RulePage, RuleState
from scheduler.store import keys
from scheduler.store.log.logs import LogPage
from tests.dashboard.conftest import Browser, Dashboard, once_of, rows, tiles_of
from tests.dashboard.recurring.recurring import UNKNOWN, WORDS, made, rule_of
from tests.support.plain import redis_of


async def test_a_rule_stands_in_words_with_its_next_time(browser: Browser) -> None:
    assert "no recurring schedule yet" in await browser.text("/recurring")
    path = await made(browser)
    rule = await rule_of(browser, path)
    for text in (await browser.text("/recurring"), await browser.text(path)):
        assert "invoices" in text
        assert WORDS in text
        assert "active" in text
        assert "s3cret" not in text
    assert f'href="/dashboard/requests/{rule.schedule_id}"' in text
    times = re.findall(r"<td>(\w{3}) (\d\d:\d\d:\d\d)</td>", text)
    assert len(times) == 5
    assert {clock for _, clock in times} == {"09:00:00"}
    assert {day for day, _ in times} == {"Mon", "Tue", "Wed", "Thu", "Fri"}
    await browser.write("/zone", zone="America/New_York")
    zone = zone_named("America/New_York")
    assert zone is not None
    assert rule.slot_ms is not None
    there = zone.text(rule.slot_ms)[:19].replace("T", " ")
    assert there.endswith("09:00:00")
    assert there in await browser.text("/recurring")


async def test_a_name_or_an_id_leads_to_its_rule(browser: Browser) -> None:
    path = await made(browser)
    for wanted in (" invoices ", path.rpartition("/")[2]):
        answer = await browser.get("/recurring", q=wanted)
        assert answer.headers["location"] == "/dashboard" + path
    for query in ({"q": "nightly"}, {"q": UNKNOWN}, {"state": "asleep"}, {"cursor": "x"}):
        answer = await browser.get("/recurring", **query)
        assert (answer.status_code, 'role="alert"' in answer.text) == (400, True), query
    for path in (f"/recurring/{UNKNOWN}", "/recurring/nothing", f"/recurring/{UNKNOWN}/change"):
        assert (await browser.get(path)).status_code == 404


async def test_the_list_is_filtered_by_state_and_goes_on_page_by_page(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_PER_PAGE", 2)
    paths = [await made(browser, name=f"r{n}", once=f"{n}") for n in range(3)]
    first = await browser.text("/recurring")
    [after] = re.findall(r'href="([^"]+)" rel="next"', first)
    second = (await browser.client.get(html.unescape(after))).text
    ids = re.findall(r'<tr id="(rec_\w+)"', first + second)
    assert sorted(ids) == sorted(path.rpartition("/")[2] for path in paths)
    await browser.write(f"{paths[1]}/pause")
    assert re.findall(r'<tr id="(rec_\w+)"', await browser.text("/recurring", state="paused")) == [
        paths[1].rpartition("/")[2]
    ]
    assert "No recurring schedule is ended" in await browser.text("/recurring", state="ended")


async def test_a_page_reads_the_outcomes_of_its_rules_and_no_more(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_PER_PAGE", 2)
    for n in range(3):
        await made(browser, name=f"r{n}", once=f"{n}")
    reads = AsyncMock(wraps=browser.store.logs.page)
    monkeypatch.setattr(browser.store.logs, "page", reads)
    await browser.text("/recurring")
    assert reads.await_count == 2
    monkeypatch.setattr(listing, "_OUTCOMES_GOOD_FOR_S", 3600.0)
    for _ in range(3):
        news = await browser.client.get("/dashboard/recurring", headers={"hx-request": "true"})
        assert news.status_code == 200
    assert reads.await_count == 4, "news are shared for a while"


async def test_pause_resume_and_delete_give_the_credit_back(browser: Browser) -> None:
    path = await made(browser)
    back = {"back": "/dashboard/recurring"}
    paused = await browser.write(f"{path}/pause", **back)
    text = await browser.text_after(paused)
    assert "invoices is paused" in text
    assert "Resume invoices" in text
    assert await browser.credits() == 100
    assert "once it is resumed" in await browser.text(path)
    await browser.write(f"{path}/pause", **{"for": "1h", "note": "until they mend it"})
    pause = (await rule_of(browser, path)).pause
    assert pause is not None
    assert pause.until_ms is not None
    assert (pause.by, pause.note) == ("dashboard", "until they mend it")
    text = await browser.text(path)
    assert "<bdi>until they mend it</bdi>" in text
    assert re.search(r"ends in (1 h|\d+ min)", text)
    assert "invoices goes on." in await browser.text_after(await browser.write(f"{path}/resume"))
    assert await browser.credits() == 99
    gone = await browser.text_after(await browser.write(f"{path}/delete"))
    assert "invoices is deleted." in gone
    assert await browser.credits() == 100
    assert (await browser.get(path)).status_code == 404


async def test_a_run_takes_one_credit_and_moves_no_time(browser: Browser) -> None:
    path = await made(browser)
    before = await rule_of(browser, path)
    once = once_of(await browser.text("/recurring"))
    for _ in range(2):  # a form that is sent twice
        answer = await browser.write(f"{path}/run", once=once, back="/dashboard/recurring")
        assert answer.headers["location"] == "/dashboard/recurring"
    assert await browser.credits() == 98
    assert (await rule_of(browser, path)).slot_ms == before.slot_ms


async def test_outcomes_are_dots_and_a_sentence(browser: Browser) -> None:
    path = await made(browser)
    assert "none yet" in await browser.text("/recurring")
    for number in range(22):
        await browser.write(f"{path}/run", once=f"{number}")
        await browser.end(503 if number == 20 else 200)
    for where in ("/recurring", path):
        text = await browser.text(where)
        assert "The last 20: 19 completed, 1 failed; the latest completed" in text
        dots = re.findall(r'<span class="dot (\w+)"></span>', text)
        assert dots == [*["completed"] * 18, "failed", "completed"]
    [all_of_it] = re.findall(r'<a href="(/dashboard/requests\?recurring=\w+)">', text)
    listed = rows((await browser.client.get(all_of_it)).text)
    assert len(listed) == 23, "the one that waits is among them"


async def test_outcomes_that_cannot_be_looked_for_take_no_page_away(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await made(browser)
    monkeypatch.setattr(browser.store.logs, "page", AsyncMock(side_effect=TooManyScans(1000)))
    for where in ("/recurring", path):
        assert "too much was searched" in await browser.text(where)


async def test_a_blocked_rule_says_why_and_what_to_do(dashboard: Dashboard) -> None:
    poor = await dashboard.signed_in(await dashboard.account("poor", credits=1))
    path = await made(poor)
    await poor.write(f"{path}/pause")
    await poor.schedule()
    resumed = await poor.text_after(await poor.write(f"{path}/resume"))
    assert "invoices is blocked" in resumed
    assert "goes on at its next time once there are some" in resumed
    assert tiles_of(resumed)["state"] == "blocked"
    text = await poor.text("/recurring")
    assert (await rule_of(poor, path)).state == RuleState.BLOCKED
    assert "no credits" in text
    assert "Pause invoices" in text


async def test_an_occurrence_leads_to_its_rule_and_its_neighbours(browser: Browser) -> None:
    path = await made(browser)
    ids = []
    for number in range(3):
        await browser.write(f"{path}/run", once=f"{number}")
        await browser.end(200)
        outcomes = await browser.text(path)
        ids.append(re.findall(r'href="/dashboard/requests/(sch_\w+)\?at', outcomes)[0])
    waiting = (await rule_of(browser, path)).schedule_id
    for schedule_id, before, after in (
        (ids[0], None, ids[1]),
        (ids[1], ids[0], ids[2]),
        (ids[2], ids[1], waiting),
        (waiting, ids[2], None),
    ):
        text = await browser.text(f"/requests/{schedule_id}")
        assert f'<a href="/dashboard{path}"><bdi>invoices</bdi></a>' in text
        for rel, there in (("prev", before), ("next", after)):
            links = re.findall(rf'<a rel="{rel}" href="/dashboard/requests/(\w+)', text)
            assert links == ([] if there is None else [there]), (rel, schedule_id)
    await browser.write(f"{path}/delete")
    assert "Its recurring schedule is deleted." in await browser.text(f"/requests/{ids[1]}")


async def test_times_that_were_missed_are_no_requests(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stand in the lists and lead to their rule; nothing can be done to them."""
    path = await made(browser)
    rule, now_ms = await rule_of(browser, path), browser.store.clock.now_ms()
    missed = LogEntry(
        *("", now_ms, now_ms - 3_600_000, None, "https://example.com/", "POST", LogStatus.SKIPPED),
        error_message="Insufficient credits",
        at_ms=now_ms,
        recurring_id=rule.recurring_id,
        missed=3,
    )
    logged = AsyncMock(return_value=LogPage([missed], None))
    monkeypatch.setattr(browser.store.logs, "page", logged)
    for where in ("", "/requests?status=skipped"):
        text = await browser.text(where)
        assert f'href="/dashboard{path}"' in text, where
        assert 'href="/dashboard/requests/?' not in text
    assert 'name="id"' not in text
    text = await browser.text(path)
    assert "3 missed from then on: Insufficient credits" in text
    matching = {"action": "again", "scope": "matching"}
    asked = await browser.write("/requests/bulk", **matching)
    assert "None is selected, or none matches." in asked.text


async def test_a_damaged_rule_takes_no_other_page_away(browser: Browser) -> None:
    path, other = await made(browser), await made(browser, name="other", once="y")
    recurring_id, waiting = path.rpartition("/")[2], (await rule_of(browser, path)).schedule_id
    client = redis_of(browser.store)
    await client.hset(keys.account(browser.account_id) + keys.RULE + local(recurring_id), "d", "x")
    listed = await browser.text("/recurring")
    assert (other in listed, path in listed) == (True, False)
    shown = await browser.get(path)
    assert (shown.status_code, "is damaged: an operator can look." in shown.text) == (500, True)
    assert f'href="/dashboard{path}"' in await browser.text(f"/requests/{waiting}")
    assert (await browser.get("/jump", q="invoices")).status_code == 200


async def test_a_page_of_a_state_may_find_none_and_go_on(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = AsyncMock(return_value=RulePage([], UNKNOWN))
    monkeypatch.setattr(browser.store.recurring, "page", page)
    text = await browser.text("/recurring", state="ended")
    assert "None among those that were looked at so far." in text
    assert f'href="/dashboard/recurring?state=ended&amp;cursor={UNKNOWN}" rel="next"' in text
