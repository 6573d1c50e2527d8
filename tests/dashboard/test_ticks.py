"""What a live update sends: pieces that the browser lacks, which it puts together to the whole."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from api.dashboard import fragments
from api.dashboard.shared import Shared
from benchmarks.support.history import Past, fill
from scheduler.models import Outcome, Request, Status
from scheduler.store.lifecycle.end.end_rows import Ack
from tests.dashboard.conftest import Browser, Dashboard
from tests.dashboard.recurring.recurring import made

_MOST_BYTES = 5000
_KEY, _TOKENS = "k" * 43, ("token-one", "token-two")
_MARK = re.compile(r"<!--(?:new ([\w-]{8})|old (\d+) (\d+)|end)-->")
_HX = {"hx-request": "true", "hx-target": "div#live"}
LIVE = (
    *("", "?range=24h", "?range=30d", "/requests", "/requests?when=1h", "/requests?status=failed"),
    *("/requests?status=scheduled", "/recurring", "/lanes", "/lanes/l-1", "/system"),
)
FAILURES = [(0, "Timeout after 5 s"), (503, "Service Unavailable"), (500, "Internal Server Error")]


class Kept(NamedTuple):
    """What a browser has: each piece by its name, and all of the text."""

    pieces: dict[str, str]
    text: str

    @property
    def header(self) -> dict[str, str]:
        return {"postdate-has": "".join(self.pieces) or "-"}


def put_together(text: str, had: Kept) -> Kept:
    """As `static/pieces.js` does."""
    before, *parts = _MARK.split(text)
    names, found, whole = list(had.pieces), dict[str, str](), before
    for name, first, last, after in zip(*(parts[n::4] for n in range(4)), strict=True):
        if name:
            found[name] = after
        old = names[int(first) : int(last) + 1] if first else []
        found |= {each: had.pieces[each] for each in old}
        whole += "".join(had.pieces[each] for each in old) + after
    return Kept(found, whole)


NOTHING = Kept({}, "")


def table(dice: random.Random, rows: list[int]) -> str:
    return f"<h2>{dice.random()}</h2><table>" + "".join(
        f'<tr id="{row}"><td>{row} {dice.choice(_TOKENS)}</td></tr>' for row in rows
    )


def test_pieces_come_together_to_the_whole_whatever_changed() -> None:
    dice = random.Random(3)
    rows = list(range(40))
    kept = NOTHING
    for number in range(200):
        dice.shuffle(rows) if number % 10 == 0 else rows.insert(dice.randrange(40), number)
        del rows[dice.randrange(10) :: 12]
        text = table(dice, rows)
        if number % 7 == 0:  # a page that is loaded anew
            kept = put_together(fragments.marked(text, _KEY, _TOKENS), NOTHING)
        else:
            sent = fragments.news(text, _KEY, _TOKENS, list(kept.pieces))
            kept = put_together(sent, kept)
        for token in _TOKENS:  # those of an earlier answer are as good
            text, kept = text.replace(token, ""), kept._replace(text=kept.text.replace(token, ""))
        assert kept.text == text


def test_a_name_is_of_the_text_and_the_session_and_of_no_token_that_is_new_each_time() -> None:
    def names(text: str, key: str, tokens: tuple[str, ...]) -> list[str]:
        return list(put_together(fragments.marked(text, key, tokens), NOTHING).pieces)

    text = '<dl >x one</dl><tr id="a">one two</tr>'
    first = names(text, _KEY, ("one", "two"))
    assert first == names(text.replace("one", "1").replace("two", "2"), _KEY, ("1", "2"))
    assert not set(first) & set(names(text, "other", ("one", "two")))
    assert len(set(first) & set(names(text.replace("x", "y"), _KEY, ("one", "two")))) == 2


def test_names_are_bounded_and_others_are_no_names() -> None:
    many = "".join(f'<tr id="{n}">' for n in range(1000))
    kept = put_together(fragments.marked(many, _KEY, ()), NOTHING)
    assert (len(kept.pieces), kept.text) == (fragments.MOST_PIECES, many)
    assert fragments.names_of(kept.header["postdate-has"]) == list(kept.pieces)
    assert fragments.names_of("-") == []
    for bad in (None, "", "abc", "a" * 8 * (fragments.MOST_PIECES + 1), "ä" * 8, "<" * 8):
        assert fragments.names_of(bad) is None


def _past(count: int, now_ms: int) -> Iterator[Past]:
    """A day's executions, most of them lately, one in ten without success."""
    dice = random.Random(7)
    moments = sorted(now_ms - int(86_400_000 * dice.random() ** 4) - 1 for _ in range(count))
    for n, at_ms in enumerate(moments):
        code, message = dice.choice(FAILURES)
        failed = Outcome(Status.FAILED, code, dice.randrange(5000), message)
        fine = Outcome(Status.COMPLETED, 200, dice.randrange(20, 400), "")
        url = f"https://{dice.choice('abcdef')}.example.com/invoices/{dice.randrange(10**6)}/paid"
        request = Request(at_ms, "POST", url, reference=f"order-{n}")
        yield Past(at_ms, request, fine if n % 10 else failed, dice.randrange(60))


