"""The Requests page over HTTP: the list, the side panel, and their actions."""

from __future__ import annotations

import html
import re
from unittest.mock import AsyncMock

import httpx
import pytest

from api.dashboard.requests import bulk
from scheduler.errors import TooManyScans
from scheduler.models import Account, Answer, Outcome, Phases, Request, Status
from scheduler.store import keys
from scheduler.store.lifecycle.end_rows import Ack
from scheduler.store.log.logs import LogPage, LogQuery
from scheduler.store.scans import Scans
from scheduler.times import parse_iso8601
from tests.dashboard.conftest import ORIGIN, Browser, Dashboard
from tests.dashboard.test_pages import URL, execute, fail_an_attempt, schedule
from tests.plain import redis_of
from tests.servers import in_days

PANEL = {"hx-request": "true", "hx-boosted": "true", "hx-target": "panel"}
NEWS = {"hx-request": "true", "hx-target": "facts"}
_ROW = re.compile(r'<tr id="r-(sch_\w+)"')


def rows(text: str) -> list[str]:
    return _ROW.findall(text)


async def listed(browser: Browser, **query: str) -> list[str]:
    return rows((await browser.get("/requests", **query)).text)


def link(text: str, rel: str) -> str:
    [address] = re.findall(rf'href="([^"]+)" rel="{rel}"', text)
    return html.unescape(address)


