"""The form of recurring schedules: judged as the API does, with its preview, and for changes."""

from __future__ import annotations

from unittest.mock import AsyncMock

import pytest

from scheduler.errors import TooManyScans
from scheduler.masks import MASK
from tests.dashboard.conftest import Browser, Dashboard
from tests.dashboard.forms import faults_of
from tests.dashboard.recurring.recurring import FORM, WORDS, filled, made, rule_of, send
from tests.support.servers import in_days


async def test_a_form_is_judged_as_the_api_does_and_kept_as_typed(browser: Browser) -> None:
    before = f"{in_days(-2):%Y-%m-%d}T00:00"
    bad = (
        ({"cron": "0 9 * * * *"}, "cron"),
        ({"cron": "60 * * * *"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": ""}, "cron"),
        ({"way": "every", "every": "999ms"}, "every"),
        ({"timeZone": "Mars/Olympus"}, "timeZone"),
        ({"startsAt": "soon"}, "startsAt"),
        ({"endsAt": before}, "endsAt"),
        ({"expiresAfter": "x"}, "expiresAfter"),
        ({"name": "two words"}, "name"),
        ({"targetUrl": "ftp://example.com"}, "targetUrl"),
        ({"targetHeaders": "Host: x"}, "targetHeaders"),
    )
    for fields, name in bad:
        refused = await send(browser, "/recurring/new", **FORM | fields)
        assert refused.status_code == 400, (fields, refused.status_code)
        assert [*faults_of(refused.text)] == [name]
        given = filled(refused.text)
        assert {name: given[name] for name in fields} == fields
    assert "no recurring schedule yet" in await browser.text("/recurring")
    assert await browser.credits() == 100


async def test_a_form_that_is_sent_twice_makes_one(browser: Browser) -> None:
    assert await made(browser) == await made(browser)
    assert await browser.credits() == 99
    assert "This form was sent before" in await browser.text("/recurring")
    taken = await send(browser, "/recurring/new", **FORM | {"once": "y"})
    assert (taken.status_code, [*faults_of(taken.text)]) == (409, ["name"])


async def test_a_form_that_is_sent_again_when_its_times_have_passed_makes_one(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"way": "every", "every": "1h", "endsAt": f"{in_days(2):%Y-%m-%d}T00:00"}
    path, clock = await made(browser, **fields), browser.store.clock
    later_ms = clock.now_ms() + 3 * 86_400_000
    monkeypatch.setattr(type(clock), "now_ms", lambda _: later_ms)
    assert await made(browser, **fields) == path


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
    assert ("s3cret" in text, MASK in given["targetHeaders"]) == (False, True)
    assert (await send(browser, f"{path}/change", **given)).status_code == 303
    headers = given["targetHeaders"].replace("X-Shop: 1", "X-Shop: 2")
    given = filled(await browser.text(f"{path}/change"))
    changed = await send(browser, f"{path}/change", **given | {"targetHeaders": headers})
    assert changed.status_code == 303, changed.text
    after = (await rule_of(browser, path)).request
    assert after.headers == {"Authorization": "s3cret", "X-Shop": "2"}
    assert (after.url, after.body) == (FORM["targetUrl"], b'{"n":1.50}')
    given = filled(await browser.text(f"{path}/change"))
    for fields in ({}, {"targetHeaders": given["targetHeaders"] + "\nX-More: 1"}):
        elsewhere = given | {"targetUrl": "https://evil.example/"} | fields
        refused = await send(browser, f"{path}/change", **elsewhere)
        assert (refused.status_code, [*faults_of(refused.text)]) == (400, ["targetHeaders"])


async def test_a_change_clears_what_was_emptied(browser: Browser) -> None:
    path = await made(browser, lane="a", expiresAfter="10m", endsAt=f"{in_days(90):%Y-%m-%d}T00:00")
    given = filled(await browser.text(f"{path}/change"))
    cleared = dict.fromkeys(
        ("lane", "expiresAfter", "endsAt", "name", "targetBody", "targetHeaders"), ""
    )
    fields = given | cleared | {"way": "every", "every": "2h"}
    assert (await send(browser, f"{path}/change", **fields)).status_code == 303
    rule = await rule_of(browser, path)
    assert (rule.name, rule.request.lane, rule.request.body) == (None, None, None)
    assert rule.request.headers == {}
    timing = rule.timing
    assert (timing.cron, timing.every_ms, timing.ends_at_ms) == (None, 7_200_000, None)
    assert timing.expires_after_ms is None


async def test_a_change_that_is_sent_twice_is_made_once(browser: Browser) -> None:
    path = await made(browser)
    given = filled(await browser.text(f"{path}/change"))
    fields = given | {"cron": "1 1 * * *", "targetHeaders": "Authorization: n3w"}
    for _ in range(2):
        assert (await send(browser, f"{path}/change", **fields)).status_code == 303
    assert (await rule_of(browser, path)).request.headers == {"Authorization": "n3w"}


async def test_of_two_tabs_the_second_sees_what_the_first_has_set(browser: Browser) -> None:
    path = await made(browser)
    one, other = [filled(await browser.text(f"{path}/change")) for _ in range(2)]
    assert (await send(browser, f"{path}/change", **one | {"cron": "1 1 * * *"})).status_code == 303
    shown = await send(browser, f"{path}/change", **other | {"cron": "2 2 * * *", "preview": "1"})
    met = await send(browser, f"{path}/change", **filled(shown.text))
    assert (met.status_code, "somebody changed it" in met.text) == (412, True)
    assert 'value="2 2 * * *"' in met.text
    assert (await rule_of(browser, path)).timing.cron == "1 1 * * *"
    again = await send(browser, f"{path}/change", **filled(met.text))
    assert again.status_code == 303
    assert (await rule_of(browser, path)).timing.cron == "2 2 * * *"
