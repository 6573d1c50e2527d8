"""The pages, over HTTP: what they show, to whom, and what they refuse."""

from __future__ import annotations

import html
import json
import re

import msgspec
import pytest

from scheduler.models import Account, Answer, Outcome, Phases, Plan, Request, Status
from scheduler.store import keys
from scheduler.store.lifecycle.end_rows import Ack
from scheduler.store.lifecycle.schedules import Schedules
from tests.dashboard.conftest import ORIGIN, Browser, Dashboard
from tests.plain import redis_of
from tests.servers import in_days

URL = "https://example.com/hook?a=1&b=<2>"
UNKNOWN = "sch_" + "0" * 26
KEY = re.compile(r"pd_\d\d_[\w-]{43}")
PAGES = ("", "/requests", "/keys", "/credits", "/account")


def tiles_of(text: str) -> dict[str, str]:
    return dict(re.findall(r'id="tile-(\w+)">([^<]*)<', text))


async def schedule(
    dashboard: Dashboard,
    account: Account,
    due_in_ms: int = 3_600_000,
    url: str = URL,
    retries: int = 0,
) -> str:
    due_ms = dashboard.store.clock.now_ms() + due_in_ms
    headers = {"Authorization": "Bearer s3cret"}
    request = Request(due_ms, "POST", url, headers, b'{"n":1.50}', retries=retries)
    return await dashboard.store.schedules.create(account.account_id, request)


async def execute(
    dashboard: Dashboard,
    account: Account,
    status: int = 200,
    url: str = URL,
    answer: Answer | None = None,
    phases: Phases | None = None,
) -> str:
    """A schedule that was due, and was answered so."""
    schedule_id = await schedule(dashboard, account, -1000, url)
    shard = int(account.account_id.split("_")[1])
    batch = await dashboard.store.claims.claim(shard, lease_ms=15_000, most=10)
    kind = Status.COMPLETED if status == 200 else Status.FAILED
    message = "" if status == 200 else "Service Unavailable"
    outcome = Outcome(kind, status, 12, message, answer=answer, phases=phases)
    await dashboard.store.ends.ack(shard, [Ack(batch.invocations[0], outcome, 0)])
    return schedule_id


async def fail_an_attempt(
    dashboard: Dashboard,
    account: Account,
    answer: Answer | None = None,
    phases: Phases | None = None,
) -> None:
    """Due schedules got a 503, and their retry is due in an hour."""
    shard = int(account.account_id.split("_")[1])
    batch = await dashboard.store.claims.claim(shard, lease_ms=15_000, most=10)
    outcome = Outcome(Status.FAILED, 503, 12, "Service Unavailable", "", answer, phases)
    again_ms = dashboard.store.clock.now_ms() + 3_600_000
    await dashboard.store.ends.ack(shard, [Ack(batch.invocations[0], outcome, 0, again_ms)])


