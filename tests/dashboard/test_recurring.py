"""Recurring schedules: how they stand, their form with its preview, and what may be done."""

from __future__ import annotations

import html
import re
from unittest.mock import AsyncMock

import httpx
import pytest

from api.dashboard.recurring import listing
from api.dashboard.zones import zone_named
from scheduler.errors import StoreUnavailable, TooManyScans
from scheduler.ids import local
from scheduler.masks import MASK
from scheduler.models import LogEntry, LogStatus
from scheduler.recurring import Rule, RulePage, RuleState
from scheduler.store import keys
from scheduler.store.log.logs import LogPage
from tests.dashboard.conftest import ORIGIN, Browser, Dashboard, once_of, rows, tiles_of
from tests.plain import redis_of
from tests.servers import in_days

UNKNOWN = "rec_" + "0" * 26
FORM = {
    "way": "cron",
    "cron": "0 9 * * mon-fri",
    "timeZone": "America/New_York",
    "name": "invoices",
    "url": "https://example.com/hook?token=s3cret&a=1",
    "method": "POST",
    "headers": "Authorization: s3cret\nX-Shop: 1",
    "body": '{"n":1.50}',
    "once": "x",
}
WORDS = "At 09:00 on weekdays, New York"


async def send(browser: Browser, path: str, **fields: str) -> httpx.Response:
    """A form of ours that has a field `headers`."""
    data = fields | {"csrf": await browser.csrf()}
    return await browser.client.post("/dashboard" + path, data=data, headers={"origin": ORIGIN})


async def made(browser: Browser, **fields: str) -> str:
    """The path of a new rule's page."""
    answer = await send(browser, "/recurring/new", **FORM | fields)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"]).removeprefix("/dashboard")


async def rule_of(browser: Browser, path: str) -> Rule:
    return await browser.store.recurring.read(browser.account_id, path.rpartition("/")[2])


def filled(text: str) -> dict[str, str]:
    """The fields of the page's large form as it was filled."""
    form = text[text.index('class="halves"') :]
    found = dict(re.findall(r'<input[^>]* name="(\w+)"[^>]* value="([^"]*)"', form))
    found |= dict(re.findall(r'<textarea name="(\w+)"[^>]*>([^<]*)</textarea>', form))
    for name, options in re.findall(r'<select name="(\w+)">(.*?)</select>', form):
        chosen = re.search(r'<option(?: value="([^"]*)")? selected>([^<]*)', options)
        found[name] = (chosen[1] or chosen[2]) if chosen and chosen[1] != "" else ""
    del found["csrf"], found["once"]
    return {name: html.unescape(value) for name, value in found.items()}


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


async def test_a_form_is_judged_as_the_api_does_and_kept_as_typed(browser: Browser) -> None:
    before = f"{in_days(-2):%Y-%m-%d}T00:00"
    bad = (
        ({"cron": "0 9 * * * *"}, "Cron"),
        ({"cron": "60 * * * *"}, "Cron"),
        ({"cron": "0 0 30 2 *"}, "Cron"),
        ({"cron": ""}, "Cron"),
        ({"way": "every", "every": "999ms"}, "Every"),
        ({"timeZone": "Mars/Olympus"}, "Time zone"),
        ({"startsAt": "soon"}, "From"),
        ({"endsAt": before}, "Until"),
        ({"expiresAfter": "x"}, "Expires after"),
        ({"name": "two words"}, "Name"),
        ({"url": "ftp://example.com"}, "Where to"),
        ({"headers": "Host: x"}, "Headers, Host"),
    )
    for fields, label in bad:
        refused = await send(browser, "/recurring/new", **FORM | fields)
        assert refused.status_code == 400, (fields, refused.status_code)
        assert f'role="alert"><b>{label}</b>: ' in refused.text, fields
        given = filled(refused.text)
        assert {name: given[name] for name in fields} == fields
    assert "no recurring schedule yet" in await browser.text("/recurring")
    assert await browser.credits() == 100


async def test_a_form_that_is_sent_twice_makes_one(browser: Browser) -> None:
    assert await made(browser) == await made(browser)
    assert await browser.credits() == 99
    taken = await send(browser, "/recurring/new", **FORM | {"once": "y"})
    assert (taken.status_code, "<b>Name</b>: " in taken.text) == (409, True)


async def test_without_credits_none_is_made(dashboard: Dashboard) -> None:
    poor = await dashboard.signed_in(await dashboard.account("poor", credits=0))
    refused = await send(poor, "/recurring/new", **FORM)
    assert (refused.status_code, "<b>Credits</b>: " in refused.text) == (402, True)
    assert "has no credits" in refused.text


async def test_the_preview_has_ten_times_and_the_sentence(browser: Browser) -> None:
    fields = {"way": "cron", "cron": "0 9 * * 1-5", "timeZone": "America/New_York"}
    text = await browser.text("/recurring/preview", **fields)
    assert text.count(" 09:00:00</td>") == 10
    assert WORDS in text
    every = await browser.text("/recurring/preview", way="every", every="90m", cron="x")
    assert "Every 1h30m" in every
    for bad, words in (
        ({"cron": "0 0 30 2 *"}, "never comes"),
        ({"cron": "0 9 * * * *"}, "five fields"),
        ({"timeZone": "Mars"}, "IANA"),
    ):
        assert words in await browser.text("/recurring/preview", **fields | bad)
    assert "Give a cron" in await browser.text("/recurring/preview")


async def test_a_preview_leads_nobody_away_who_is_signed_out(dashboard: Dashboard) -> None:
    assert (await dashboard.browser().get("/recurring/preview")).status_code == 204


