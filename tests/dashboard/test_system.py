"""The pages of operators."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from scheduler.store import keys
from tests.dashboard.conftest import Browser, once_of, tiles_of
from tests.plain import redis_of

SAYS: dict[str, Any] = {"host": "quiet", "pid": 1, "inFlight": 2, "concurrency": 4096, "fired": 3}


async def test_the_system_is_for_operators(browser: Browser, boss: Browser) -> None:
    assert "/dashboard/system" not in await browser.text("")
    await browser.store.workers.beat("w", SAYS)
    text = await boss.text("/system")
    for words in ("2 of 4,096", "ada", "boss", "Valkey"):
        assert words in text
    assert "Put on hold" not in text


async def test_a_worker_that_is_gone_stays_listed_as_lost(
    boss: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.dashboard.system._GOOD_FOR_S", 0.0)
    await boss.store.workers.beat("w", SAYS)
    assert "No worker is alive" not in await boss.text("/system")
    stored = f"{boss.store.clock.now_ms() - 20_000} {json.dumps(SAYS)}"
    await redis_of(boss.store).hset(keys.WORKERS, "w", stored)
    text = await boss.text("/system")
    assert "No worker is alive" in text
    assert re.search(r"quiet.*?lost.*?20 s ago", text, re.DOTALL)


async def test_operators_see_a_hold_be_it_of_some_shards_only(
    boss: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.dashboard.system._GOOD_FOR_S", 0.0)
    await boss.store.hold.begin()
    assert "Put on hold" in await boss.text("/system")
    await redis_of(boss.store).delete(keys.shard(0) + keys.HOLD)
    assert "3 of 4 shards were put on hold" in await boss.text("/system")


async def test_operators_find_accounts_and_see_what_they_did(
    browser: Browser, boss: Browser
) -> None:
    await browser.execute()
    await browser.execute(503)
    await browser.schedule(-90_000)
    for wanted in ("AD", "ada@example", browser.account_id[-5:]):
        text = await boss.text("/system", q=wanted)
        table = text[text.index('id="accounts"') :]
        assert browser.account_id in table
        assert "boss" not in table
        row = re.sub(r"<[^>]+>", " ", table[table.index("<tbody>") :])
        assert re.search(r"free\s+2\s+1 failed\s+3\s+100\s+3\s+97", row), row
    assert "No account is like that" in await boss.text("/system", q="nobody")
    tiles = tiles_of(text)
    assert (tiles["overdue"], tiles["workers"]) == ("1", "0 of 0")


async def test_operators_grant_credits_once(browser: Browser, boss: Browser) -> None:
    once = once_of(await boss.text("/system"))
    form = {"account": browser.account_id, "credits": "7", "once": once}
    for _ in range(2):  # a form that is sent twice
        answer = await boss.write("/system/grant", **form)
        assert answer.status_code == 303
    assert "7 credits granted to ada: 107 are left" in await boss.text("/system")
    for credits in ("", "0", "-5", "1.5", "١٢", "9" * 14):
        assert (await boss.write("/system/grant", **form | {"credits": credits})).status_code == 400
    assert (await browser.write("/system/grant", **form | {"once": "x" * 16})).status_code == 404
    assert await browser.credits() == 107
