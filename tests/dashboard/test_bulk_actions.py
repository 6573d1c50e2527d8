"""Bulk actions on the pages: what is shown of one, to whom, and until when."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from api.bulk_actions.runner import BulkRunner
from api.dashboard.requests import bulk, bulk_strip
from api.dashboard.requests.filters import Filter
from api.schema.rules import Rules
from scheduler.events import Kind as EventKind
from scheduler.models import Account, LogStatus, Outcome, Status
from scheduler.runtime.settings import Settings
from scheduler.store import keys
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.queries import reading
from scheduler.store.server import Server
from tests.dashboard.conftest import Browser, Dashboard, listed, rows
from tests.dashboard.test_many import fields_of, ids_of, match, post_many
from tests.support.plain import redis_of

COMPLETED = Outcome(Status.COMPLETED, 200, 12, "")
FAILED = Outcome(Status.FAILED, 404, 12, "Not Found")
STRIP = re.compile(r'<section class="bulk-action" id="bulk-([\w-]{16})".*?</section>', re.DOTALL)


def strips(text: str) -> dict[str, str]:
    """The words of each, by its id, without tags."""
    found = ((each[1], re.sub(r"<[^>]+>", " ", each[0])) for each in STRIP.finditer(text))
    return {name: " ".join(words.split()) for name, words in found}


async def pressed(browser: Browser, action: str, chosen: list[str], **fields: str) -> str:
    done = await post_many(browser, action, chosen, confirmed="1", once="o" * 16, **fields)
    assert done.status_code == 303
    [name] = strips(await browser.text("/requests"))
    return name


async def ended(browser: Browser, *outcomes: Outcome | None) -> list[str]:
    """Those of the first that are due which end so; one without an outcome goes on."""
    shard = keys.parts(browser.account_id).shard
    held = (await browser.store.claims.claim(shard, lease_ms=15_000, most=10)).invocations
    ends = [(each, outcome) for each, outcome in zip(held, outcomes, strict=False) if outcome]
    await browser.store.ends.ack(shard, [Ack(each, outcome, 0) for each, outcome in ends])
    return [each.schedule_id for each, _ in ends]


async def finish(browser: Browser, settings: Settings) -> None:
    """What an API process does."""
    runner, client = BulkRunner(browser.store, Rules.of(settings)), redis_of(browser.store)
    shard, local = keys.parts(browser.account_id)
    base = keys.account(browser.account_id) + keys.BULK
    for _ in range(30):
        for each in await browser.store.bulks.all(browser.account_id):
            if each.is_due:
                await client.hset(base + each.action_id, "n", 1)
                await client.zadd(keys.shard(shard) + keys.BULK_DUE, {local: 1})
        await runner.step(browser.account_id)


async def test_a_group_that_runs_again_is_shown_until_all_ended_and_it_is_closed(
    dashboard: Dashboard, browser: Browser, ada: Account, settings: Settings
) -> None:
    bad = [await browser.execute(503) for _ in range(3)]
    name = await pressed(browser, "again", bad, scope="matching", status="failed")
    other = await dashboard.signed_in(ada)
    for page in ("", "/requests", "/requests?q=example", "/bulks"):
        shown = strips(await other.text(page))
        assert shown.keys() == {name}, page
        assert "failed" in shown[name], "the filter in words"
        assert "3 run again: 3 not ended yet. Show them" in shown[name]
    bob = await dashboard.signed_in(await dashboard.account("bob"))
    assert (strips(await bob.text("")), rows(await bob.text("/requests", bulk=name))) == ({}, [])
    await ended(browser, COMPLETED, COMPLETED, FAILED)
    await finish(browser, settings)
    shown = strips(await other.text(""))
    words = "3 run again: 2 completed, 1 failed. Show them Show those that failed"
    assert words in shown[name]
    replays = [(await browser.kept(each)).replayed_as for each in bad]
    assert sorted(await listed(browser, bulk=name)) == sorted(map(str, replays))
    assert len(await listed(browser, bulk=name, status="failed")) == 1
    assert await listed(browser, bulk=name, host="other.example") == []
    back = "/dashboard/requests?status=failed"
    closed = await other.write(f"/requests/bulk/{name}/close", back=back)
    assert closed.headers["location"] == back
    assert strips(await browser.text("")) == {}


async def test_only_replays_of_the_status_are_read_whole(
    browser: Browser, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = [await browser.execute(503) for _ in range(6)]
    name = await pressed(browser, "again", bad)
    failed = await ended(browser, None, FAILED, FAILED, FAILED)
    every: list[str] = []
    read_by_id = reading.read_by_id

    def counted(server: Server, account_id: str, names: Sequence[str]) -> Any:
        every.extend(names)
        return read_by_id(server, account_id, names)

    monkeypatch.setattr(bulk_strip, "read_by_id", counted)
    monkeypatch.setattr(bulk_strip, "PER_PAGE", 2)
    monkeypatch.setattr(reading, "CHUNK", 2)
    viewed = Filter(bulk=name, status=LogStatus.FAILED)
    found, cursor = await bulk_strip.replays_of(browser.store, browser.account_id, viewed)
    some, end = await bulk_strip.replays_of(
        browser.store, browser.account_id, viewed._replace(cursor=cursor)
    )
    assert sorted(each.schedule_id for each in [*found, *some]) == sorted(failed)
    assert (end, sorted(set(every))) == (None, sorted(failed))


async def test_more_than_a_form_names_are_found_again_and_stopped(
    browser: Browser, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MOST", 2)
    for _ in range(3):
        await browser.schedule()
    asked = await match(browser, "cancel", status="scheduled")
    assert (ids_of(asked), "Cancel all that match?" in asked.text) == ([], True)
    later = await browser.schedule(7_200_000)
    fields = fields_of(asked)
    # The moment of the question bounds it, and nobody asks about the future.
    asked_at = int(fields["until"])
    assert asked_at <= datetime.now(UTC).timestamp() * 1000
    for _ in range(2):
        await post_many(browser, "cancel", [], **fields)
    noted = await browser.store.events.newest(browser.account_id)
    assert [each.about for each in noted if each.kind is EventKind.BULK] == [
        "Cancel: all that match"
    ]
    await finish(browser, settings)
    [words] = strips(await browser.text("/requests")).values()
    assert "3 cancelled, their credits came back." in words
    assert await listed(browser, status="scheduled") == [later]
    assert await browser.credits() == 99


@pytest.mark.parametrize("most", [2, 1000])
async def test_all_with_a_label_are_acted_on_and_no_other(
    browser: Browser, settings: Settings, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(bulk, "MOST", most)
    wanted = [await browser.schedule(labels=("eu west", "mail")) for _ in range(3)]
    other = [await browser.schedule(labels=("eu",)), await browser.schedule()]
    for action, more in (("lane", {"to_lane": "b", "no_lane": ""}), ("cancel", {})):
        asked = await match(browser, action, label="eu west", status="scheduled")
        assert set(ids_of(asked)) == (set(wanted) if most > 2 else set())
        fields = fields_of(asked) | {"confirmed": "1", "once": action.ljust(16, "o")} | more
        assert (await post_many(browser, action, ids_of(asked), **fields)).status_code == 303
        await finish(browser, settings)
        lanes = [(await browser.kept(each)).request.lane for each in (*wanted, *other)]
        assert lanes == ["b"] * 3 + [None] * 2
    assert set(await listed(browser, status="scheduled")) == set(other)


async def test_a_press_stops_what_has_not_begun(browser: Browser, settings: Settings) -> None:
    waiting = [await browser.schedule() for _ in range(2)]
    await browser.store.changes.suspend(browser.account_id)
    await browser.store.changes.resume(browser.account_id)
    name = await pressed(browser, "move", waiting, shift="1h")
    assert "2 rescheduled." in strips(await browser.text("/requests"))[name]
    for path in ("stop", "close"):
        gone = await browser.write(f"/requests/bulk/{'x' * 16}/{path}")
        assert gone.status_code == 404
        assert (await browser.write(f"/requests/bulk/short/{path}")).status_code == 404
    assert (await browser.write(f"/requests/bulk/{name}/stop")).headers["location"] == "/dashboard"
    assert "It was stopped" not in await browser.text("/requests"), "it was done"


async def test_all_matches_of_its_replays_are_not_all_matches(browser: Browser) -> None:
    await browser.schedule()
    refused = await match(browser, "cancel", bulk="a" * 16)
    assert (refused.status_code, "select those to act on" in refused.text) == (400, True)
    assert "all that match" not in await browser.text("/requests", bulk="a" * 16)
    assert (await browser.get("/requests", bulk="a b")).status_code == 400
    assert (await browser.get("/requests", bulk="a" * 16, cursor="x")).status_code == 400


async def test_no_more_are_under_way_than_an_account_may_have(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.store.bulk.bulks.MOST_BULKS", 0)
    waiting = await browser.schedule()
    refused = await post_many(browser, "cancel", [waiting], confirmed="1")
    assert refused.status_code == 400
    assert "bulk actions are under way; wait for one, or stop it." in refused.text
    assert ids_of(refused) == [waiting]
    assert await listed(browser, status="scheduled") == [waiting]
