"""Callbacks: how each stands, and sending one again."""

from __future__ import annotations

import re

import pytest

from scheduler.callbacks import Callback, CallbackOn, CallbackStatus
from scheduler.lane_settings import AccountCallback
from scheduler.masks import MASK
from scheduler.models import Request
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from tests.dashboard.conftest import URL, Browser, listed, once_of
from tests.dashboard.test_many import ids_of, match, post_many

CALLED_BACK = re.compile(r'<span class="callback (\w+)">')
WHERE = "https://example.com/ended?token=s3cret"


async def test_a_panel_follows_the_callback_of_a_request(browser: Browser) -> None:
    wish = Callback(WHERE, CallbackOn.FAILED)
    ended = await browser.schedule(-1000, callback=wish)
    path = f"/requests/{ended}"
    assert "if it fails" in await browser.text(path)
    await browser.end(503)
    text = await browser.text(path)
    assert '<span class="status pending">' in text
    assert "Send the callback again" not in text
    assert "s3cret" not in text
    [news] = set(re.findall(r'id="facts" hx-get="([^"]+)"', text))
    await browser.end_callback(502, again_in_ms=60_000)
    live = await browser.client.get(news, headers={"hx-request": "true"})
    assert live.headers["hx-retarget"] == "#panel"
    assert "<small>1 attempt</small>" in live.text
    assert '<li value="1">502 <span class="bad"><bdi>Bad Gateway' in live.text
    assert "the next attempt in" in live.text


async def test_a_panel_says_where_failures_go_and_that_the_answer_goes_along(
    browser: Browser,
) -> None:
    wish = Callback("https://example.com/ended", failure_url=WHERE, with_response=True)
    text = await browser.text(f"/requests/{await browser.schedule(60_000, callback=wish)}")
    assert "<dt>Callback to</dt>" in text
    assert "<dt>Failures to</dt>" in text
    assert "s3cret" not in text
    assert "<dd>the outcome and the target's answer</dd>" in text
    alone = Callback("", failure_url=WHERE)
    text = await browser.text(f"/requests/{await browser.schedule(60_000, callback=alone)}")
    assert "<dt>Failures to</dt>" in text
    assert "<dt>Callback to</dt>" not in text


@pytest.mark.parametrize("on", CallbackOn)
async def test_a_rule_says_where_its_ends_are_reported(browser: Browser, on: CallbackOn) -> None:
    """Nothing goes to the callback's URL if it is for failures, and these have another."""
    wish = Callback(WHERE, on, WHERE.replace("ended", "failed"), with_response=True)
    request = Request(0, "POST", URL, callback=wish)
    made = await browser.store.recurring.create(
        browser.account_id, Draft(request, Timing("0 0 * * *"))
    )
    text = await browser.text(f"/recurring/{made.rule.recurring_id}")
    assert f"https://example.com/failed?token={MASK}" in text
    assert (f"https://example.com/ended?token={MASK}" in text) == (on is CallbackOn.EXECUTED)
    assert "<dd>the outcome and the target's answer</dd>" in text
    assert "s3cret" not in text


async def test_a_panel_has_all_attempts_of_a_callback(browser: Browser) -> None:
    ended = await browser.schedule(-1000, callback=Callback(WHERE))
    await browser.end(200)
    for status in (502, 500):
        await browser.end_callback(status, again_in_ms=0)
    await browser.end_callback(200)
    text = await browser.text(f"/requests/{ended}")
    assert "<small>3 attempts</small>" in text
    assert re.findall(r'<li value="(\d)">(\d+)', text) == [("1", "502"), ("2", "500"), ("3", "200")]
    assert text.count("<bdi>Bad Gateway</bdi>") == 2


async def test_a_callback_is_sent_again_once_for_each_form(browser: Browser) -> None:
    ended = await browser.reported()
    text = await browser.text(f"/requests/{ended}")
    assert '<span class="status delivered">' in text
    assert 'id="facts" hx-get' not in text
    path, once = f"/requests/{ended}/callback", once_of(text)
    for _ in range(2):
        assert "Its callback is sent again." in await browser.text_after(
            await browser.write(path, once=once)
        )
    state = (await browser.kept(ended)).callback
    assert state is not None
    assert (state.status, state.attempts) == (CallbackStatus.PENDING, 0)
    met = await browser.write(path, once="another")
    assert (met.status_code, "Its callback is pending already" in met.text) == (409, True)


