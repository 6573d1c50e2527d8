"""Requests composed, and many cancelled, moved or run again."""

from __future__ import annotations

import html
import re

import httpx
import pytest

from api.dashboard.requests import bulk
from scheduler.ids import created_at_ms
from scheduler.models import Request
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from tests.dashboard.conftest import ORIGIN, URL, Browser, listed, once_of, rows
from tests.dashboard.forms import faults_of, form_with


async def post_many(browser: Browser, action: str, ids: list[str], **fields: str) -> httpx.Response:
    data = {"csrf": await browser.csrf(), "action": action, "id": ids, **fields}
    path, headers = "/dashboard/requests/bulk", {"origin": ORIGIN}
    return await browser.client.post(path, data=data, headers=headers)


async def composed(browser: Browser, **fields: str) -> httpx.Response:
    data, headers = {"csrf": await browser.csrf(), **fields}, {"origin": ORIGIN}
    return await browser.client.post("/dashboard/requests/new", data=data, headers=headers)


async def match(browser: Browser, action: str, **fields: str) -> httpx.Response:
    return await browser.write("/requests/bulk", action=action, scope="matching", **fields)


def ids_of(asked: httpx.Response) -> list[str]:
    return re.findall(r'name="id" value="([^"]*)"', asked.text)


def fields_of(asked: httpx.Response) -> dict[str, str]:
    """What a confirmation sends along, beside the ids."""
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', asked.text))
    return {name: fields[name] for name in fields.keys() - {"id", "csrf", "action"}}


async def due_ms(browser: Browser, ids: list[str]) -> list[int]:
    return [(await browser.kept(each)).request.trigger_at_ms for each in ids]


async def test_many_are_cancelled_in_one_confirmed_step(browser: Browser) -> None:
    waiting = [await browser.schedule() for _ in range(3)]
    chosen = [*waiting[:2], await browser.execute()]
    asked = await post_many(browser, "cancel", chosen)
    assert "Cancel 3 requests?" in asked.text
    assert await browser.credits() == 96, "nothing is done yet"
    for _ in range(2):  # a form that is sent twice
        done = await post_many(browser, "cancel", chosen, confirmed="1")
        assert done.status_code == 303
        said = await browser.text_after(done)
        assert "2 cancelled, their credits came back. 1 not: the schedule is completed" in said
    assert await browser.credits() == 98
    assert await listed(browser, status="scheduled") == [waiting[2]]


async def test_the_bar_offers_what_can_be_done_to_what_is_listed(browser: Browser) -> None:
    await browser.schedule()
    await browser.execute(503)
    for status, actions in (
        ("", ["cancel", "again", "move", "lane"]),
        ("scheduled", ["cancel", "move", "lane"]),
        ("failed", ["again"]),
    ):
        text = await browser.text("/requests", status=status)
        assert re.findall(r'name="action" value="(\w+)"', text) == actions


async def test_all_that_match_a_bad_filter_are_not_all(browser: Browser) -> None:
    await browser.schedule()
    for name, bad in (("reference", "a b"), ("status", "lost"), ("from", "yesterday")):
        refused = await match(browser, "cancel", **{name: bad})
        assert (refused.status_code, ids_of(refused)) == (400, [])
        assert name in refused.text


@pytest.mark.parametrize("action", ["cancel", "lane"])
@pytest.mark.parametrize("most", [2, 1000])
async def test_all_that_match_are_not_the_next_occurrences(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, action: str, most: int
) -> None:
    """Also where they are so few that the form names them."""
    rules, draft = (
        browser.store.recurring,
        Draft(Request(0, "POST", URL), Timing(every_ms=86_400_000)),
    )
    made = [(await rules.create(browser.account_id, draft)).rule for _ in range(3)]
    asked = await match(browser, action, status="scheduled")
    assert "None is selected, or none matches." in asked.text
    assert "3 belong to recurring schedules: pause those instead." in asked.text
    waiting = [await browser.schedule() for _ in range(3)]
    monkeypatch.setattr(bulk, "MOST", most)
    asked = await match(browser, action, status="scheduled")
    assert set(ids_of(asked)) == (set(waiting) if most > 2 else set())
    named = await match(browser, action, recurring=made[0].recurring_id)
    assert ids_of(named) == [made[0].schedule_id]
    assert "belong to" not in named.text


@pytest.mark.parametrize("confirmed", ["", "1"])
async def test_more_than_a_form_may_name_are_refused_and_none_is_left_out(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, confirmed: str
) -> None:
    monkeypatch.setattr(bulk, "MOST", 2)
    waiting = [await browser.schedule() for _ in range(3)]
    refused = await post_many(browser, "cancel", waiting, confirmed=confirmed, once="o" * 16)
    assert (refused.status_code, "Tick at most 2" in refused.text) == (400, True)
    assert set(await listed(browser, status="scheduled")) == set(waiting)


