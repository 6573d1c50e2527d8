"""The pages, over HTTP: what they show, to whom, and what they refuse."""

from __future__ import annotations

import asyncio
import html
import re
import threading
from unittest.mock import AsyncMock
from urllib.parse import parse_qsl, urlsplit

import pytest

from api.dashboard.render import Page
from api.fair_queue import Payer
from benchmarks.support.history import Past, fill
from scheduler.errors import Damaged, OutcomeUnknown, StoreFull, StoreUnavailable, TooManyScans
from scheduler.masks import MASK
from scheduler.models import Outcome, Request, Status
from scheduler.qstash.carried import Carried, pack
from scheduler.store import keys
from tests.dashboard.conftest import ORIGIN, URL, Browser, Dashboard, once_of, tiles_of
from tests.dashboard.recurring.recurring import made
from tests.support.plain import redis_of
from tests.support.servers import in_days, until_async

UNKNOWN = "sch_" + "0" * 26
KEY = re.compile(r"pd_\d\d_[\w-]{43}")
PAGES = (
    *("", "/requests", "/recurring", "/lanes", "/lanes/a", "/keys", "/credits"),
    *("/account", "/members", "/history"),
)


async def test_every_answer_is_kept_nowhere_and_framed_by_nobody(browser: Browser) -> None:
    for path in ("", "/sign-in", "/nowhere", "/requests/closed"):
        headers = (await browser.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


async def test_things_of_others_are_not_there(dashboard: Dashboard, browser: Browser) -> None:
    bob = await dashboard.signed_in(await dashboard.account("bob"))
    key, _ = await browser.store.api_keys.create(bob.account_id, "bobs")
    waiting, rule = await bob.schedule(lane="bobs"), await made(bob, name="bobs")
    for path in (
        *(f"/requests/{waiting}", f"/keys/{key.key_id}/deactivate", f"/requests/{UNKNOWN}"),
        *(rule, f"{rule}/change"),
    ):
        assert (await browser.get(path)).status_code == 404
    assert (await browser.get("/recurring", q="bobs")).status_code == 400
    for path in (*PAGES, f"/requests?q={URL}"):
        text = await browser.text(path)
        assert (waiting in text, "bobs" in text) == (False, False), path


async def test_a_key_has_a_name_and_is_shown_once(browser: Browser) -> None:
    answer = await browser.write("/keys", name="  nightly   reports ")
    [value] = set(KEY.findall(answer.text))
    assert await browser.store.api_keys.admit(value) is not None
    listed = await browser.text("/keys")
    assert ("nightly reports" in listed, value in listed) == (True, False)
    for name in ("   ", "x" * 101):
        assert (await browser.write("/keys", name=name)).status_code == 400


async def test_secrets_are_rotated_once_and_that_is_said(browser: Browser) -> None:
    for number in range(2):
        for _ in range(2):  # a form that is sent twice
            done = await browser.write("/signing/rotate", keep_for="1h", once=f"{number}")
            assert (done.status_code, done.headers["location"]) == (303, "/dashboard/keys")
        assert "the earlier ones are good for 1h more" in await browser.text("/keys")
        assert len(await browser.store.signing.secrets(browser.account_id)) == 2 + number
    refused = await browser.write("/signing/rotate", keep_for="1h", once="third")
    assert (refused.status_code, 'role="alert"' in refused.text) == (409, True)


async def test_secrets_end_at_once_after_a_question(browser: Browser) -> None:
    [before] = await browser.store.signing.secrets(browser.account_id)
    asked = await browser.write("/signing/rotate", keep_for="0s", once="x")
    assert (asked.status_code, asked.headers["location"]) == (303, "/dashboard/signing/rotate")
    text = await browser.text_after(asked)
    assert await browser.store.signing.secrets(browser.account_id) == [before]
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', text.partition("<main")[2]))
    await browser.post("/signing/rotate", **fields)
    [after] = await browser.store.signing.secrets(browser.account_id)
    assert after.secret != before.secret


async def test_what_an_account_says_is_text_not_markup(browser: Browser) -> None:
    waiting = await browser.schedule(url="https://example.com/<script>alert(1)</script>")
    await browser.write("/keys", name="<img src=x>")
    evil = '/requests?q="><script>alert(1)</script>'
    for path in ("/requests", f"/requests/{waiting}", "/keys", evil):
        text = await browser.text(path)
        assert "<script>alert" not in text
        assert "<img src=x" not in text


async def test_a_schedule_is_shown_with_its_secrets_masked(browser: Browser) -> None:
    text = html.unescape(await browser.text(f"/requests/{await browser.schedule()}"))
    assert "s3cret" not in text
    assert "Authorization" in text
    assert "1.50" in text
    assert "curl --request POST 'https://example.com/hook?a=1&b=%3C2%3E'" in text


async def test_a_schedule_is_found_by_its_id(browser: Browser) -> None:
    waiting, ended = await browser.schedule(), await browser.execute()
    for wanted in (waiting, *(waiting.replace("sch_", kind) for kind in ("inv_", "msg_")), ended):
        answer = await browser.get("/requests", q=wanted)
        assert answer.headers["location"] == f"/dashboard/requests/sch_{wanted[4:]}"


async def test_a_message_says_its_id_and_shows_nothing_that_it_hides(browser: Browser) -> None:
    assert "QStash message" not in await browser.text(f"/requests/{await browser.schedule()}")
    headers = {"X-One": "one-of-it", "X-Two": "two-of-it"}
    for redacted in ("body", "body,header[X-One]"):
        door = pack(Carried(redacted=redacted))
        message = await browser.schedule(body=b"hush-hush", headers=headers, door=door)
        text = await browser.text(f"/requests/{message}")
        assert f'<dt>QStash message</dt><dd class="id">msg_{message[4:]}</dd>' in text
        assert "Its body, 9 B, is hidden" in text
        assert "hush-hush" not in text
        assert "As curl" not in text
        assert "two-of-it" in text
        assert ("one-of-it" in text, MASK in text) == ((True, False), (False, True))[
            "X" in redacted
        ]


async def test_cancelling_gives_the_credit_back_once(browser: Browser) -> None:
    waiting, ended = await browser.schedule(), await browser.execute()
    for _ in range(2):  # the answer to the first one may have been lost
        answer = await browser.write(f"/requests/{waiting}/cancel")
        assert answer.status_code == 303
        assert "its credit is yours again" in await browser.text_after(answer)
        assert "is yours again" not in await browser.text_after(answer), "it is said once"
    assert await browser.credits() == 99
    late = await browser.write(f"/requests/{ended}/cancel")
    assert (late.status_code, "completed already" in late.text) == (409, True)


async def test_a_time_is_changed_and_judged(browser: Browser) -> None:
    waiting, day = await browser.schedule(), f"{in_days(70):%Y-%m-%d}"
    answer = await browser.write(f"/requests/{waiting}/time", at=f"{day}T04:05:06.789")
    assert answer.status_code == 303
    assert f"{day} 04:05:06.789" in await browser.text(f"/requests/{waiting}")
    for at in ("", "soon", "1999-01-01T00:00", "2999-01-01T00:00"):
        answer = await browser.write(f"/requests/{waiting}/time", at=at)
        assert (answer.status_code, 'role="alert"' in answer.text) == (400, True)
    ended = await browser.execute()
    answer = await browser.write(f"/requests/{ended}/time", at=f"{day}T04:05")
    assert answer.status_code == 409


async def test_what_ended_runs_again_as_a_new_schedule(browser: Browser) -> None:
    ended, other = await browser.execute(), await browser.execute()
    once = once_of(await browser.text(f"/requests/{ended}"))
    for _ in range(2):  # a form that is sent twice
        answer = await browser.write(f"/requests/{ended}/again", once=once)
        assert answer.status_code == 303
    again = answer.headers["location"].split("/")[-1].partition("?")[0]
    assert again != ended
    before, after = await browser.kept(ended), await browser.kept(again)
    assert after.request.body == before.request.body
    assert after.request.headers == before.request.headers
    assert await browser.credits() == 97
    answer = await browser.write(f"/requests/{other}/again", once=once)
    assert answer.status_code == 303, "the same form of another request is another write"


async def test_the_overview_counts(browser: Browser) -> None:
    await browser.execute()
    await browser.execute(503)
    await browser.schedule()
    text = await browser.text("")
    assert tiles_of(text) == {
        "overdue": "0",
        "waiting": "1",
        "soon": "0",
        "fired": "2",
        "failed": "1",
        "lateness": "≤ 1 ms",
        "credits": "97",
    }
    for name in ("1h", "24h", "7d", "30d", "nonsense"):
        text = await browser.text("", range=name)
        [table] = re.findall(r'id="table-activity".*?</details>', text, re.DOTALL)
        rows = [each.split() for each in re.findall('data-values="([^"]+)"', table)]
        assert [sum(map(int, each)) for each in zip(*rows, strict=True)] == [1, 1, 1], name


async def test_failures_are_grouped_by_host_and_answer(browser: Browser) -> None:
    """A group's address has its period and its host: an older failure of its kind is not counted,
    nor listed, and one of a host with a longer name is in a group of its own."""
    two_days_ago_ms = browser.store.clock.now_ms() - 2 * 86_400_000
    outcome = Outcome(Status.FAILED, 503, 12, "Service Unavailable")
    before = Past(two_days_ago_ms, Request(two_days_ago_ms, "POST", URL), outcome, 0)
    await fill(browser.store, browser.account_id, iter([before]))
    failed = ["", *[await browser.execute(503) for _ in range(2)]]
    failed[0] = await browser.execute(503, url=URL.replace("example.com", "Example.com"))
    for longer in ("www.example.com", "example.com.test", "other.test/?of=https://example.com"):
        await browser.execute(503, url=f"https://{longer}/hook")
    text = await browser.text("")
    [address] = re.findall(r'href="(/dashboard/requests\?[^"]+)" aria-label="3 failures', text)
    found = (await browser.client.get(html.unescape(address))).text
    assert all(f'id="r-{each}"' in found for each in failed)
    assert found.count("data-row") == 3
    asked = await browser.write(
        "/requests/bulk",
        action="again",
        scope="matching",
        **dict(parse_qsl(urlsplit(html.unescape(address)).query)),
    )
    [facts] = re.findall(r'id="which">(.*?)</dl>', asked.text, re.DOTALL)
    assert "Run again 3 requests?" in asked.text
    told = r"<dd>3</dd>.*>from <time.* until <time.*<dt>Oldest</dt><dd><time"
    assert re.search(told, facts, re.DOTALL)


async def test_what_nobody_fires_is_overdue_and_late(browser: Browser, boss: Browser) -> None:
    await browser.execute()
    # The text for 73.5 hours stays the same for half an hour.
    await browser.schedule(-(73 * 3_600_000 + 1_800_000))
    text = await browser.text("")
    tiles = tiles_of(text)
    assert (tiles["overdue"], tiles["lateness"]) == ("1", "≤ 1 h")
    assert "the oldest for 3 d 1 h" in text
    assert "1 overdue, the oldest for 3 d 1 h" in await browser.text("/requests")
    assert tiles_of(await boss.text("/system"))["backlog"] == "3 d 1 h"


async def test_credits_tell_what_moved_and_what_was_spent(browser: Browser) -> None:
    for _ in range(3):
        waiting = await browser.schedule()
    await browser.cancel(waiting)
    text = await browser.text("/credits")
    assert re.search(r"\+100\s+−3\s+\+1\s+\+98", re.sub(r"<[^>]+>", " ", text))  # noqa: RUF001
    spent = re.findall(r'id="spent-(\w+)">(\d+)<', text)
    assert spent == [("today", "2"), ("week", "2"), ("month", "2")]
    assert re.search(r"enough for \d\d days at this rate", text)


async def test_a_quota_that_is_almost_used_up_is_told_in_red(browser: Browser) -> None:
    await browser.schedule()
    text = await browser.text("/credits")
    assert "of 64.0 MiB, 0.0 %" in text
    stored = keys.account(browser.account_id) + keys.ACCOUNT
    await redis_of(browser.store).hincrby(stored, "bytes", 63 * 2**20)
    assert "refused with 413" in await browser.text("/credits")


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (StoreUnavailable("10.0.0.1 is away"), 503, "does not answer right now"),
        (StoreFull("10.0.0.1 is full"), 503, "The store is full"),
        (OutcomeUnknown("10.0.0.1 was lost"), 503, "may or may not have been done"),
        (TooManyScans(3000), 429, "Too much was searched; try again in 3 s."),
        (Damaged(UNKNOWN), 500, f"The stored schedule {UNKNOWN} is damaged"),
        (RuntimeError("10.0.0.1"), 500, "written to the log"),
    ],
)
async def test_a_fault_of_ours_is_told_in_a_sentence_that_reveals_nothing(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, words: str
) -> None:
    monkeypatch.setattr(browser.store.sessions, "find", AsyncMock(side_effect=error))
    answer = await browser.post("/zone")
    assert (answer.status_code, words in answer.text) == (status, True)
    assert "10.0.0.1" not in answer.text