async def test_the_list_finds_callbacks_and_sends_them_again(browser: Browser) -> None:
    good, bad = await browser.reported(), await browser.reported(410)
    await browser.schedule()
    other = await browser.execute()
    assert await listed(browser, callback="delivered") == [good]
    assert await listed(browser, callback="failed") == [bad]
    assert await listed(browser, callback="failed", status="failed") == []
    text = await browser.text("/requests", callback="failed")
    assert "<b>callback:</b><bdi>failed</bdi>" in text
    assert re.findall(r'name="action" value="(\w+)"', text) == ["again", "callback"]
    refused = await match(browser, "callback")
    assert (refused.status_code, "by how they stand first" in refused.text) == (400, True)
    odd = await browser.get("/requests", callback="lost")
    assert (odd.status_code, "Callback: Choose pending" in odd.text) == (400, True)
    asked = await match(browser, "callback", callback="failed")
    assert "Send callbacks again for 1 request?" in asked.text
    assert ids_of(asked) == [bad]
    done = await post_many(browser, "callback", [bad, other], confirmed="1", callback="failed")
    said = await browser.text_after(done)
    assert "1 reported again. 1 not: " in said
    state = (await browser.kept(bad)).callback
    assert state is not None
    assert state.status is CallbackStatus.PENDING


async def test_rows_are_marked_and_the_list_counts_what_is_to_be_done(browser: Browser) -> None:
    """Also of any list the ticked ones are sent again; a delivered callback has no mark."""
    await browser.execute()
    assert not CALLED_BACK.findall(await browser.text("/requests"))
    await browser.reported()
    assert not CALLED_BACK.findall(await browser.text("/requests"))
    bad = [await browser.reported(410) for _ in range(2)]
    text = await browser.text("/requests")
    assert CALLED_BACK.findall(text) == ["failed", "failed"]
    assert re.findall(r">callback (\w+) <b>(\d+)</b>", text) == [("failed", "2")]
    assert "callback failed</a>" not in await browser.text("/requests", status="completed")
    await post_many(browser, "callback", bad[:1], confirmed="1")
    text = await browser.text("/requests")
    assert sorted(CALLED_BACK.findall(text)) == ["failed", "pending"]
    counted = re.findall(r">callback (\w+) <b>(\d+)</b>", text)
    assert counted == [("failed", "1"), ("pending", "1")]
    assert await listed(browser, callback="pending") == bad[:1]


async def test_what_has_no_callback_offers_none(browser: Browser) -> None:
    ended = await browser.execute()
    panel = (await browser.text(f"/requests/{ended}")).partition('id="panel"')[2]
    assert panel
    assert "allback" not in panel
    refused = await browser.write(f"/requests/{ended}/callback", once="x")
    assert (refused.status_code, "neither the schedule nor the account" in refused.text) == (
        400,
        True,
    )


async def test_an_account_says_where_its_callbacks_go(browser: Browser) -> None:
    async def default() -> AccountCallback | None:
        return (await browser.store.pauses.read(browser.account_id)).callback

    for url in ("ftp://example.com", "nonsense"):
        refused = await browser.write("/account/callback", url=url, on="failed")
        assert (refused.status_code, "Callback to: " in refused.text) == (400, True)
        assert f'value="{url}"' in refused.text
    assert await default() is None
    await browser.write("/account/callback", url=WHERE, on="failed")
    assert await default() == AccountCallback(WHERE, CallbackOn.FAILED)
    await browser.write("/account/pause")
    text = await browser.text("/account")
    assert f'value="{WHERE}"' in text
    assert '<option value="failed" selected>' in text
    said = await browser.text_after(await browser.write("/account/callback", url="", on=""))
    assert "Callbacks go nowhere by default." in said
    assert await default() is None
    assert (await browser.store.pauses.read(browser.account_id)).pause is not None