async def test_a_preview_keeps_to_what_an_account_may_search(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = AsyncMock(side_effect=TooManyScans(1500))
    monkeypatch.setattr("api.dashboard.recurring.preview.next_times", refused)
    text = await browser.text("/recurring/preview", cron="0 0 29 2 *")
    assert "Too much was searched; try again in 2 s." in text


async def test_the_buttons_preview_writes_nothing(browser: Browser) -> None:
    path = await made(browser)
    before = await rule_of(browser, path)
    for where in ("/recurring/new", f"{path}/change"):
        answer = await send(browser, where, **FORM | {"cron": "5 4 * * *", "preview": "1"})
        assert (answer.status_code, "At 04:05, New York" in answer.text) == (200, True)
        assert 'value="5 4 * * *"' in answer.text
    assert await rule_of(browser, path) == before
    assert await browser.credits() == 99


async def test_a_change_keeps_the_secrets_that_its_form_does_not_show(browser: Browser) -> None:
    path = await made(browser)
    text = await browser.text(f"{path}/change")
    given = filled(text)
    assert "s3cret" not in text
    assert MASK in given["headers"]
    unchanged = await send(browser, f"{path}/change", **given)
    assert unchanged.status_code == 303, unchanged.text
    asked = (await rule_of(browser, path)).request
    assert (asked.url, asked.body) == (FORM["url"], b'{"n":1.50}')
    given = filled(await browser.text(f"{path}/change"))
    headers = given["headers"].replace("X-Shop: 1", "X-Shop: 2")
    changed = await send(
        browser, f"{path}/change", **given | {"headers": headers, "cron": "0 8 * * *"}
    )
    assert changed.status_code == 303, changed.text
    after = await rule_of(browser, path)
    assert after.request.headers == {"Authorization": "s3cret", "X-Shop": "2"}
    assert after.timing.cron == "0 8 * * *"
    given = filled(await browser.text(f"{path}/change"))
    elsewhere = {"url": "https://evil.example/", "headers": given["headers"] + "\nX-More: 1"}
    for fields in (elsewhere, {"url": elsewhere["url"]}):
        refused = await send(browser, f"{path}/change", **given | fields)
        assert (refused.status_code, "Headers, Authorization" in refused.text) == (400, True)


async def test_a_change_clears_what_was_emptied(browser: Browser) -> None:
    path = await made(browser, lane="a", expiresAfter="10m", endsAt=f"{in_days(90):%Y-%m-%d}T00:00")
    given = filled(await browser.text(f"{path}/change"))
    cleared = dict.fromkeys(("lane", "expiresAfter", "endsAt", "name", "body", "headers"), "")
    fields = given | cleared | {"way": "every", "every": "2h"}
    assert (await send(browser, f"{path}/change", **fields)).status_code == 303
    rule = await rule_of(browser, path)
    assert (rule.name, rule.request.lane, rule.request.body) == (None, None, None)
    assert rule.request.headers == {}
    timing = rule.timing
    assert (timing.cron, timing.every_ms, timing.ends_at_ms) == (None, 7_200_000, None)
    assert timing.expires_after_ms is None


async def test_of_two_tabs_the_second_sees_what_the_first_has_set(browser: Browser) -> None:
    path = await made(browser)
    one, other = [filled(await browser.text(f"{path}/change")) for _ in range(2)]
    assert (await send(browser, f"{path}/change", **one | {"cron": "1 1 * * *"})).status_code == 303
    shown = await send(browser, f"{path}/change", **other | {"cron": "2 2 * * *", "preview": "1"})
    met = await send(browser, f"{path}/change", **filled(shown.text))
    assert (met.status_code, "somebody changed this" in met.text) == (412, True)
    assert 'value="2 2 * * *"' in met.text
    assert (await rule_of(browser, path)).timing.cron == "1 1 * * *"
    again = await send(browser, f"{path}/change", **filled(met.text))
    assert again.status_code == 303
    assert (await rule_of(browser, path)).timing.cron == "2 2 * * *"


async def test_pause_resume_and_delete_give_the_credit_back(browser: Browser) -> None:
    path = await made(browser)
    back = {"back": "/dashboard/recurring"}
    paused = await browser.write(f"{path}/pause", **back)
    text = await browser.text_after(paused)
    assert "invoices is paused" in text
    assert "Resume invoices" in text
    assert await browser.credits() == 100
    assert "once it is resumed" in await browser.text(path)
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


async def test_a_blocked_rule_says_why_and_what_to_do(
    dashboard: Dashboard,
) -> None:
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


async def test_a_store_that_is_away_is_said(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await made(browser)
    away = AsyncMock(side_effect=StoreUnavailable("no"))
    for name in ("page", "read", "change", "pause", "create"):
        monkeypatch.setattr(browser.store.recurring, name, away)
    answers = [await browser.get("/recurring"), await browser.get(path)]
    answers += [await browser.write(f"{path}/pause"), await send(browser, "/recurring/new", **FORM)]
    for answer in answers:
        assert (answer.status_code, "The store does not answer" in answer.text) == (503, True)


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


async def test_another_accounts_rules_are_not_there(dashboard: Dashboard, browser: Browser) -> None:
    path = await made(browser)
    bob = await dashboard.signed_in(await dashboard.account("bob"))
    assert "invoices" not in await bob.text("/recurring")
    for where in (path, f"{path}/change"):
        assert (await bob.get(where)).status_code == 404
    assert (await bob.get("/recurring", q="invoices")).status_code == 400


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