async def test_a_form_that_cannot_be_read_is_refused(browser: Browser) -> None:
    for body, status in ((b"name=%ff", 400), (b"a=1&" * 1200, 400), (b"x" * 70_000, 413)):
        headers = {"origin": ORIGIN}
        answer = await browser.client.post("/dashboard/keys", content=body, headers=headers)
        assert answer.status_code == status


async def test_who_has_no_credits_is_told_how_to_get_some(dashboard: Dashboard) -> None:
    bare = await dashboard.signed_in(await dashboard.account("poor", credits=0))
    command = f"postdate account grant {bare.account_id} 1000"
    for path in ("", "/requests/new", "/credits"):
        assert command in await bare.text(path), path
    form = {"targetUrl": URL, "targetMethod": "GET", "delay": "1h", "targetBody": "", "once": "x"}
    refused = await bare.write("/requests/new", **form)
    assert (refused.status_code, command in refused.text) == (402, True)
    assert html.escape(URL) in refused.text, "the written text survives"


async def test_what_a_page_takes_is_charged_to_its_account(
    dashboard: Dashboard, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Page, "_rendered", lambda page: (b"", 5.0))
    assert (await browser.get("/account")).status_code == 200
    turns = dashboard.app.state.service.turns
    assert turns.must_wait(Payer(browser.account_id))