async def test_the_list_runs_from_what_waits_through_now_to_what_was(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    good, bad = await execute(dashboard, ada), await execute(dashboard, ada, 503)
    soon, later = await schedule(dashboard, ada, 60_000), await schedule(dashboard, ada)
    text = (await browser.get("/requests")).text
    assert rows(text) == [later, soon, bad, good]
    assert text.index(f"r-{soon}") < text.index('id="now"') < text.index(f"r-{bad}")
    assert re.search(rf'<tr id="r-{bad}" data-row class="failed">', text)


async def test_a_link_to_another_list_is_not_put_into_the_side_panel(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    """The rows of the table open there, and its other links would inherit that."""
    for _ in range(9):
        await schedule(dashboard, ada)
    [attributes] = re.findall(r"<a ([^>]+)>All that wait", (await browser.get("/requests")).text)
    assert 'hx-boost="false"' in attributes


async def test_it_is_filtered_by_what_the_address_says(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    good, bad = await execute(dashboard, ada), await execute(dashboard, ada, 503)
    waiting, day = await schedule(dashboard, ada), in_days(-1)
    assert await listed(browser, status="failed") == [bad]
    assert await listed(browser, status="scheduled") == [waiting]
    assert await listed(browser, q="EXAMPLE.com/hook", status="completed") == [good]
    assert await listed(browser, q="example.com/other") == []
    assert await listed(browser, answer="503") == [bad]
    assert await listed(browser, answer="Service Unavailable") == [bad]
    assert await listed(browser, when="15m") == [bad, good]
    assert await listed(browser, when="yesterday") == []
    assert await listed(browser, when="tomorrow") in ([], [waiting])
    assert await listed(browser, to=f"{day:%Y-%m-%dT%H:%M}") == []
    around = await listed(browser, **{"from": f"{day:%Y-%m-%dT%H:%M}", "to": ""})
    assert around == [waiting, bad, good]


async def test_a_bad_filter_is_told_and_the_rest_is_kept(browser: Browser) -> None:
    for query in ({"status": "lost"}, {"from": "yesterday"}, {"cursor": "x"}, {"when": "soon"}):
        answer = await browser.get("/requests", q="kept", **query)
        assert (answer.status_code, 'role="alert"' in answer.text) == (400, True)
        assert 'value="kept"' in answer.text


async def test_a_time_is_of_the_zone_that_is_shown(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    """Kept in a cookie; an address may name another one."""
    waiting = await schedule(dashboard, ada)
    assert (await browser.write("/zone", zone="Asia/Tokyo", back="/dashboard/keys")).headers[
        "location"
    ] == "/dashboard/keys"
    day = f"{in_days(70):%Y-%m-%d}"
    answer = await browser.write(f"/requests/{waiting}/time", at=f"{day}T04:05:06")
    assert answer.status_code == 303
    kept = await dashboard.store.schedules.get(ada.account_id, waiting)
    assert kept.request.trigger_at_ms % 86_400_000 == (19 * 3600 + 5 * 60 + 6) * 1000
    text = (await browser.get(f"/requests/{waiting}")).text
    assert f"{day} 04:05:06.000" in text
    assert "Asia/Tokyo" in text
    assert await listed(browser, **{"from": f"{day}T04:05", "to": f"{day}T04:06"}) == [waiting]
    in_utc = {"from": f"{day}T04:05", "to": f"{day}T04:06", "tz": "UTC"}
    assert await listed(browser, **in_utc) == []
    for bad in ("Europe", "../../etc/passwd", "No/Where", "x" * 100):
        await browser.write("/zone", zone=bad)
        assert "Times are UTC" in (await browser.get("")).text


async def test_pages_lead_on_and_back(dashboard: Dashboard, ada: Account, browser: Browser) -> None:
    await dashboard.store.accounts.grant(ada.account_id, 100)
    ended = [await execute(dashboard, ada, 503) for _ in range(101)][::-1]
    first = (await browser.get("/requests", status="failed")).text
    assert 'rel="prev"' not in first
    second = (await browser.client.get(link(first, "next"))).text
    third = (await browser.client.get(link(second, "next"))).text
    assert rows(first) + rows(second) + rows(third) == ended
    assert 'rel="next"' not in third
    back = (await browser.client.get(link(third, "prev"))).text
    assert rows(back) == rows(second)
    assert rows((await browser.client.get(link(back, "next"))).text) == rows(third)


async def test_a_search_goes_on_by_itself_and_can_be_stopped(
    dashboard: Dashboard, ada: Account, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.dashboard.requests.listing._STEP_S", 0.0)
    monkeypatch.setattr("scheduler.store.log.ended._BUDGET", 1)
    monkeypatch.setattr("scheduler.store.log.ended._CHUNKS", 4)
    wanted = await execute(dashboard, ada, url="https://example.com/rare")
    for _ in range(12):
        await execute(dashboard, ada)
    text = (await browser.get("/requests", q="rare")).text
    assert rows(text) == []
    steps = 0
    while wanted not in text:
        [address] = set(re.findall(r'id="looking-past" hx-get="([^"]+)"', text))
        assert "so far as far as" in text
        [stop] = re.findall(r'hx-get="([^"]+paused=1[^"]*)"', text)
        stopped = (await browser.client.get(html.unescape(stop), headers=NEWS)).text
        assert "load delay" not in stopped
        assert "Go on looking" in stopped
        text = (await browser.client.get(html.unescape(address), headers=NEWS)).text
        steps += 1
        assert steps < 10
    assert steps >= 2


async def test_a_request_opens_beside_the_list_and_follows_what_becomes_of_it(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    waiting = await schedule(dashboard, ada, 60_000)
    path = f"/dashboard/requests/{waiting}?status=failed"
    panel = await browser.client.get(path, headers=PANEL)
    assert panel.headers["hx-push-url"] == path
    assert "<html" not in panel.text
    assert "/dashboard/requests?status=failed" in panel.text, "closing leads back to the list"
    [address] = re.findall(r'id="facts" hx-get="([^"]+)"', panel.text)
    news = await browser.client.get(html.unescape(address), headers=NEWS)
    assert ("hx-retarget" in news.headers, "<article" in news.text) == (False, False)
    await dashboard.store.canceller.cancel(ada.account_id, waiting)
    news = await browser.client.get(html.unescape(address), headers=NEWS)
    assert (news.headers["hx-retarget"], "<article" in news.text) == ("#panel", True)
    assert "hx-trigger" not in re.sub(r"<body.*?>", "", news.text), "nothing more will happen"


async def test_an_entry_of_the_log_is_shown_when_its_schedule_is_no_longer_kept(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    ended = await execute(dashboard, ada, 503)
    text = (await browser.get("/requests")).text
    [address] = re.findall(rf'class="opens" href="([^"]+{ended}[^"]+)"', text)
    await redis_of(dashboard.store).delete(keys.schedule(ada.account_id, ended))
    answer = await browser.client.get(html.unescape(address))
    assert answer.status_code == 200
    assert "no longer kept" in answer.text
    assert "Service Unavailable" in answer.text
    bob = await dashboard.signed_in(await dashboard.account("bob"))
    assert (await bob.client.get(html.unescape(address))).status_code == 404
    for at in ("", "x", "0", "9" * 15, "9" * 40):
        assert (await browser.get(f"/requests/{ended}", at=at)).status_code == 404


async def test_the_panel_never_has_a_whole_page_in_it(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    """Neither where a request is gone, nor where it may not be touched, nor after a session."""
    waiting = await schedule(dashboard, ada)
    gone = await browser.client.get(f"/dashboard/requests/{waiting[:-3]}aaa", headers=PANEL)
    await dashboard.store.changes.suspend(ada.account_id)
    form = {"csrf": await browser.csrf()}
    headers = PANEL | {"origin": ORIGIN}
    path = f"/dashboard/requests/{waiting}"
    refused = await browser.client.post(f"{path}/cancel", data=form, headers=headers)
    for answer, status in ((gone, 404), (refused, 403)):
        assert answer.status_code == status
        assert answer.text.lstrip().startswith("<article")
        assert "data-close" in answer.text
        assert "data-sentence" in answer.text
    stranger = await dashboard.browser().client.get(path, headers=PANEL)
    assert stranger.headers["hx-redirect"] == "/dashboard/sign-in"


async def test_an_attempt_that_failed_opens_as_that_attempt(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    retried = await schedule(dashboard, ada, -1000, retries=2)
    await fail_an_attempt(dashboard, ada)
    addresses = []
    for path in ("", "/requests"):
        text = (await browser.get(path)).text
        addresses += re.findall(rf'href="([^"]+{retried}[^"]*attempt=1[^"]*)"', text)
    assert len(addresses) == 2
    for address in map(html.unescape, addresses):
        panel = await browser.client.get(address, headers=PANEL)
        assert "<dt>Attempt</dt><dd>1</dd>" in panel.text
        assert "Service Unavailable" in panel.text
        assert "no longer kept" not in panel.text
        assert "attempt=1" in panel.headers["hx-push-url"]
        assert f'data-schedule="{retried}-1"' in panel.text, "its row is the one that is marked"
        [onward] = re.findall(r'<a href="([^"]+)"[^>]*>The request, and how', panel.text)
        assert "Reschedule" in (await browser.client.get(html.unescape(onward))).text


async def test_secrets_in_a_url_are_shown_nowhere(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    ended = await execute(dashboard, ada, url="https://example.com/?token=s3same")
    for path in ("", "/requests", f"/requests/{ended}"):
        text = (await browser.get(path)).text
        assert ended in text
        assert "s3same" not in text, path


async def test_many_are_cancelled_in_one_confirmed_step(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    waiting = [await schedule(dashboard, ada) for _ in range(3)]
    ended = await execute(dashboard, ada)
    asked = await post_many(browser, "cancel", [*waiting[:2], ended])
    assert "Cancel 3 requests?" in asked.text
    assert await dashboard.store.accounts.credits(ada.account_id) == 96, "nothing is done yet"
    for _ in range(2):  # a form that is sent twice
        done = await post_many(browser, "cancel", [*waiting[:2], ended], confirmed="1")
        assert done.status_code == 303
        said = (await browser.client.get(done.headers["location"])).text
        assert "2 cancelled, their credits came back. 1 not: the schedule is completed" in said
    assert await dashboard.store.accounts.credits(ada.account_id) == 98
    assert await listed(browser, status="scheduled") == [waiting[2]]


async def test_all_that_match_run_again(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    bad = {await execute(dashboard, ada, 503) for _ in range(3)}
    await execute(dashboard, ada)
    asked = await browser.write("/requests/bulk", action="again", scope="matching", status="failed")
    assert "Run again 3 requests?" in asked.text
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', asked.text))
    named = re.findall(r'name="id" value="([^"]*)"', asked.text)
    assert set(named) == bad
    for _ in range(2):
        done = await post_many(browser, "again", named, confirmed="1", once=fields["once"])
        assert "3 run again" in (await browser.client.get(done.headers["location"])).text
    assert await dashboard.store.accounts.credits(ada.account_id) == 100 - 4 - 3
    assert len(await listed(browser, status="scheduled")) == 3


async def test_many_are_moved_by_so_much_or_to_one_time(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    waiting = [await schedule(dashboard, ada, 60_000 * (n + 1)) for n in range(3)]
    read = dashboard.store.schedules.get
    before = [(await read(ada.account_id, each)).request.trigger_at_ms for each in waiting]
    for bad in ({"shift": "soon"}, {"shift": "9000d"}, {"at": ""}, {"at": "1999-01-01T00:00"}):
        refused = await post_many(browser, "move", waiting, confirmed="1", **bad)
        assert (refused.status_code, 'role="alert"' in refused.text) == (400, True), bad
    done = await post_many(browser, "move", waiting, confirmed="1", shift="1h30m")
    assert "3 rescheduled." in (await browser.client.get(done.headers["location"])).text
    after = [(await read(ada.account_id, each)).request.trigger_at_ms for each in waiting]
    assert after == [each + 5_400_000 for each in before]


@pytest.mark.parametrize("to", [{"shift": "1h"}, {"at": "2031-02-03T04:05"}])
async def test_all_that_match_are_moved_once_however_many_there_are(
    dashboard: Dashboard,
    ada: Account,
    browser: Browser,
    monkeypatch: pytest.MonkeyPatch,
    to: dict[str, str],
) -> None:
    """A portion at a time, and moved schedules are not met again; a form that is sent twice moves
    nothing by an hour twice."""
    monkeypatch.setattr(bulk, "MOST", 3)
    waiting = [await schedule(dashboard, ada, 600_000 * (n + 1)) for n in range(8)]
    read = dashboard.store.schedules.get
    before = [(await read(ada.account_id, each)).request.trigger_at_ms for each in waiting]
    answer = await browser.write("/requests/bulk", action="move", scope="matching")
    assert "Reschedule all that match?" in answer.text
    for portion in range(3):
        named = re.findall(r'name="id" value="([^"]*)"', answer.text)
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', answer.text))
        fields = {name: text for name, text in fields.items() if name not in ("id", "csrf")} | to
        for _ in range(2):
            answer = await post_many(browser, fields.pop("action", "move"), named, **fields)
        assert (answer.status_code, f"So far {3 * portion + 3}" in answer.text) == (
            (200, True) if portion < 2 else (303, False)
        )
    assert "8 rescheduled." in (await browser.client.get(answer.headers["location"])).text
    after = [(await read(ada.account_id, each)).request.trigger_at_ms for each in waiting]
    there_ms = parse_iso8601("2031-02-03T04:05:00Z")
    assert after == [there_ms if "at" in to else each + 3_600_000 for each in before]


async def test_all_that_failed_run_again_once_however_many_there_are(
    dashboard: Dashboard, ada: Account, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MOST", 2)
    for _ in range(3):
        await execute(dashboard, ada, 503)
    asked = await browser.write("/requests/bulk", action="again", scope="matching", status="failed")
    for _ in range(2):
        named = re.findall(r'name="id" value="([^"]*)"', asked.text)
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', asked.text))
        kept = {name: text for name, text in fields.items() if name not in ("id", "csrf", "action")}
        asked = await post_many(browser, "again", named, **kept)
    assert "3 run again" in (await browser.client.get(asked.headers["location"])).text
    assert await dashboard.store.accounts.credits(ada.account_id) == 100 - 3 - 3


async def post_many(browser: Browser, action: str, ids: list[str], **fields: str) -> httpx.Response:
    data = {"csrf": await browser.csrf(), "action": action, "id": ids, **fields}
    return await browser.client.post(
        "/dashboard/requests/bulk", data=data, headers={"origin": ORIGIN}
    )


async def composed(browser: Browser, **fields: str) -> httpx.Response:
    return await browser.client.post(
        "/dashboard/requests/new",
        data={"csrf": await browser.csrf(), **fields},
        headers={"origin": ORIGIN},
    )


async def test_a_request_is_composed_and_judged_as_the_api_does(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    text = html.unescape((await browser.get("/requests/new")).text)
    assert f'value="{ORIGIN}/dashboard/echo"' in text
    [once] = re.findall(r'name="once" value="([^"]+)"', text)
    given = {
        "once": once,
        "url": "https://example.com/x",
        "method": "PUT",
        "delay": "1h",
        "headers": "X-Order: 8412\nX-Empty:",
        "body": '{"n": 1.50}',
    }
    for _ in range(2):  # a form that is sent twice
        made = await composed(browser, **given)
        assert made.status_code == 303
    assert await dashboard.store.accounts.credits(ada.account_id) == 99
    schedule_id = made.headers["location"].rpartition("/")[2]
    asked = (await dashboard.store.schedules.get(ada.account_id, schedule_id)).request
    assert (asked.method, asked.body) == ("PUT", b'{"n": 1.50}')
    assert asked.headers == {"X-Order": "8412", "X-Empty": ""}
    assert "Scheduled, for one credit" in (await browser.client.get(made.headers["location"])).text
    again = html.unescape((await browser.get("/requests/new", like=schedule_id)).text)
    assert "X-Order: 8412" in again
    refused = await composed(browser, **given | {"url": "ftp://x", "headers": "Host: a"})
    assert refused.status_code == 400
    assert "<b>Where to</b>: It must be" in refused.text
    assert "<b>Headers, Host</b>: " in refused.text
    assert "targetUrl" not in refused.text, "a field has one name"
    undue = await composed(browser, **given | {"delay": "", "at": "", "once": "undue"})
    assert "<b>Time</b>: Say when" in undue.text
    assert ">Host: a<" in refused.text, "what was typed is kept"
    plain = await composed(browser, **given | {"body": "a=1", "once": "x"})
    schedule_id = plain.headers["location"].rpartition("/")[2]
    asked = (await dashboard.store.schedules.get(ada.account_id, schedule_id)).request
    assert asked.body == b"a=1"


async def test_without_credits_nothing_is_composed(dashboard: Dashboard) -> None:
    browser = await dashboard.signed_in(await dashboard.account("poor", credits=0))
    answer = await browser.write("/requests/new", url="https://example.com/", delay="1h")
    assert (answer.status_code, "https://example.com/" in answer.text) == (402, True)


async def test_the_echo_answers_everybody_and_keeps_nothing(dashboard: Dashboard) -> None:
    stranger = dashboard.browser()
    answer = await stranger.client.post(
        "/dashboard/echo", content=b'{"a":1}', headers={"content-type": "application/json"}
    )
    assert answer.status_code == 200
    assert answer.json()["bodyBytes"] == 7
    assert "cookie" not in answer.text
    large = await stranger.client.post("/dashboard/echo", content=b"x" * 300_000)
    assert large.status_code == 413


async def test_pages_are_packed_and_their_tokens_differ(browser: Browser) -> None:
    pages = [await browser.get("/keys") for _ in range(2)]
    assert all(each.headers["content-encoding"] == "gzip" for each in pages)
    tokens = {re.findall(r'name="csrf" value="([^"]+)"', each.text)[0] for each in pages}
    assert len(tokens) == 2
    plain = await browser.client.get("/dashboard/keys", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.headers["vary"] == "accept-encoding"


async def test_a_request_that_was_never_sent_says_so(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    schedule_id = await schedule(dashboard, ada, -1000)
    shard = int(ada.account_id.split("_")[1])
    batch = await dashboard.store.claims.claim(shard, lease_ms=15_000, most=10)
    outcome = Outcome(Status.FAILED, 0, 30_000, "TLS handshake failed")
    await dashboard.store.ends.ack(shard, [Ack(batch.invocations[0], outcome, None)])
    text = (await browser.get(f"/requests/{schedule_id}")).text
    assert "nothing was sent" in text
    [curl] = re.findall(r"<code>(curl .*?)</code>", text, re.DOTALL)
    assert URL.split("?")[0] in curl, "what was asked is shown beside it"


async def test_what_a_target_said_is_shown_as_text(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    said = Answer("text/<i>", b"<script>no</script>")
    bad = await execute(dashboard, ada, 503, answer=said)
    text = (await browser.get(f"/requests/{bad}")).text
    assert "&lt;script&gt;no&lt;/script&gt;" in text
    assert "<script>no" not in text
    assert "19 B kept · <bdi>text/&lt;i&gt;" in text


async def test_between_two_attempts_the_panel_tells_what_came_of_the_last_one(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    retried = await schedule(dashboard, ada, -1000)
    await fail_an_attempt(
        dashboard, ada, Answer("text/plain", b"busy"), Phases(None, 3, None, 8, 1)
    )
    text = (await browser.get(f"/requests/{retried}")).text
    facts = re.findall(r"<dt>([^<]+)</dt>", text)
    first = facts.index("Attempt 1")
    assert facts[first : first + 4] == ["Attempt 1", "Its answer", "It said", "Took"]
    assert ">busy<" in text
    assert "over a new connection" in text


async def test_the_panel_tells_what_an_exchange_was_made_of(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    told = Phases(None, 3, None, 8, 1)
    text = (await browser.get(f"/requests/{await execute(dashboard, ada, phases=told)}")).text
    assert "over a new connection" in text
    rows_of = re.findall(r'<th scope="row">([^<]+)</th>.*?<td class="n">([^<]+)<', text)
    assert rows_of == [("Connect", "3 ms"), ("First byte", "8 ms"), ("Last byte", "1 ms")]
    kept = await execute(dashboard, ada, 503, phases=Phases(first_byte_ms=12))
    assert "over a kept connection" in (await browser.get(f"/requests/{kept}")).text
    refused = await execute(dashboard, ada, 503, phases=Phases(None, 12))
    text = (await browser.get(f"/requests/{refused}")).text
    assert "waterfall" in text
    assert "connection</small>" not in text, "there was none"
    unknown = (await browser.get(f"/requests/{await execute(dashboard, ada)}")).text
    assert "waterfall" not in unknown
    assert "connection" not in unknown


async def test_one_that_is_damaged_is_named_and_the_others_are_listed(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    damaged, sound = await schedule(dashboard, ada), await schedule(dashboard, ada)
    await redis_of(dashboard.store).hset(keys.schedule(ada.account_id, damaged), "r", b"\xc0 hush")
    assert await listed(browser) == [sound]
    page = await browser.get(f"/requests/{damaged}")
    assert page.status_code == 500
    assert f"The stored schedule {damaged} is damaged and cannot be read" in page.text
    assert "hush" not in page.text
    panel = await browser.get(f"/requests/{damaged}", headers=PANEL)
    assert f"The stored schedule {damaged} is damaged" in panel.text


async def test_what_would_turn_a_page_round_is_shown_as_it_is_written(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    store, due_ms = dashboard.store, dashboard.store.clock.now_ms() - 1000
    url, body = "https://example.com/\u202egpj.exe", '{"a":"\u2066b\u202e"}'
    headers = {"X-Note": "\u00ad shy"}
    request = Request(due_ms, "POST", url, headers, body.encode())
    failed = await store.schedules.create(ada.account_id, request)
    said = Answer("text/\u202eplain", b"\x1b[2J \xe2\x80\xae")
    outcome = Outcome(Status.FAILED, 500, 1, "No \u202eway", answer=said)
    shard = int(ada.account_id.split("_")[1])
    [held] = (await store.claims.claim(shard, lease_ms=9000, most=1)).invocations
    await store.ends.ack(shard, [Ack(held, outcome, 0)])
    await store.api_keys.create(ada.account_id, "a\u202eb")
    for path in ("", "/requests", f"/requests/{failed}", "/keys"):
        text = (await browser.get(path)).text
        assert "\u202e" not in text, path
        assert r"\u202e" in text, path
    panel = (await browser.get(f"/requests/{failed}")).text
    assert r"https://example.com/\u202egpj.exe" in re.sub("<[^>]+>", "", panel)
    assert r"\u001b[2J \u202e" in panel
    assert "https://example.com/%E2%80%AEgpj.exe" in panel  # for a shell, what is sent
    # The path to continue at is unchanged.
    composer = html.unescape((await browser.get("/requests/new", like=failed)).text)
    assert f'name="url" value="{url}"' in composer
    assert "\u2066b\u202e" in composer
    assert 'value="\u202e"' in (await browser.get("/requests", q="\u202e")).text


@pytest.mark.parametrize("query", [{"q": "example"}, {"answer": "503"}])
async def test_a_search_too_many_is_told_and_goes_on_by_itself(
    dashboard: Dashboard,
    ada: Account,
    browser: Browser,
    monkeypatch: pytest.MonkeyPatch,
    query: dict[str, str],
) -> None:
    failed = await execute(dashboard, ada, 503)
    with monkeypatch.context() as indebted:
        indebted.setattr(Scans, "_count", AsyncMock(return_value=1700))
        answer = await browser.get("/requests", **query)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
        assert "The searches of an account are limited; this one goes on in 2 s…" in answer.text
        assert 'hx-trigger="load delay:1700ms, again"' in answer.text
        assert (await browser.get("/requests")).status_code == 200
        [address] = set(re.findall(r'hx-get="([^"]+side=past)"', answer.text))
        more = html.unescape(address).removeprefix("/dashboard")
        again = await browser.get(more)
        assert (again.status_code, again.headers["retry-after"]) == (429, "2")
        assert 'hx-trigger="load delay:1700ms, again"' in again.text
    assert rows((await browser.get(more)).text) == [failed]


async def test_a_search_that_is_cut_short_shows_what_it_found(
    dashboard: Dashboard, ada: Account, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second page of a search is one too many."""
    failed = await execute(dashboard, ada, 503)
    read, pages = dashboard.store.logs.page, 0

    async def page(account_id: str, query: LogQuery) -> LogPage:
        nonlocal pages
        pages += 1
        if pages > 1:
            raise TooManyScans(700)
        found = await read(account_id, query)
        return found._replace(next_cursor=query.beginning, reached_ms=1)

    monkeypatch.setattr(dashboard.store.logs, "page", page)
    answer = await browser.get("/requests", q="example", status="failed")
    assert (answer.status_code, rows(answer.text)) == (200, [failed])
    assert "this one goes on in 1 s; so far as far as" in answer.text
    assert "load delay:700ms, again" in answer.text


async def test_all_that_match_are_looked_for_as_fast_as_searches_may(
    dashboard: Dashboard, ada: Account, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = await schedule(dashboard, ada)
    monkeypatch.setattr(Scans, "_count", AsyncMock(side_effect=[50, 50, 0, 0]))
    asked = await browser.write("/requests/bulk", action="cancel", scope="matching", q="example")
    assert (asked.status_code, f'value="{waiting}"' in asked.text) == (200, True)