async def test_all_that_failed_run_again_once_however_many_there_are(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MOST", 2)
    bad = {await browser.execute(503) for _ in range(3)}
    await browser.execute()
    asked = await match(browser, "again", status="failed")
    assert set(ids_of(asked)) <= bad
    assert "Run again all that match?" in asked.text
    while asked.status_code == 200:
        named, fields = ids_of(asked), fields_of(asked)
        for _ in range(2):  # a form that is sent twice
            asked = await post_many(browser, "again", named, **fields)
    assert "3 run again" in await browser.text_after(asked)
    assert await browser.credits() == 100 - 4 - 3
    assert len(await listed(browser, status="scheduled")) == 3


async def test_what_was_replayed_leaves_the_groups_and_shows_its_replay(browser: Browser) -> None:
    first, second = [await browser.execute(503) for _ in range(2)]
    assert await listed(browser, status="failed", replayed="no") == [second, first]
    done = await browser.write(f"/requests/{first}/again", once="o" * 16)
    replay = done.headers["location"].rpartition("/")[2]
    overview = await browser.text("")
    assert "1 failures of example.com" in overview
    assert await listed(browser, status="failed", replayed="no") == [second]
    text = await browser.text("/requests", status="failed")
    assert rows(text) == [second, first]
    [row] = re.findall(rf'<tr id="r-{first}" data-row class="replayed">.*?</tr>', text, re.DOTALL)
    assert f'/dashboard/requests/{replay}?status=failed">replayed</a>' in row
    assert text.count(">replayed</a>") == 1
    # Only of those that failed: elsewhere the parameter means nothing.
    assert await listed(browser, replayed="no") == [replay, second, first]
    # The group's button asks for just those that it counts, and then shows what became of them.
    [group] = re.findall(r'<form method="post" action="[^"]+/bulk".*?</form>', overview, re.DOTALL)
    fields = re.findall(r'name="(\w+)" value="([^"]*)"', html.unescape(group))
    asked = await browser.post("/requests/bulk", **dict(fields))
    assert ids_of(asked) == [second]
    done = await post_many(browser, "again", ids_of(asked), **fields_of(asked))
    assert done.headers["location"].startswith("/dashboard/requests?status=failed&")
    assert (await browser.text_after(done)).count(">replayed</a>") == 2


async def test_many_are_moved_by_so_much_or_to_one_time(browser: Browser) -> None:
    waiting = [await browser.schedule(60_000 * (n + 1)) for n in range(3)]
    before = await due_ms(browser, waiting)
    for bad in ({"shift": "soon"}, {"shift": "9000d"}, {"at": ""}, {"at": "1999-01-01T00:00"}):
        refused = await post_many(browser, "move", waiting, confirmed="1", **bad)
        assert (refused.status_code, 'role="alert"' in refused.text) == (400, True), bad
    done = await post_many(browser, "move", waiting, confirmed="1", shift="1h30m")
    assert "3 rescheduled." in await browser.text_after(done)
    assert await due_ms(browser, waiting) == [each + 5_400_000 for each in before]


async def test_one_that_waits_with_a_reference_is_kept_or_replaced(browser: Browser) -> None:
    given = {
        "targetUrl": "https://example.com/x",
        "delay": "1h",
        "reference": "cart-17",
        "once": "1",
    }
    made = (await composed(browser, **given)).headers["location"]
    ways = (("keep", "GET", "was kept"), ("replace", "PUT", "has this request now"))
    for way, method, said in ways:
        again = await composed(
            browser, **given | {"targetMethod": "PUT", "onExisting": way, "once": way}
        )
        assert again.headers["location"] == made
        assert f"One waited already and {said}, for no credit." in await browser.text_after(again)
        assert (await browser.kept(made.rpartition("/")[2])).request.method == method
    assert await browser.credits() == 99
    later = {"onExisting": "replace", "delay": "2h", "maxWait": "30m", "once": "later"}
    assert (await composed(browser, **given | later)).headers["location"] == made
    waiting = await browser.kept(made.rpartition("/")[2])
    assert waiting.request.trigger_at_ms - created_at_ms(waiting.schedule_id) == 1_800_000
    await composed(browser, **given | {"once": "2"})
    several = await composed(browser, **given | {"onExisting": "keep", "once": "3"})
    assert several.status_code == 409
    assert faults_of(several.text)["reference"].startswith("2 schedules wait with this reference")
    assert '<option value="keep" selected>' in several.text
    nameless = await composed(browser, **given | {"reference": "", "onExisting": "keep"})
    assert faults_of(nameless.text) == {"onExisting": "It needs a reference."}


async def test_a_request_is_composed_shown_and_judged_as_the_api_does(browser: Browser) -> None:
    """What becomes of each field: test_carried_over.py."""
    given = {
        "once": once_of(await browser.text("/requests/new")),
        "targetUrl": "https://example.com/x",
        "delay": "1h",
        "timeout": "5",
        "reference": "order-17",
        "targetHeaders": "X-Order: 8412\nX-Empty:",
        "targetBody": "a=1",
    }
    for _ in range(2):  # a form that is sent twice
        made = await composed(browser, **given)
        assert made.status_code == 303
    assert await browser.credits() == 99
    schedule_id = made.headers["location"].rpartition("/")[2]
    asked = (await browser.kept(schedule_id)).request
    assert (asked.method, asked.body) == ("POST", b"a=1")
    assert asked.headers == {"X-Order": "8412", "X-Empty": ""}
    panel = await browser.text(f"/requests/{schedule_id}")
    assert "<dt>Timeout</dt><dd>5s</dd>" in panel
    assert '<a href="/dashboard/requests?reference=order-17">order-17</a>' in panel
    assert '<span class="reference">order-17</span>' in panel  # in the list beside it
    bad = {"targetUrl": "ftp://x", "targetHeaders": "Host: a", "timeout": "31", "reference": "a b"}
    refused = await composed(browser, **given | bad)
    assert refused.status_code == 400
    found = faults_of(refused.text)
    assert found.keys() == bad.keys()
    assert found["targetHeaders"].startswith("Host: ")
    assert found["timeout"].startswith("It must be whole seconds")
    assert form_with(refused.text, "targetUrl")["targetHeaders"] == "Host: a", (
        "what was typed is kept"
    )
    undue = await composed(
        browser, **given | {"delay": "", "triggerAt": "", "way": "triggerAt", "once": "undue"}
    )
    assert faults_of(undue.text) == {"triggerAt": "It is required."}
