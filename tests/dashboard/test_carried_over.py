"""A form that a request filled carries over each of its fields, or says what it cannot."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from api.dashboard import lanes
from api.dashboard.recurring.form import rule_given
from api.dashboard.requests.body import BODIES
from api.dashboard.requests.form import (
    OF_CHANGE,
    OF_CREATE,
    OF_RULE,
    edited,
    fields_of,
    request_given,
)
from api.dashboard.zones import UTC
from api.schema.recurring_fields import OWN
from api.schema.settings_fields import OF_PUT
from scheduler.callbacks import NO_URL, Callback, CallbackOn
from scheduler.masks import MASK
from scheduler.models import BodyKind, Request
from scheduler.recurrence.fields import FIELDS
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft, Rule, RuleState
from scheduler.schema import Kind
from tests.dashboard.conftest import Browser
from tests.dashboard.forms import faults_of, form_with
from tests.dashboard.recurring.recurring import FORM, filled, made, rule_of, send
from tests.dashboard.test_many import composed
from tests.samples import CASES, SAMPLES, URL, request_of

REQUEST = Request(0, "GET", URL)
EVERY = Timing(every_ms=60_000)


def test_the_forms_of_lanes_and_rules_have_each_field() -> None:
    """What a form leaves out, its save drops, or cannot set."""
    assert lanes._FIELDS.keys() == OF_PUT.keys()
    by_cron = Timing("0 9 * * *", None, "Asia/Tokyo", 0, 60_000, 60_000)
    rules = [
        Rule("rec_1", "a", timing, REQUEST, RuleState.ACTIVE, 0) for timing in (by_cron, EVERY)
    ]
    given = [fields_of(FIELDS, rule_given(rule, UTC)) for rule in rules]
    assert given[0].keys() | given[1].keys() == OWN.keys()


async def ended(browser: Browser, request: Request) -> str:
    schedule_id = await browser.store.schedules.create(browser.account_id, request)
    await browser.end(500)
    return schedule_id


async def composer(browser: Browser, schedule_id: str) -> dict[str, str]:
    return form_with(await browser.text("/requests/new", like=schedule_id), "targetUrl")


async def scheduled(browser: Browser, **form: str) -> Request:
    """What a form makes."""
    answer = await composed(browser, **form)
    assert answer.status_code == 303, answer.text
    return (await browser.kept(answer.headers["location"].rpartition("/")[2])).request


def timeless(request: Request) -> Request:
    expires_ms = request.expires_at_ms
    left_ms = None if expires_ms is None else expires_ms - request.trigger_at_ms
    return replace(request, trigger_at_ms=0, expires_at_ms=left_ms)


@pytest.mark.parametrize(("name", "value"), CASES)
async def test_a_request_that_is_edited_and_scheduled_keeps_each_field(
    browser: Browser, name: str, value: Any
) -> None:
    asked = request_of(name, value, browser.store.clock.now_ms())
    form = await composer(browser, await ended(browser, asked))
    again = await scheduled(browser, **form, once="1")
    assert timeless(again) == timeless(asked)
    other = await scheduled(browser, **form | {"timeout": "7"}, once="2")
    assert timeless(other) == timeless(replace(asked, timeout_s=7))


_HEADERS = st.dictionaries(
    st.sampled_from(["X-A", "authorization", "Cookie", "x.b"]),
    st.text([*map(chr, [*range(32, 127), 9, 0xA0, 0xE9, 0xFF])], max_size=9),
)


@given(st.one_of(st.text(), st.binary()), _HEADERS)
def test_what_a_browser_sends_back_unchanged_is_unchanged(
    body: str | bytes, headers: dict[str, str]
) -> None:
    kind = BodyKind.TEXT if isinstance(body, str) else BodyKind.BINARY
    content = body.encode() if isinstance(body, str) else body
    asked = replace(REQUEST, method="POST", headers=headers, body=content, body_kind=kind)
    given = request_given(asked)
    lines = {name: re.sub(r"\r\n?|\n", "\r\n", text) for name, text in given.items()}
    # As csrf.py reads a form.
    back = {name: text.replace("\r\n", "\n") for name, text in lines.items()}
    assert edited(back, asked) == {}


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - {"expiresAt"}))
def test_a_form_shows_each_field(name: str) -> None:
    asked = request_of(name, SAMPLES[name][0], 1_800_000_000_000)
    assert name in fields_of(OF_RULE, request_given(asked))


@pytest.mark.parametrize(("name", "value"), [case for case in CASES if case[0] != "expiresAt"])
async def test_a_change_of_a_rule_keeps_each_field_of_its_request(
    browser: Browser, name: str, value: Any
) -> None:
    asked = replace(request_of(name, value, browser.store.clock.now_ms()), trigger_at_ms=0)
    path = await made(browser, **dict.fromkeys(("targetHeaders", "targetBody"), ""))
    rule = await rule_of(browser, path)

    def changed(_: Any) -> Draft:
        return Draft(asked, rule.timing, rule.name)

    await browser.store.recurring.change(browser.account_id, rule.recurring_id, changed)
    before = await rule_of(browser, path)
    form = filled(await browser.text(f"{path}/change"))
    saved = await send(browser, f"{path}/change", **form | {"cron": "1 2 3 4 *"})
    assert saved.status_code == 303, saved.text
    after = await rule_of(browser, path)
    assert (after.timing.cron, after.request) == ("1 2 3 4 *", before.request)


async def test_secrets_go_to_no_other_target(browser: Browser) -> None:
    headers = {"Authorization": "Bearer s3cret", "X-Order": "1"}
    asked = request_of("targetHeaders", headers, browser.store.clock.now_ms())
    asked = replace(asked, callback=Callback("https://example.com/ended?token=s3cret"))
    form = await composer(browser, await ended(browser, asked))
    assert form["targetHeaders"] == f"Authorization: {MASK}\nX-Order: 1"
    more = form["targetHeaders"].replace("1", "2")
    assert (await scheduled(browser, **form | {"targetHeaders": more}, once="1")).headers == {
        **headers,
        "X-Order": "2",
    }
    for fields in ({}, {"targetHeaders": more}):
        elsewhere = form | {"targetUrl": "https://evil.example/"} | fields
        refused = await composed(browser, **elsewhere, once="2")
        assert (refused.status_code, [*faults_of(refused.text)]) == (400, ["targetHeaders"])
    moved = form | {"callbackUrl": form["callbackUrl"].replace("ended", "stolen")}
    refused = await composed(browser, **moved, once="3")
    assert (refused.status_code, [*faults_of(refused.text)]) == (400, ["callbackUrl"])
    assert form_with(refused.text, "targetUrl")["like"] == form["like"]


async def test_a_form_whose_request_is_gone_says_so(browser: Browser) -> None:
    asked = request_of("targetBodyText", "x" * 50_000, browser.store.clock.now_ms())
    form = await composer(browser, await ended(browser, asked))
    assert (form["bodyKind"], form["bodyBytes"]) == ("kept", "50,000")
    gone = await composed(browser, **form | {"like": "sch_" + "0" * 26}, once="1")
    assert (gone.status_code, "<b>Filled in by</b>: " in gone.text) == (400, True)
    typed = await composed(browser, **form | {"targetBody": "a"}, once="1")
    assert (typed.status_code, [*faults_of(typed.text)]) == (400, ["targetBody"])
    another = await scheduled(browser, **form | {"targetBody": "a", "bodyKind": "text"}, once="2")
    assert (another.body, another.body_kind) == (b"a", BodyKind.TEXT)
    due_ms = another.trigger_at_ms - 60_000
    form = await composer(browser, await ended(browser, replace(another, trigger_at_ms=due_ms)))
    assert (await scheduled(browser, **form | {"targetBody": ""}, once="3")).body is None


FAILED, TOKEN = CallbackOn.FAILED, f"{URL}?key=s"


@pytest.mark.parametrize(
    ("before", "fields", "after"),
    [
        ("no copy", {"callbackUrl": URL, "callbackOn": ""}, Callback(URL)),
        ("no copy", {"callbackOn": "none"}, Callback(NO_URL)),
        (None, {"callbackUrl": URL, "callbackOn": ""}, Callback(URL)),
        (None, {"callbackUrl": URL, "callbackOn": "failed"}, Callback(URL, FAILED)),
        (None, {"callbackOn": "failed"}, Callback(None, FAILED)),
        (None, {"callbackOn": "none"}, Callback(NO_URL)),
        (Callback(URL, FAILED), {"callbackUrl": "", "callbackOn": ""}, None),
        (Callback(NO_URL), {"callbackOn": ""}, None),
        (Callback(NO_URL), {"callbackOn": "failed"}, Callback(None, FAILED)),
        (Callback(URL), {"callbackUrl": ""}, None),
        (Callback(URL), {"callbackOn": "none"}, Callback(NO_URL)),
        (Callback(TOKEN, FAILED), {"callbackOn": ""}, Callback(TOKEN)),
        (
            None,
            {"failureCallbackUrl": URL, "callbackInclude": "response"},
            Callback(None, None, URL, True),
        ),
        (
            "no copy",
            {"callbackOn": "none", "failureCallbackUrl": URL},
            Callback(NO_URL, failure_url=URL),
        ),
        (
            Callback(URL, FAILED, TOKEN, True),
            {"callbackUrl": f"{URL}?new"},
            Callback(f"{URL}?new", FAILED, TOKEN, True),
        ),
        (
            Callback(URL, failure_url=TOKEN),
            {"failureCallbackUrl": "", "callbackOn": "failed"},
            Callback(URL, FAILED),
        ),
    ],
)
async def test_a_callback_is_what_the_form_says_and_the_accounts_where_that_is_empty(
    browser: Browser, before: Callback | str | None, fields: dict[str, str], after: Callback | None
) -> None:
    form = {"targetUrl": URL, "delay": "1h"}
    if before != "no copy":
        asked = request_of("timeout", "5s", browser.store.clock.now_ms())
        form = await composer(browser, await ended(browser, replace(asked, callback=before)))
    assert (await scheduled(browser, **form | fields, once="1")).callback == after


@pytest.mark.parametrize(
    ("body", "headers", "asks"),
    [
        ('{"amount": 12,}', "", "It is not valid JSON"),
        (" [1, 2]\n", "", "It must be a JSON object"),
        ("'{\"amount\": 12}'", "", "It is not valid JSON"),
        ("\ufeff{}", "", "It is not valid JSON"),
        ("```{}```", "", "It is not valid JSON"),
        ('"quoted"', "", "It must be a JSON object"),
        ('{"a": NaN}', "", "It is not valid JSON"),
        ("amount=12", "content-type: application/cloudevents+json", "It is not valid JSON"),
        ("amount=12", "Content-Type: application/x-www-form-urlencoded", ""),
        ('a {"b": 1}\n', "", ""),
        ("12", "", ""),
    ],
)
async def test_a_body_that_may_be_meant_as_json_is_asked_about(
    browser: Browser, body: str, headers: str, asks: str
) -> None:
    form = {
        "targetUrl": URL,
        "delay": "1h",
        "targetBody": body,
        "targetHeaders": headers,
        "once": "1",
    }
    rule = FORM | {"targetBody": body, "targetHeaders": headers}
    if asks:
        for refused in (
            await composed(browser, **form),
            await send(browser, "/recurring/new", **rule),
        ):
            assert refused.status_code == 400
            assert faults_of(refused.text)["targetBody"].startswith(asks)
            assert form_with(refused.text, "targetUrl")["targetBody"] == body
        assert await browser.credits() == 100
    else:
        assert (await scheduled(browser, **form)).body == body.encode()
    request = await scheduled(browser, **form | {"bodyKind": "text", "once": "2"})
    assert (request.body, request.body_kind) == (body.encode(), BodyKind.TEXT)


async def test_fields_that_a_form_cannot_mean_are_named(browser: Browser) -> None:
    form = {"targetUrl": URL, "delay": "1h", "once": "1"}
    for fields, name, words in (
        ({"targetHeaders": "X-A: 1\nX-A: 2"}, "targetHeaders", "X-A: It is given twice."),
        ({"retries": "many"}, "retries", "It must be a whole number."),
        ({"retries": "21"}, "retries", "It must be from 0 to 20."),
        ({"retries": "1", "retryDelays": "1s soon"}, "retryDelays", ""),
        ({"retryDelays": "1s"}, "retryDelays", "It needs retries"),
        ({"delivery": "once"}, "delivery", ""),
        ({"expiresAfter": "0s"}, "expiresAfter", ""),
        ({"expiresAfter": "soon"}, "expiresAfter", ""),
        ({"expiresAfter": "3000000d"}, "expiresAfter", ""),
        ({"expiresAfter": "1m", "expiresAt": "2030-01-01T00:00"}, "expiresAfter", "Only one of"),
        ({"expiresAt": "soon"}, "expiresAt", ""),
        ({"maxWait": "10m"}, "maxWait", "It needs onExisting"),
        ({"callbackUrl": "x"}, "callbackUrl", ""),
        ({"targetBody": "AA=", "bodyKind": "base64"}, "targetBody", "It must be base64"),
    ):
        refused = await composed(browser, **form | fields)
        assert refused.status_code == 400, fields
        found = faults_of(refused.text)
        assert [(each, found[each][: len(words)]) for each in found] == [(name, words)]
    given = {
        "retries": "2",
        "retryDelays": "5 1m,2h",
        "bodyKind": "base64",
        "targetBody": "AAEC\n/w==",
    }
    request = await scheduled(browser, **form | given)
    assert (request.retries, request.retry_delays_ms) == (2, (5000, 60_000, 7_200_000))
    assert request.body == b"\0\1\2\xff"


async def edit(browser: Browser, schedule_id: str, **form: str) -> httpx.Response:
    return await browser.write(f"/requests/{schedule_id}/edit", **form)


async def editor(browser: Browser, schedule_id: str) -> dict[str, str]:
    return form_with(await browser.text(f"/requests/{schedule_id}/edit"), "etag")


async def test_the_pages_have_an_input_for_each_field_with_its_bounds(browser: Browser) -> None:
    pages = (
        ("/requests/new", OF_CREATE),
        (f"/requests/{await browser.schedule()}/edit", OF_CHANGE),
        ("/recurring/new", OF_RULE),
    )
    for path, rows in pages:
        text = await browser.text(path)
        tags = {
            name: tag for tag, name in re.findall(r'(<[^>]* id="f-\w+" name="(\w+)"[^>]*>)', text)
        }
        tags |= dict.fromkeys(BODIES, tags["targetBody"])
        assert sorted(tags) == sorted(row.name for row in rows)
        for row in rows:
            bounds = {"min": row.minimum, "max": row.maximum, "maxlength": row.longest}
            if not tags[row.name].startswith('<input type="number"'):
                bounds = {"maxlength": row.longest}
            if row.kind is Kind.DURATIONS or row.attribute == "body":
                bounds = {}
            for name, bound in bounds.items():
                assert bound is None or f' {name}="{bound}"' in tags[row.name], row.name


async def test_a_request_that_waits_is_edited_as_a_form_says(browser: Browser) -> None:
    await browser.write("/zone", zone="Asia/Tokyo", back="/dashboard")
    waiting = await browser.schedule(90_000_123, lane="mail")
    before = (await browser.kept(waiting)).request
    form = await editor(browser, waiting)
    assert (form["way"], form["triggerAt"][-4:]) == (
        "triggerAt",
        f".{before.trigger_at_ms % 1000:03}",
    )
    for _ in range(2):  # a press that is made twice
        done = await edit(browser, waiting, **form | {"lane": "slow", "retries": "2"})
        assert done.headers["location"] == f"/dashboard/requests/{waiting}"
    assert (await browser.kept(waiting)).request == replace(before, lane="slow", retries=2)
    form = await editor(browser, waiting)
    await edit(
        browser, waiting, **form | {"way": "delay", "delay": "2h", "lane": "", "retries": ""}
    )
    after = (await browser.kept(waiting)).request
    assert (after.lane, after.retries, after.trigger_at_ms < before.trigger_at_ms) == (
        None,
        0,
        True,
    )
    form = await editor(browser, waiting)
    for fields, names in (
        ({"retries": "99", "way": "delay", "delay": ""}, ["delay", "retries"]),
        ({"targetUrl": "https://evil.example/"}, ["targetHeaders"]),
        ({"triggerAt": ""}, ["triggerAt"]),
        ({"targetBody": "{,", "expiresAt": form["triggerAt"]}, ["targetBody"]),
        ({"expiresAt": form["triggerAt"]}, ["expiresAt"]),
    ):
        refused = await edit(browser, waiting, **form | fields)
        assert (refused.status_code, [*faults_of(refused.text)]) == (400, names), fields
        assert fields.items() <= form_with(refused.text, "etag").items()
    assert (await browser.kept(waiting)).request == after


async def test_of_two_people_who_edit_a_request_the_second_is_told(browser: Browser) -> None:
    waiting = await browser.schedule()
    one, other = [await editor(browser, waiting) for _ in range(2)]
    assert (await edit(browser, waiting, **one | {"timeout": "5"})).status_code == 303
    met = await edit(browser, waiting, **other | {"timeout": "6"})
    assert (met.status_code, "somebody changed it meanwhile" in met.text) == (412, True)
    assert (await browser.kept(waiting)).request.timeout_s == 5
    again = form_with(met.text, "etag")
    assert again["timeout"] == "6"
    assert (await edit(browser, waiting, **again)).status_code == 303
    assert (await browser.kept(waiting)).request.timeout_s == 6
    await browser.cancel(waiting)
    for refused in (
        await edit(browser, waiting, **again),
        await browser.get(f"/requests/{waiting}/edit"),
    ):
        assert (refused.status_code, 'class="fault" role="alert"' in refused.text) == (409, True)