async def test_every_answer_is_kept_nowhere_and_framed_by_nobody(browser: Browser) -> None:
    for path in (*PAGES, "/sign-in", "/nowhere", "/requests/closed"):
        headers = (await browser.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


async def test_pages_have_nothing_inline_and_nothing_from_elsewhere(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    await execute(dashboard, ada)
    for path in PAGES:
        text = (await browser.get(path)).text
        assert "<style" not in text
        assert not re.search(r"<script(?![^>]* src=\"/dashboard/static/)", text)
        assert not re.search(r"\son\w+=|\sstyle=|javascript:", text)
        assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", text)


async def test_assets_are_packed_and_kept_for_long(browser: Browser) -> None:
    text = (await browser.get("")).text
    assets = re.findall(r'(?:src|href)="/dashboard(/static/[^"]+)"', text)
    assert len(assets) >= 5
    for asset in assets:
        answer = await browser.client.get("/dashboard" + html.unescape(asset))
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-encoding"] == "gzip"
    for name in ("htmx.LICENSE.txt", "idiomorph.LICENSE.txt"):
        assert (await browser.get(f"/static/{name}")).status_code == 200
    for name in ("nothing.js", "..%2Froutes.py", ""):
        assert (await browser.get(f"/static/{name}")).status_code == 404


async def test_an_unknown_page_is_told_in_a_page(dashboard: Dashboard, browser: Browser) -> None:
    answer = await browser.get("/no/such/page")
    assert (answer.status_code, "no such page" in answer.text) == (404, True)
    assert "/dashboard/requests" in answer.text  # the menu
    stranger = await dashboard.browser().get("/no/such/page")
    assert (stranger.status_code, "/dashboard/requests" in stranger.text) == (404, False)
    assert answer.headers["content-type"].startswith("text/html")


async def test_another_accounts_things_are_not_there(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    bob = await dashboard.account("bob")
    key, _ = await dashboard.store.api_keys.create(bob.account_id, "bobs")
    waiting = await schedule(dashboard, bob)
    for path in (
        f"/requests/{waiting}",
        f"/keys/{key.key_id}/deactivate",
        f"/requests/{UNKNOWN}",
    ):
        assert (await browser.get(path)).status_code == 404
    for path in (*PAGES, f"/requests?q={waiting}", f"/requests?q={URL}"):
        text = (await browser.get(path)).text
        assert waiting not in text.replace(f'value="{waiting}"', "")
        assert "bobs" not in text


@pytest.mark.parametrize("unknown", [UNKNOWN, "sch_0" + "z" * 25, "sch_7" + "z" * 25])
async def test_an_id_of_an_absurd_moment_is_not_there(
    dashboard: Dashboard, browser: Browser, unknown: str
) -> None:
    found = await browser.get("/requests", q=unknown)
    assert (await browser.client.get(found.headers["location"])).status_code == 404
    for act in ("cancel", "time", "again"):
        answer = await browser.write(f"/requests/{unknown}/{act}", at="2030-01-01T00:00")
        assert answer.status_code == 404


async def test_a_key_is_shown_once(dashboard: Dashboard, ada: Account, browser: Browser) -> None:
    answer = await browser.write("/keys", name="  nightly   reports ")
    [value] = set(KEY.findall(answer.text))
    caller = await dashboard.store.api_keys.admit(value)
    assert caller is not None
    assert caller.account_id == ada.account_id
    for path in PAGES:
        assert value not in (await browser.get(path)).text
    listed = (await browser.get("/keys")).text
    assert "nightly reports" in listed
    assert value[:12] in listed


@pytest.mark.parametrize("name", ["", "   ", "x" * 101])
async def test_a_key_needs_a_name(
    dashboard: Dashboard, ada: Account, browser: Browser, name: str
) -> None:
    assert (await browser.write("/keys", name=name)).status_code == 400
    assert await dashboard.store.api_keys.of_account(ada.account_id) == []


async def test_a_key_is_deactivated_after_a_question(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    key, value = await dashboard.store.api_keys.create(ada.account_id, "old")
    asked = await browser.get(f"/keys/{key.key_id}/deactivate")
    assert "Deactivate “<bdi>old</bdi>”?" in asked.text
    assert await dashboard.store.api_keys.admit(value) is not None
    await browser.write(f"/keys/{key.key_id}/deactivate")
    assert await dashboard.store.api_keys.admit(value) is None
    assert "inactive" in (await browser.get("/keys")).text


async def test_secrets_are_rotated_once_and_that_is_said(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    """To a page without a place on it: a browser that is there already would stay as it is."""
    for number in range(2):
        for _ in range(2):  # a form that is sent twice
            done = await browser.write("/signing/rotate", keep_for="1h", once=f"{number}")
            assert (done.status_code, done.headers["location"]) == (303, "/dashboard/keys")
        assert "the earlier ones are good for 1h more" in (await browser.get("/keys")).text
        assert len(await dashboard.store.signing.secrets(ada.account_id)) == 2 + number
    refused = await browser.write("/signing/rotate", keep_for="1h", once="third")
    assert refused.status_code == 409
    assert "Signing secrets" in refused.text, "it is told where it was asked for"
    assert 'role="alert"' in refused.text


async def test_secrets_end_at_once_after_a_question(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    """Targets that know no other one refuse every request from then on."""
    [before] = await dashboard.store.signing.secrets(ada.account_id)
    asked = await browser.write("/signing/rotate", keep_for="0s", once="x")
    assert (asked.status_code, asked.headers["location"]) == (303, "/dashboard/signing/rotate")
    text = (await browser.client.get(asked.headers["location"])).text
    assert before.secret_id in text
    assert await dashboard.store.signing.secrets(ada.account_id) == [before]
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', text.partition("<main")[2]))
    for _ in range(2):  # a form that is sent twice
        done = await browser.post("/signing/rotate", **fields)
        assert (done.status_code, done.headers["location"]) == (303, "/dashboard/keys")
    [after] = await dashboard.store.signing.secrets(ada.account_id)
    assert after.secret != before.secret
    assert "the earlier ones are no longer good" in (await browser.get("/keys")).text


async def test_what_an_account_says_is_text_not_markup(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    evil = "https://example.com/<script>alert(1)</script>"
    waiting = await schedule(dashboard, ada, url=evil)
    await browser.write("/keys", name="<img src=x>")
    for path in ("/requests", f"/requests/{waiting}", "/keys"):
        text = (await browser.get(path)).text
        assert "<script>alert" not in text
        assert "<img src=x" not in text
    shown = (await browser.get("/requests", q='"><script>alert(1)</script>')).text
    assert "<script>alert" not in shown


async def test_a_schedule_is_shown_with_its_secrets_masked(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    waiting = await schedule(dashboard, ada)
    for path in (f"/requests/{waiting}",):
        text = html.unescape((await browser.get(path)).text)
        assert "s3cret" not in text
        assert "Authorization" in text
        assert "1.50" in text
        assert "curl --request POST 'https://example.com/hook?a=1&b=<2>'" in text


async def test_a_body_with_half_a_surrogate_pair_is_shown_as_it_is(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    request = Request(dashboard.store.clock.now_ms() + 3_600_000, "POST", URL)
    request = msgspec.structs.replace(request, body=rb'{"a":"\ud800"}')
    waiting = await dashboard.store.schedules.create(ada.account_id, request)
    answer = await browser.get(f"/requests/{waiting}")
    assert answer.status_code == 200
    assert r'{"a":"\ud800"}' in html.unescape(answer.text)


async def test_a_schedule_is_found_by_id_and_by_a_part_of_its_url(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    waiting = await schedule(dashboard, ada)
    ended = await execute(dashboard, ada)
    for wanted in (waiting, waiting.replace("sch_", "inv_"), ended):
        answer = await browser.get("/requests", q=wanted)
        assert answer.headers["location"] == "/dashboard/requests/" + wanted.replace("inv", "sch")
    assert waiting in (await browser.get("/requests", q="hook?a")).text
    assert waiting not in (await browser.get("/requests", q="nothing like it")).text


async def test_cancelling_gives_the_credit_back_once(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    waiting = await schedule(dashboard, ada)
    answer = await browser.write(f"/requests/{waiting}/cancel")
    assert answer.status_code == 303
    shown = await browser.client.get(answer.headers["location"])
    assert "its credit is yours again" in shown.text
    again = await browser.client.get(answer.headers["location"])
    assert "is yours again" not in again.text, "it is said once"
    # The answer to the first one may have been lost.
    assert (await browser.write(f"/requests/{waiting}/cancel")).status_code == 303
    assert await dashboard.store.accounts.credits(ada.account_id) == 100
    ended = await execute(dashboard, ada)
    late = await browser.write(f"/requests/{ended}/cancel")
    assert (late.status_code, "completed already" in late.text) == (409, True)


async def test_what_an_address_says_is_not_believed(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    waiting = await schedule(dashboard, ada)
    shown = (await browser.get(f"/requests/{waiting}", note="cancelled", said="Cancelled")).text
    assert 'role="status">C' not in shown


async def test_a_time_is_changed_and_judged(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    waiting, day = await schedule(dashboard, ada), f"{in_days(70):%Y-%m-%d}"
    answer = await browser.write(f"/requests/{waiting}/time", at=f"{day}T04:05:06.789")
    assert answer.status_code == 303
    text = (await browser.get(f"/requests/{waiting}")).text
    assert f"{day} 04:05:06.789" in text
    for at in ("", "soon", "1999-01-01T00:00", "2999-01-01T00:00"):
        answer = await browser.write(f"/requests/{waiting}/time", at=at)
        assert (answer.status_code, 'role="alert"' in answer.text) == (400, True)
    ended = await execute(dashboard, ada)
    answer = await browser.write(f"/requests/{ended}/time", at=f"{day}T04:05")
    assert answer.status_code == 409


async def test_what_ended_runs_again_as_a_new_schedule(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    ended = await execute(dashboard, ada)
    text = (await browser.get(f"/requests/{ended}")).text
    assert "for one credit" in text
    [once] = re.findall(r'name="once" value="([^"]+)"', text)
    for _ in range(2):  # a form that is sent twice
        answer = await browser.write(f"/requests/{ended}/again", once=once)
        assert answer.status_code == 303
    again = answer.headers["location"].split("/")[-1].partition("?")[0]
    assert again != ended
    schedules: Schedules = dashboard.store.schedules
    before, after = [await schedules.get(ada.account_id, each) for each in (ended, again)]
    assert after.request.body == before.request.body
    assert after.request.headers == before.request.headers
    assert after.status is Status.SCHEDULED
    assert await dashboard.store.accounts.credits(ada.account_id) == 98
    other = await execute(dashboard, ada)
    answer = await browser.write(f"/requests/{other}/again", once=once)
    assert answer.status_code == 303, "the same form of another request is another write"


async def test_without_credits_nothing_runs_again(dashboard: Dashboard) -> None:
    bob = await dashboard.account("bob", credits=1)
    browser = await dashboard.signed_in(bob)
    ended = await execute(dashboard, bob)
    assert (await browser.write(f"/requests/{ended}/again", once="x")).status_code == 402


async def test_empty_pages_teach(browser: Browser) -> None:
    for path in ("", "/requests"):
        text = html.unescape((await browser.get(path)).text)
        assert f"curl {ORIGIN}/schedule" in text
        assert "x-api-key: <API_KEY>" in text
        line = re.search(r"--data '(\{.*?\}\n?.*?\})'", text, re.DOTALL)
        assert line is not None
        assert json.loads(line[1])["targetUrl"] == f"{ORIGIN}/dashboard/echo"
        assert "<svg" not in text, "no axes without anything on them"


async def test_the_overview_counts(dashboard: Dashboard, ada: Account, browser: Browser) -> None:
    await execute(dashboard, ada)
    await execute(dashboard, ada, 503)
    await schedule(dashboard, ada)
    text = (await browser.get("")).text
    assert tiles_of(text) == {
        "overdue": "0",
        "waiting": "1",
        "soon": "0",
        "fired": "2",
        "failed": "1",
        "lateness": "≤ 1 ms",
        "credits": "97",
    }
    assert re.search(r'class="alarm"><dt>Failed', text), "half of them is too many"
    for name in ("1h", "24h", "7d", "30d", "nonsense"):
        text = (await browser.get("", range=name)).text
        [table] = re.findall(r'id="table-activity".*?</details>', text, re.DOTALL)
        rows = re.findall(r"<tr><td>([^<]+)</td>" + r'<td class="n">(\d+)</td>' * 3, table)
        assert [sum(int(row[i]) for row in rows) for i in (1, 2, 3)] == [1, 1, 1], name


async def test_failures_are_grouped_by_host_and_answer(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    failed = [await execute(dashboard, ada, 503) for _ in range(3)]
    await execute(dashboard, ada)
    text = (await browser.get("")).text
    [address] = re.findall(r'href="(/dashboard/requests\?[^"]+)" aria-label="3 failures', text)
    found = (await browser.client.get(html.unescape(address))).text
    assert all(f'id="r-{each}"' in found for each in failed)
    assert found.count("data-row") == 3


async def test_what_nobody_fires_is_overdue_and_late(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    """Though all that was sent went out in time."""
    await execute(dashboard, ada)
    # The text for 73.5 hours stays the same for half an hour.
    await schedule(dashboard, ada, -(73 * 3_600_000 + 1_800_000))
    text = (await browser.get("")).text
    tiles = tiles_of(text)
    assert (tiles["overdue"], tiles["lateness"]) == ("1", "≤ 1 h")
    assert "the oldest for 3 d 1 h" in text
    assert "1 overdue, the oldest for 3 d 1 h" in (await browser.get("/requests")).text
    boss = await dashboard.signed_in(await dashboard.account("boss", operator=True))
    system = (await boss.get("/system")).text
    assert tiles_of(system)["backlog"] == "3 d 1 h"
    assert "due schedules are claimed at once" not in system


async def test_a_worker_that_is_gone_stays_listed_as_lost(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.dashboard.system._GOOD_FOR_S", 0.0)
    boss = await dashboard.signed_in(await dashboard.account("boss", operator=True))
    says = {"host": "quiet", "pid": 1, "inFlight": 0, "concurrency": 1, "fired": 0}
    await dashboard.store.workers.beat("w", says)
    assert "No worker is alive" not in (await boss.get("/system")).text
    heard_ms = dashboard.store.clock.now_ms() - 20_000
    stored = b"%d " % heard_ms + json.dumps(says).encode()
    await redis_of(dashboard.store).hset(keys.WORKERS, "w", stored)
    text = (await boss.get("/system")).text
    assert "No worker is alive" in text
    assert re.search(r"quiet.*?lost.*?20 s ago", text, re.DOTALL)
    assert '<div class="alarm"><dt>Workers alive' in text
    await dashboard.store.workers.beat("another", says)
    text = (await boss.get("/system")).text
    assert '<div class="warning"><dt>Workers alive' in text, "what is due is fired again"


async def test_credits_tell_what_moved(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    waiting = await schedule(dashboard, ada)
    await schedule(dashboard, ada)
    await dashboard.store.canceller.cancel(ada.account_id, waiting)
    text = re.sub(r"<[^>]+>", " ", (await browser.get("/credits")).text)
    assert re.search(r"\+100\s+−2\s+\+1\s+\+99", text)  # noqa: RUF001


async def test_every_page_has_a_title_of_its_own(dashboard: Dashboard) -> None:
    boss = await dashboard.signed_in(await dashboard.account("boss", operator=True))
    pages = ("", "/requests", "/requests/new", "/keys", "/credits", "/account", "/system", "/none")
    texts = [(await boss.get(path)).text for path in pages]
    titles = {title for text in texts for title in re.findall(r"<title>([^<]+)<", text)}
    assert len(titles) == len(pages), titles


async def test_a_quota_that_is_almost_used_up_is_told_in_red(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    await schedule(dashboard, ada)
    text = (await browser.get("/credits")).text
    assert 'class="meter "' in text
    assert "of 64.0 MiB, 0.0 %" in text
    stored = keys.account(ada.account_id) + keys.ACCOUNT
    await redis_of(dashboard.store).hincrby(stored, "bytes", 63 * 2**20)
    text = (await browser.get("/credits")).text
    assert 'class="meter alarm"' in text
    assert "refused with 413" in text
    await dashboard.store.changes.plan(ada.account_id, Plan.UNLIMITED)
    assert "has no limit" in (await browser.get("/credits")).text


async def test_a_full_store_says_that_it_is_full(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    """Nothing answers late and nothing is lost, so that "try again soon" would lead nowhere."""
    await redis_of(dashboard.store).config_set("maxmemory", "1")
    try:
        answer = await browser.write("/keys", name="one more")
    finally:
        await redis_of(dashboard.store).config_set("maxmemory", "0")
    assert (answer.status_code, "No room left" in answer.text) == (503, True)
    assert "The store is full" in answer.text


async def test_what_was_spent_is_told_by_day_week_and_month(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    for _ in range(3):
        waiting = await schedule(dashboard, ada)
    await dashboard.store.canceller.cancel(ada.account_id, waiting)
    text = (await browser.get("/credits")).text
    assert re.findall(r'id="spent-(\w+)">(\d+)<', text) == [
        ("today", "2"),
        ("week", "2"),
        ("month", "2"),
    ]
    assert re.search(r'<td class="n">3</td>', text)


async def test_the_system_is_for_operators(dashboard: Dashboard, browser: Browser) -> None:
    assert (await browser.get("/system")).status_code == 404
    assert "/dashboard/system" not in (await browser.get("")).text
    boss = await dashboard.signed_in(await dashboard.account("boss", operator=True))
    await dashboard.store.workers.beat(
        "w", {"host": "h", "pid": 1, "inFlight": 2, "concurrency": 4096, "fired": 3}
    )
    text = (await boss.get("/system")).text
    assert "2 of 4,096" in text
    for name in ("ada", "boss", "Valkey"):
        assert name in text
    assert "Put on hold" not in text


async def test_operators_see_since_when_workers_are_lost(dashboard: Dashboard) -> None:
    """Live workers drop one that was lost an hour ago; without live workers it stays."""
    boss = await dashboard.signed_in(await dashboard.account("boss", operator=True))
    says = json.dumps({"host": "h", "pid": 1, "inFlight": 0, "concurrency": 1, "fired": 3})
    heard_ms = dashboard.store.clock.now_ms() - 5 * 3_600_000 - 60_000
    await redis_of(dashboard.store).hset(keys.WORKERS, "w", f"{heard_ms} {says}")
    text = (await boss.get("/system")).text
    assert "1 lost, the last one 5 h ago" in text
    assert "in the last hour" not in text


async def test_operators_see_a_hold(dashboard: Dashboard) -> None:
    boss = await dashboard.signed_in(await dashboard.account("boss", operator=True))
    await dashboard.store.hold.begin()
    assert "Put on hold" in (await boss.get("/system")).text


async def test_operators_see_a_hold_that_only_some_shards_have(dashboard: Dashboard) -> None:
    boss = await dashboard.signed_in(await dashboard.account("boss", operator=True))
    await dashboard.store.hold.begin()
    await redis_of(dashboard.store).delete(keys.shard(0) + keys.HOLD)
    count = dashboard.store.shards.count
    text = (await boss.get("/system")).text
    assert f"{count - 1} of {count} shards were put on hold" in text
    assert "nothing is claimed from them" in text


async def test_operators_find_accounts_and_see_what_they_did(
    dashboard: Dashboard, ada: Account
) -> None:
    boss = await dashboard.signed_in(await dashboard.account("boss", operator=True))
    await execute(dashboard, ada)
    await execute(dashboard, ada, 503)
    await schedule(dashboard, ada, -90_000)
    for wanted in ("ada", "AD", "ada@example", ada.account_id[-5:]):
        text = (await boss.get("/system", q=wanted)).text
        table = text[text.index('id="accounts"') :]
        assert ada.account_id in table
        assert "boss" not in table
        row = re.sub(r"<[^>]+>", " ", table[table.index("<tbody>") :])
        assert re.search(r"free\s+2\s+1 failed\s+3\s+100\s+3\s+97", row), row
    # The hour before this one and this one, as every cell of theirs says.
    assert len(re.findall(r"(?:Fired|Created) since \d\d:00", table)) == 4
    assert "No account is like that" in (await boss.get("/system", q="nobody")).text
    tiles = tiles_of(text)
    assert (tiles["overdue"], tiles["workers"]) == ("1", "0 of 0")
    news = await boss.client.get("/dashboard/system", headers={"hx-request": "true"})
    assert "<html" not in news.text
    assert ada.account_id not in news.text


async def test_operators_grant_credits_once(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    boss = await dashboard.signed_in(await dashboard.account("boss", operator=True))
    [once] = set(re.findall(r'name="once" value="([^"]+)"', (await boss.get("/system")).text))
    for _ in range(2):  # a form that is sent twice
        form = {"account": ada.account_id, "credits": "7", "once": once}
        answer = await boss.write("/system/grant", **form)
        # Browsers do not load a page anew for what stands behind a "#".
        assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/system")
    text = (await boss.get("/system")).text
    assert "7 credits granted to ada: 107 are left" in text
    [another] = set(re.findall(r'name="once" value="([^"]+)"', text))
    assert another != once
    assert await dashboard.store.accounts.credits(ada.account_id) == 107
    for credits in ("", "0", "-5", "1.5", "١٢", "9" * 14):
        form = {"account": ada.account_id, "credits": credits, "once": once}
        assert (await boss.write("/system/grant", **form)).status_code == 400
    form = {"account": ada.account_id, "credits": "7", "once": "x" * 16}
    assert (await browser.write("/system/grant", **form)).status_code == 404
    assert await dashboard.store.accounts.credits(ada.account_id) == 107
    assert await dashboard.store.check() == []


async def test_a_store_that_is_away_is_told_in_a_sentence(
    dashboard: Dashboard, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scheduler.errors import StoreUnavailable

    async def away(secret: str) -> None:
        raise StoreUnavailable("10.0.0.1:6379 is away")

    monkeypatch.setattr(dashboard.store.sessions, "find", away)
    answer = await browser.get("")
    assert (answer.status_code, "10.0.0.1" in answer.text) == (503, False)


async def test_a_form_that_cannot_be_read_is_refused(browser: Browser) -> None:
    for body in (b"\xff", b"name=%ff", b"a=1&" * 60):
        answer = await browser.client.post(
            "/dashboard/keys", content=body, headers={"origin": ORIGIN}
        )
        assert answer.status_code in (400, 403)
    answer = await browser.client.post(
        "/dashboard/keys", content=b"x" * 70_000, headers={"origin": ORIGIN}
    )
    assert answer.status_code == 413


async def test_what_was_cancelled_with_a_body_cannot_be_run_again(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    cancelled = await schedule(dashboard, ada)
    await dashboard.store.canceller.cancel(ada.account_id, cancelled)
    page = await browser.get(f"/requests/{cancelled}")
    assert "Its body was not kept when it was cancelled." in page.text
    assert "/again" not in page.text
    answer = await browser.write(f"/requests/{cancelled}/again", once="x")
    assert answer.status_code == 409
    assert re.search(r'role="alert">[^<]*not kept', answer.text)


async def test_who_has_no_credits_is_told_how_to_get_some_before_scheduling(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    poor = await dashboard.account("poor", credits=0)
    bare = await dashboard.signed_in(poor)
    command = f"postdate account grant {poor.account_id} 1000"
    for path in ("", "/requests", "/requests/new", "/credits"):
        text = (await bare.get(path)).text
        assert "This account has no credits." in text, path
        assert command in text, path
        assert "/dashboard/system" not in text, path
        assert "no credits" not in (await browser.get(path)).text, path
    assert "how to get some" in (await bare.get("")).text
    # The written text survives.
    form = {"url": URL, "method": "GET", "delay": "1h", "body": "", "once": "x"}
    refused = await bare.write("/requests/new", **form)
    assert refused.status_code == 402
    assert command in refused.text
    assert html.escape(URL) in refused.text
    await dashboard.store.accounts.grant(poor.account_id, 1)
    assert (await bare.write("/requests/new", **form)).status_code in (200, 303)
    assert "This account has no credits left." in (await bare.get("/requests/new")).text
    boss = await dashboard.signed_in(await dashboard.account("boss", credits=0, operator=True))
    assert "As an operator you grant them under" in (await boss.get("/requests/new")).text