async def busy_account(dashboard: Dashboard) -> Browser:
    """An operator's: 3,500 executions, 20,000 that wait in twenty lanes, a dozen that recur."""
    account = await dashboard.account("busy", credits=100_000, operator=True)
    browser = await dashboard.signed_in(account)
    soon_ms = browser.store.clock.now_ms() + 5000
    await fill(browser.store, browser.account_id, _past(3500, soon_ms - 5000))
    for at in range(0, 20_000, 1000):
        waiting = [
            Request(soon_ms + n * 540, "POST", f"https://b.example.com/{n}", lane=f"l-{n % 20}")
            for n in range(at, at + 1000)
        ]
        await browser.store.schedules.create_all(browser.account_id, waiting)
    for n in range(12):
        await made(browser, name=f"rule-{n}", once=f"{n}", cron=f"{n} * * * *")
    return browser


async def _execute_many(browser: Browser, count: int) -> None:
    """One tick's worth of a busy account."""
    if not count:
        return
    store, dice = browser.store, random.Random(count)
    due_ms = time.time_ns() // 1_000_000 - 1000
    url = "https://c.example.com/invoices/"
    requests = [Request(due_ms + n, "POST", f"{url}{dice.random()}") for n in range(count)]
    await store.schedules.create_all(browser.account_id, requests)
    shard = int(browser.account_id.split("_")[1])
    while claimed := (await store.claims.claim(shard, lease_ms=15_000, most=count)).invocations:
        ended = [Outcome(Status.COMPLETED, 200, dice.randrange(900), "") for _ in claimed]
        acks = [Ack(each, how, dice.randrange(9)) for each, how in zip(claimed, ended, strict=True)]
        await store.ends.ack(shard, acks)


async def tick(browser: Browser, path: str, kept: Kept) -> tuple[int, Kept]:
    """The bytes that are sent, packed as they are."""
    answer = await browser.client.get("/dashboard" + path, headers=_HX | kept.header)
    assert answer.status_code == 200
    return answer.num_bytes_downloaded, put_together(answer.text, kept)


@pytest.mark.slow
async def test_a_tick_sends_less_than_5_kb_of_a_busy_accounts_pages(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nothing happens, while a hundred a second are executed, and as a minute begins."""
    browser = await busy_account(dashboard)
    clock, now_ms = browser.store.clock, browser.store.clock.now_ms
    ahead_ms = 53_000 - now_ms() % 60_000

    def pass_time() -> None:
        nonlocal ahead_ms
        ahead_ms += 2000

    monkeypatch.setattr(clock, "now_ms", lambda: now_ms() + ahead_ms)
    kept = {path: put_together(await browser.text(path), NOTHING) for path in LIVE}
    for count in (0, 200, 200, 0, 200):
        await _execute_many(browser, count)
        pass_time()
        for path in LIVE:
            # Not what a read shared a moment ago.
            dashboard.app.state["dashboard_shared"] = Shared()
            sent, kept[path] = await tick(browser, path, kept[path])
            assert sent < _MOST_BYTES, path
    for path, page in kept.items():
        assert 1 < len(page.pieces) < fragments.MOST_PIECES, path
        # What takes forms away, for an operator who looks at an account, takes no mark away.
        for piece in page.pieces.values():
            assert piece.count("<form") == piece.count("</form")
