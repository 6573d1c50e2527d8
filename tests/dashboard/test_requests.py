"""The Requests page over HTTP: the list, the side panel, and searches."""

from __future__ import annotations

import html
import re
from unittest.mock import AsyncMock
from urllib.parse import quote

import pytest

from api.dashboard.requests.filters import Filter
from scheduler.models import Answer, LogStatus, Phases
from scheduler.store import keys
from scheduler.store.log.logs import LogQuery
from scheduler.store.scans import Scans
from tests.dashboard.conftest import ACCEPTED, ORIGIN, Browser, Dashboard, listed, rows
from tests.dashboard.forms import form_with
from tests.dashboard.recurring.recurring import made
from tests.support.plain import redis_of
from tests.support.servers import in_days

PANEL = {"hx-request": "true", "hx-boosted": "true", "hx-target": "div#panel"}
NEWS = {"hx-request": "true", "hx-target": "dl#facts"}


def link(text: str, rel: str) -> str:
    [address] = re.findall(rf'href="([^"]+)" rel="{rel}"', text)
    return html.unescape(address)


def without_fields(text: str) -> str:
    """The page without the values that its fields send back."""
    text = re.sub(r'(<input[^>]* value=)"[^"]*"', r"\1", text)
    return re.sub(r"(<textarea[^>]*>)[^<]*", r"\1", text)


async def test_the_list_runs_from_what_waits_through_now_to_what_was(browser: Browser) -> None:
    good, bad = await browser.execute(), await browser.execute(503)
    soon, later = await browser.schedule(60_000), await browser.schedule()
    text = await browser.text("/requests")
    assert rows(text) == [later, soon, bad, good]
    assert text.index(f"r-{soon}") < text.index('id="now"') < text.index(f"r-{bad}")
    assert re.search(rf'<tr id="r-{bad}" data-row class="failed">', text)


async def test_it_is_filtered_by_what_the_address_says(browser: Browser) -> None:
    good, bad = await browser.execute(), await browser.execute(503)
    waiting = await browser.schedule()
    named = await browser.schedule(reference="order-17", labels=["eu west", "mail"])
    day = f"{in_days(-1):%Y-%m-%dT%H:%M}"
    for query, found in (
        ({"status": "failed"}, [bad]),
        ({"status": "scheduled"}, [waiting, named]),
        ({"status": "completed", "q": "EXAMPLE.com/hook"}, [good]),
        ({"q": "example.com/other"}, []),
        ({"host": "Example.com", "status": "failed"}, [bad]),
        ({"host": "example.com", "status": "scheduled"}, [waiting, named]),
        ({"host": "example"}, []),
        ({"reference": "order-17"}, [named]),
        ({"reference": "order-*", "status": "scheduled"}, [named]),
        ({"reference": "order-18"}, []),
        ({"label": "eu west"}, [named]),
        ({"label": "eu"}, []),
        ({"answer": "Service Unavailable"}, [bad]),
        ({"when": "15m"}, [bad, good]),
        ({"to": day}, []),
        ({"from": day, "to": ""}, [named, waiting, bad, good]),
    ):
        assert await listed(browser, **query) == found, query
    assert {*await listed(browser, when="tomorrow")} <= {waiting, named}
    assert {*await listed(browser, when="yesterday")} <= {good, bad}, "it may be midnight"


async def test_those_that_were_late_are_found_and_sorted_the_latest_first(browser: Browser) -> None:
    """Overdue ones are late too, but have no lateness to sort by yet; coming ones are not late."""
    in_time, late = await browser.execute(), await browser.execute(late_ms=5000)
    later, failed = await browser.execute(late_ms=70_000), await browser.execute(503, late_ms=9000)
    await browser.schedule()
    overdue = await browser.schedule(-30_000)
    for query, found in (
        ({"late": "5s"}, {overdue, failed, later, late}),
        ({"late": "5.001s"}, {overdue, failed, later}),
        ({"late": "1m", "status": "completed"}, {later}),
        ({"late": "20s", "status": "scheduled"}, {overdue}),
        ({"late": "40s", "status": "scheduled"}, set()),
    ):
        assert {*await listed(browser, **query)} == found, query
    latest_first = [later, failed, late, in_time]
    assert await listed(browser, sort="late") == latest_first
    assert await listed(browser, sort="late", late="6 s") == latest_first[:2]
    assert await listed(browser, sort="late", status="failed") == [failed]
    assert await listed(browser, sort="late", to="2020-01-01T00:00") == []
    text = await browser.text("/requests", sort="late", late="90000ms")
    assert "<b>late:</b><bdi>1m30s</bdi>" in text
    assert 'id="sorted"' not in text
    assert "data-live" not in text.partition('id="live"')[2].partition(">")[0]
    header = link_of_late(await browser.text("/requests", late="6s"))
    assert (await browser.client.get(header)).text.index(later) > 0