class Slow:
    """Pages that are rendered once they may end, and then take five seconds of their turn."""

    def __init__(self) -> None:
        self.may_end, self.begun, self.ended = threading.Event(), list[str](), 0

    def rendered(self, page: Page) -> tuple[bytes, float]:
        assert len(self.begun) == self.ended, "one is rendered at a time"
        self.begun.append(page.account_id)
        assert self.may_end.wait(30)
        self.ended += 1
        return b"", 5.0


async def test_the_loop_goes_on_while_pages_are_rendered_one_at_a_time(
    dashboard: Dashboard, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is given up keeps its turn until its thread ends, and is charged."""
    slow = Slow()
    monkeypatch.setattr(Page, "_rendered", lambda page: slow.rendered(page))
    given_up = asyncio.create_task(browser.get("/account"))
    await until_async(lambda: slow.begun, "the first page")
    given_up.cancel()
    other = dashboard.browser(await dashboard.account("bob"))
    others = [asyncio.create_task(other.get("/sign-in")) for _ in range(2)]
    assert (await browser.client.get("/healthz")).status_code == 200
    assert len(slow.begun) == 1
    slow.may_end.set()
    assert [each.status_code for each in await asyncio.gather(*others)] == [200, 200]
    assert (given_up.cancelled(), slow.ended) == (True, 3)
    assert dashboard.app.state.service.turns.must_wait(Payer(browser.account_id))