def test_a_search_for_late_requests_reads_none_that_are_to_come() -> None:
    for wanted in (Filter(late_ms=1), Filter(by_lateness=True)):
        assert wanted.query(1000).to_ms == 1001
        assert wanted._replace(to_ms=500).query(1000).to_ms == 500
        assert not wanted.is_around_now(1000)


def link_of_late(text: str) -> str:
    [address] = re.findall(r'<th class="n late"><a href="([^"]+)"', text)
    return html.unescape(address)


async def test_a_sort_says_how_far_it_came(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [await browser.execute(late_ms=1000 * number) for number in range(5)]
    monkeypatch.setattr("api.dashboard.requests.listing._STEP_S", 0.0)
    monkeypatch.setattr("api.dashboard.requests.listing._SORTED_AT_ONCE", 3)
    text = await browser.text("/requests", sort="late")
    assert rows(text) == late[:1:-1]
    assert "Sorted are only requests that ended since" in text


@pytest.mark.parametrize("query", [{"q": "example"}, {"sort": "late"}])
async def test_a_search_too_many_is_told_and_goes_on_by_itself(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, query: dict[str, str]
) -> None:
    late = [await browser.execute(late_ms=1000 * number) for number in range(3)]
    with monkeypatch.context() as indebted:
        indebted.setattr(Scans, "_count", AsyncMock(return_value=1700))
        answer = await browser.get("/requests", **query)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
        assert 'hx-trigger="load delay:1700ms, again"' in answer.text
        assert (await browser.get("/requests")).status_code == 200
        [address] = set(re.findall(r'hx-get="([^"]+side=past)"', answer.text))
        more = html.unescape(address).removeprefix("/dashboard")
        again = await browser.get(more)
        assert (again.status_code, again.headers["retry-after"]) == (429, "2")
    text = await browser.text(more)
    assert (rows(text), "That is all." in text) == (late[::-1], True)


async def test_a_bad_filter_is_told_and_the_rest_is_kept(browser: Browser) -> None:
    for query in (
        {"status": "lost"},
        {"from": "yesterday"},
        {"cursor": "x"},
        {"when": "soon"},
        {"reference": "a b"},
        {"label": "a,b"},
        {"late": "soon"},
    ):
        answer = await browser.get("/requests", q="kept", **query)
        assert (answer.status_code, 'role="alert"' in answer.text) == (400, True)
        assert 'value="kept"' in answer.text


async def test_what_is_typed_leads_to_the_address_that_says_the_same(browser: Browser) -> None:
    bad, _ = await browser.execute(503), await browser.execute()
    typed = await browser.get("/requests", find='status:failed answer:"Service Unavailable"')
    assert typed.headers["location"] == (
        "/dashboard/requests?status=failed&answer=Service+Unavailable"
    )
    text = await browser.text_after(typed)
    assert rows(text) == [bad]
    [remove] = re.findall(r'<a class="chip" href="([^"]+)" aria-label="[^"]+ status:failed"', text)
    assert html.unescape(remove) == "/dashboard/requests?answer=Service+Unavailable"
    refused = await browser.get("/requests", status="failed", find="status:lost <b>")
    assert (refused.status_code, rows(refused.text)) == (400, [bad])
    assert "<b>status:lost</b></bdi> There is no such status." in refused.text
    assert 'value="status:lost &lt;b&gt;"' in refused.text
    direct = await browser.get("/requests", find=bad)
    assert direct.headers["location"] == f"/dashboard/requests/{bad}"


async def test_the_box_offers_names_and_then_their_values(browser: Browser) -> None:
    await browser.schedule(lane="customer-17", labels=["eu west", "mail"])
    await browser.execute()
    for text, offered in (
        ("la", ["lane:", "label:", "late:", "sort:late"]),
        ("label:m", ["label:mail"]),
        ('label:"eu', ["label:&#34;eu west&#34;"]),
        ("status:failed fai", ["status:failed", "callback:failed"]),
        ("status:C", ["status:completed", "status:cancelled"]),
        ("lane:cust", ["lane:customer-17"]),
        ("lane:", ["lane:customer-17"]),
        ("host:ex", ["host:example.com"]),
        ("answer:", ["answer:"]),
        ("nothing-like-it", []),
    ):
        found = await browser.text("/requests/suggest", find=text)
        assert re.findall(r'data-token="([^"]+)"', found) == offered, text
    assert "status:" in await browser.text("/requests/suggest", find="")


async def test_a_time_is_of_the_zone_that_is_shown(browser: Browser) -> None:
    """Kept in a cookie; an address may name another one."""
    waiting, day = await browser.schedule(), f"{in_days(70):%Y-%m-%d}"
    chosen = await browser.write("/zone", zone="Asia/Tokyo", back="/dashboard/keys")
    assert chosen.headers["location"] == "/dashboard/keys"
    answer = await browser.write(f"/requests/{waiting}/time", at=f"{day}T04:05:06")
    assert answer.status_code == 303
    due_ms = (await browser.kept(waiting)).request.trigger_at_ms
    assert due_ms % 86_400_000 == (19 * 3600 + 5 * 60 + 6) * 1000
    assert f"{day} 04:05:06.000" in await browser.text(f"/requests/{waiting}")
    minute = {"from": f"{day}T04:05", "to": f"{day}T04:06"}
    assert await listed(browser, **minute) == [waiting]
    assert await listed(browser, **minute, tz="UTC") == []
    for bad in ("Europe", "../../etc/passwd", "x" * 100):
        await browser.write("/zone", zone=bad)
        assert "Times are in UTC" in await browser.text("")


async def test_pages_lead_on_and_back(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.dashboard.requests.filters.PER_PAGE", 5)
    ended = [await browser.execute(503) for _ in range(11)][::-1]
    first = await browser.text("/requests", status="failed")
    assert 'rel="prev"' not in first
    second = (await browser.client.get(link(first, "next"))).text
    third = (await browser.client.get(link(second, "next"))).text
    assert rows(first) + rows(second) + rows(third) == ended
    assert 'rel="next"' not in third
    back = (await browser.client.get(link(third, "prev"))).text
    assert rows(back) == rows(second)


async def test_a_search_goes_on_by_itself_and_can_be_stopped(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.dashboard.requests.listing._STEP_S", 0.0)
    monkeypatch.setattr("scheduler.store.log.ended._BUDGET", 1)
    monkeypatch.setattr("scheduler.store.log.ended._CHUNKS", 4)
    wanted = await browser.execute(url="https://example.com/rare")
    for _ in range(12):
        await browser.execute()
    text = await browser.text("/requests", q="rare")
    assert rows(text) == []
    for _ in range(10):
        [address] = set(re.findall(r'id="looking-past" hx-get="([^"]+)"', text))
        [stop] = re.findall(r'hx-get="([^"]+paused=1[^"]*)"', text)
        stopped = (await browser.client.get(html.unescape(stop), headers=NEWS)).text
        assert ("load delay" in stopped, "Go on looking" in stopped) == (False, True)
        text = (await browser.client.get(html.unescape(address), headers=NEWS)).text
        if wanted in text:
            break
    assert wanted in text


async def test_a_request_opens_by_the_list_and_follows_what_becomes_of_it(browser: Browser) -> None:
    waiting = await browser.schedule(60_000)
    path = f"/dashboard/requests/{waiting}?status=failed"
    panel = await browser.client.get(path, headers=PANEL)
    assert panel.headers["hx-push-url"] == path
    assert "<html" not in panel.text
    [address] = re.findall(r'id="facts" hx-get="([^"]+)"', panel.text)
    news = await browser.client.get(html.unescape(address), headers=NEWS)
    assert ("hx-retarget" in news.headers, "<article" in news.text) == (False, False)
    await browser.cancel(waiting)
    news = await browser.client.get(html.unescape(address), headers=NEWS)
    assert (news.headers["hx-retarget"], "<article" in news.text) == ("#panel", True)


async def test_one_that_waits_is_run_now(browser: Browser) -> None:
    waiting = await browser.schedule()
    panel = await browser.text(f"/requests/{waiting}")
    assert "Run now" in panel
    at_ms = (await browser.kept(waiting)).request.trigger_at_ms
    [later] = re.findall(r'name="at" value="([^"]+)">An hour later', panel)
    for _ in range(2):  # its repeat moves nothing
        await browser.write(f"/requests/{waiting}/time", at=later)
        assert (await browser.kept(waiting)).request.trigger_at_ms == at_ms + 3_600_000
    assert (await browser.write(f"/requests/{waiting}/time", at="now")).status_code == 303
    due_ms = (await browser.kept(waiting)).request.trigger_at_ms
    assert due_ms <= browser.store.clock.now_ms()
    assert "Run now" not in await browser.text(f"/requests/{waiting}")
    ended = await browser.text(f"/requests/{await browser.execute(503)}")
    order = [ended.index(each) for each in (">Run again<", ">Edit and schedule<", 'id="facts"')]
    assert order == sorted(order)


async def test_an_entry_of_the_log_is_shown_when_its_schedule_is_no_longer_kept(
    dashboard: Dashboard, browser: Browser
) -> None:
    ended = await browser.execute(503)
    [found] = re.findall(
        rf'class="opens" href="([^"]+{ended}[^"]+)"', await browser.text("/requests")
    )
    address = html.unescape(found)
    await redis_of(browser.store).delete(keys.schedule(browser.account_id, ended))
    answer = await browser.client.get(address)
    assert (answer.status_code, "no longer kept" in answer.text) == (200, True)
    bob = await dashboard.signed_in(await dashboard.account("bob"))
    assert (await bob.client.get(address)).status_code == 404


async def test_no_panel_has_a_whole_page_in_it(dashboard: Dashboard, browser: Browser) -> None:
    """Neither where a request is gone, nor where it may not be touched, nor after a session."""
    path = f"/dashboard/requests/{await browser.schedule()}"
    gone = await browser.client.get(f"{path[:-3]}aaa", headers=PANEL)
    await browser.store.changes.suspend(browser.account_id)
    form, headers = {"csrf": await browser.csrf()}, PANEL | {"origin": ORIGIN}
    refused = await browser.client.post(f"{path}/cancel", data=form, headers=headers)
    for answer, status in ((gone, 404), (refused, 403)):
        assert answer.status_code == status
        assert answer.text.lstrip().startswith("<article")
    stranger = await dashboard.browser().client.get(path, headers=PANEL)
    assert stranger.headers["hx-redirect"] == "/dashboard/sign-in"


async def test_an_attempt_that_failed_opens_as_that_attempt(browser: Browser) -> None:
    retried = await browser.schedule(-1000, retries=2)
    await browser.end(503, again_in_ms=3_600_000)
    [address] = re.findall(
        rf'href="([^"]+{retried}[^"]*attempt=1[^"]*)"', await browser.text("/requests")
    )
    panel = await browser.client.get(html.unescape(address), headers=PANEL)
    assert "<dt>Attempt</dt><dd>1</dd>" in panel.text
    assert "Service Unavailable" in panel.text
    assert "attempt=1" in panel.headers["hx-push-url"]
    [onward] = re.findall(r'<a href="([^"]+)"[^>]*>The request, and how', panel.text)
    assert "Reschedule" in (await browser.client.get(html.unescape(onward))).text


async def test_each_attempt_of_a_request_is_shown_in_order(browser: Browser) -> None:
    retried = await browser.schedule(-1000, retries=3)
    said = Answer("text/plain", b"come back later")
    await browser.end(503, again_in_ms=-1, phases=Phases(None, 5, None, 7))
    await browser.end(0, "Connection refused", again_in_ms=-1, phases=Phases(1, 2))
    path = f"/requests/{retried}"
    shown = await browser.text(path)
    assert _attempts(shown) == [("1", "503", "First byte"), ("2", "no answer", "Connect")]
    assert len(re.findall(r'<details class="attempt"[^>]* open>', shown)) == 1
    await browser.end(418, answer=said, phases=Phases(first_byte_ms=9))
    shown = await browser.text(path)
    assert [code for _, code, _ in _attempts(shown)] == ["503", "no answer", "418"]
    assert "come back later" in shown[shown.index("<h3>Attempts") :]
    assert _attempts(await browser.text(f"/requests/{await browser.execute(503)}")) == []
    ended = await browser.store.schedules.get(browser.account_id, retried)
    await redis_of(browser.store).delete(keys.schedule(browser.account_id, retried))
    forgotten = await browser.text(f"{path}?at={ended.ended_at_ms}")
    assert [code for _, code, _ in _attempts(forgotten)] == ["503", "no answer", "418"]
    base = keys.account(browser.account_id)
    await redis_of(browser.store).set(base + keys.SCANS, 2**52)
    refused = await browser.text(f"{path}?at={ended.ended_at_ms}")
    assert (_attempts(refused), "too much was searched" in refused) == ([], True)


def _attempts(text: str) -> list[tuple[str, str, str]]:
    """Of each its number, what was answered, and its last phase."""
    found = []
    for each in text.split('<details class="attempt"')[1:]:
        details = each.partition("</details>")[0]
        [(number, code)] = re.findall(r"<summary>(\d+) <b>([^<]+)</b>", details)
        found.append((number, code, re.findall(r'scope="row">([^<]+)', details)[-1]))
    return found


async def test_secrets_in_a_url_are_shown_nowhere(browser: Browser) -> None:
    ended = await browser.execute(url="https://example.com/?token=s3same")
    for path in ("", "/requests", f"/requests/{ended}"):
        text = await browser.text(path)
        assert ended in text
        assert "s3same" not in text, path


async def test_the_echo_answers_everybody_and_keeps_nothing(dashboard: Dashboard) -> None:
    post = dashboard.browser().client.post
    headers = {"content-type": "application/json"}
    answer = await post("/dashboard/echo", content=b'{"a":1}', headers=headers)
    assert (answer.status_code, answer.json()["bodyBytes"]) == (200, 7)
    assert (await post("/dashboard/echo", content=b"x" * 300_000)).status_code == 413


async def test_pages_are_packed_and_their_tokens_differ(browser: Browser) -> None:
    codings = ("gzip", "br")
    accepted = [{"accept-encoding": each} for each in ("gzip, deflate", ACCEPTED)]
    pages = [await browser.client.get("/dashboard/keys", headers=each) for each in accepted]
    assert tuple(each.headers["content-encoding"] for each in pages) == codings
    tokens = {re.findall(r'name="csrf" value="([^"]+)"', each.text)[0] for each in pages}
    assert len(tokens) == 2


async def test_what_would_turn_a_page_round_is_shown_as_it_is_written(browser: Browser) -> None:
    url, body, why = "https://example.com/\u202egpj.exe", '{"a":"\u2066b\u202e"}', "No \u202eway"
    failed = await browser.schedule(-1000, url, body.encode())
    said = Answer("text/\u202eplain", b"<script>no</script> \xe2\x80\xae")
    await browser.end(500, why, answer=said)
    retried = await browser.schedule(-1000, url)
    await browser.end(500, why, again_in_ms=60_000)
    rule = await made(browser, targetUrl=url, targetBody=body, name="")
    await browser.write(f"{rule}/run", once="run")
    await browser.end(500, why)
    query = LogQuery((LogStatus.FAILED,), recurring_id=rule.rpartition("/")[2])
    [occurrence] = (await browser.store.logs.page(browser.account_id, query)).entries
    panels = [f"/requests/{each}" for each in (occurrence.schedule_id, retried, failed)]
    searches = ["/jump?q=gpj", f"/requests?answer={quote(why)}"]
    for path in ("", "/requests", "/recurring", rule, f"{rule}/change", *searches, *panels):
        text = await browser.text(path)
        shown = without_fields(text)
        assert ("\u202e" in shown, r"\u202e" in shown) == (False, True), path
    assert "&lt;script&gt;no&lt;/script&gt;" in text
    assert "https://example.com/%E2%80%AEgpj.exe" in text  # for a shell, as it is sent
    # A field has it unchanged, also a hidden one.
    composer = await browser.text("/requests/new", like=failed)
    assert form_with(composer, "targetUrl")["targetUrl"] == url
    assert f'type="hidden" name="answer" value="{why}"' in await browser.text("")
