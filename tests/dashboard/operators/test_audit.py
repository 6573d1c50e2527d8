"""The audit page of operators, and the marks that say why requests were late."""

from __future__ import annotations

import html
import re

import pytest
from msgspec.structs import replace

from api.dashboard.causes import Cause, Late, as_held, causes_of, folded, ongoing, why_late
from api.dashboard.charts import Axis
from api.dashboard.operators.audit import GROUPS, WORDS
from api.dashboard.zones import UTC
from scheduler.events import Event, Kind
from scheduler.lane_settings import Pause
from scheduler.store import keys
from scheduler.store.operators.restore import Held
from tests.dashboard.conftest import Browser
from tests.support.plain import redis_of

HOUR_MS = 3_600_000
NONE = "\N{EN DASH}"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.dashboard.operators.audit._GOOD_FOR_S", 0.0)
    monkeypatch.setattr("api.dashboard.timeline._EVENTS_GOOD_FOR_S", 0.0)
    monkeypatch.setattr("api.dashboard.timeline._HOLD_GOOD_FOR_S", 0.0)


def told(text: str) -> list[str]:
    """The rows of the page: who, what and to whom."""
    rows = re.findall(r'<tr id="event-.*?</tr>', text, re.DOTALL)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)[1:] for row in rows]
    plain = [[re.sub(r"<[^>]+>", "", cell).strip() for cell in row] for row in cells]
    return [html.unescape(" | ".join(row)).replace(NONE, "-") for row in plain]


def test_every_kind_has_words_and_a_group() -> None:
    assert set(WORDS) == set(Kind)
    assert set().union(*(kinds for _, kinds in GROUPS.values())) == set(Kind)


async def test_the_audit_is_for_operators(browser: Browser, boss: Browser) -> None:
    assert (await browser.get("/system/audit")).status_code == 404
    assert "Nothing has happened yet" in await boss.text("/system/audit")
    assert '"/dashboard/system/audit"' in await boss.text("/system")


async def test_operators_find_acts_by_kind_account_person_and_period(
    browser: Browser, boss: Browser
) -> None:
    events, account_id = boss.store.events, browser.account_id
    async with events.act(Kind.GRANT, who="Ann", account_id=account_id, about="5 credits"):
        pass
    await events.record(Kind.HOLD, who="command line")
    await events.record(Kind.WORKER_LOST, about="box 7, 1.0")
    await browser.store.pauses.change(account_id, lambda before: replace(before, pause=Pause("k")))
    grant, hold = "Ann | granted 5 credits | ada", "command line | put all workers on hold | -"
    lost, pause = "- | a worker was lost: box 7, 1.0 | -", "k | the account was paused | ada"
    # They may be of the same millisecond.
    assert set(told(await boss.text("/system/audit"))) == {lost, hold, grant}
    for query, found in {
        "kind=acts": [hold, grant],
        "kind=service": [lost],
        "kind=hold": [hold],
        "who=ann": [grant],
        "account=ada": [pause, grant],
        f"account={account_id}&kind=own": [pause],
        "account=boss": [],
        "to=2020-01-01T00:00": [],
        "from=2020-01-01T00:00": [lost, hold, grant],
    }.items():
        assert set(told(await boss.text(f"/system/audit?{query}"))) == set(found), query
    for query in ("kind=nonsense", "account=nobody", "from=noon", "cursor=x"):
        answer = await boss.get(f"/system/audit?{query}")
        assert (answer.status_code, answer.text.count('class="fault"')) == (400, 1), query


async def test_pages_of_the_audit_lead_on_and_back_to_the_first(
    boss: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.dashboard.operators.audit._PER_PAGE", 2)
    for number in range(5):
        await boss.store.events.record(Kind.GRANT, who="Ann", about=f"{number} credits")
    path, found = "/system/audit?who=ann", list[str]()
    for _ in range(3):
        text = await boss.text(path)
        found += [row.split()[3] for row in told(text)]
        following = re.search(r'href="/dashboard([^"]+)" rel="next"', text)
        path = html.unescape(following[1]) if following else ""
    assert (found, path) == (list("43210"), "")
    assert "First page" in text
    assert "data-live" not in text


async def test_texts_of_events_are_no_markup(boss: Browser) -> None:
    await boss.store.events.record(Kind.CREATE, who="<b>", about="<script>", account_id="acc_x")
    text = await boss.text("/system/audit")
    assert "<script>" not in text.partition("<body")[2]
    assert "&lt;script&gt;" in text


async def test_it_shows_what_stood_still_and_names_nobody(browser: Browser, boss: Browser) -> None:
    await browser.execute()
    await boss.execute()
    events, now_ms = browser.store.events, browser.store.clock.now_ms()
    assert "data-marks" not in await browser.text("")
    await events.record(Kind.HOLD, who="Ann")
    assert "the service is held" not in await browser.text(""), "it was noted, and did not begin"
    await browser.store.hold.begin()
    await events.record(Kind.STORE_AWAY, since_ms=now_ms - 8000)
    await events.record(Kind.WORKER_LOST, about="box 7, 1.0")
    await boss.store.pauses.change(boss.account_id, lambda old: replace(old, pause=Pause("k")))
    for path in ("", "/requests"):
        text = html.unescape(await browser.text(path))
        assert re.search(r"the store was away for [\d.]+ s", text)
        assert "the service is held" in text
        assert text.count("data-marks") == 3
        for secret in ("Ann", "box 7", "the account is paused"):
            assert secret not in text
    assert "the account is paused" in await boss.text("/requests")


async def test_a_lanes_pause_is_told_where_that_lane_is_shown(browser: Browser) -> None:
    await browser.schedule(-1000, lane="eu")
    await browser.write("/lanes/eu/pause", **{"for": ""})
    told = re.compile(r"<li data-marks=[^>]*>lane eu is paused: ")
    for path in ("/requests?lane=eu", "/lanes/eu"):
        assert told.search(await browser.text(path)), path
    for path in ("", "/requests", "/requests?lane=us", "/lanes/us"):
        assert not told.search(await browser.text(path)), path


async def test_pages_stand_though_the_events_cannot_be_read(browser: Browser) -> None:
    await browser.execute()
    await redis_of(browser.store).set(keys.ACTS, "a foreign value")
    assert (await browser.get("/requests")).status_code == 200


async def test_a_late_request_says_what_stood_still_when_it_was_due(browser: Browser) -> None:
    now_ms = browser.store.clock.now_ms()
    late = await browser.schedule(-20_000)
    await browser.end(200)
    assert "It was due for" not in await browser.text(f"/requests/{late}")
    await browser.store.events.record(Kind.STORE_AWAY, since_ms=now_ms - 30_000)
    text = await browser.text(f"/requests/{late}")
    assert re.search(r"It was due for [\d.]+ s: for \d+ % of that time the store was away\.<", text)


# Pure


def event(at_ms: int, kind: Kind, about: str = "", **more: int) -> Event:
    return Event(f"{at_ms}-0", at_ms, kind, about=about, **more)


def test_holds_and_pauses_last_until_they_are_ended_or_end_by_themselves() -> None:
    causes = causes_of(
        [
            event(100, Kind.HOLD),
            event(150, Kind.HOLD),
            event(300, Kind.RESUMED, since_ms=100),
            event(400, Kind.LANE_PAUSED, "a", until_ms=450),
            event(420, Kind.LANE_PAUSED, "b"),
            event(500, Kind.LANE_PAUSED, "a"),
            event(600, Kind.LANE_RESUMED, "a", since_ms=500),
            event(700, Kind.RESUMED, since_ms=650),
            event(800, Kind.ACCOUNT_PAUSED, until_ms=5000),
            event(900, Kind.LANE_CALM, "c", until_ms=950),
            event(910, Kind.HOLD),
            event(911, Kind.HOLD, "not done: The store is away"),
        ]
    )
    held, paused = "the service was held", "lane {} was paused"
    assert causes == [
        Cause(100, 300, held),
        Cause(400, 450, paused.format("a"), "a"),
        Cause(420, None, paused.format("b"), "b"),
        Cause(500, 600, paused.format("a"), "a"),
        Cause(650, 700, held),
        Cause(800, 5000, "the account was paused"),
        Cause(900, 950, "lane c was calm, as its target had asked", "c"),
    ]
    assert [each.words for each in ongoing(causes, 1000) if each.to_ms is None] == [
        "lane b is paused",
        "the account is paused",
    ]


def test_a_refused_begin_undoes_only_itself() -> None:
    def by(who: str, at_ms: int, about: str = "") -> Event:
        return event(at_ms, Kind.HOLD, about)._replace(who=who)

    refused = "not done: The store is away"
    held = "the service was held"
    assert causes_of([by("a", 1), by("b", 2), by("b", 3, refused)]) == [Cause(1, None, held)]
    assert causes_of([by("a", 1), by("b", 2), by("a", 3, refused)]) == [Cause(2, None, held)]


def test_a_hold_is_what_the_store_says() -> None:
    held = "the service was held"
    over, away = Cause(100, 300, held), Cause(120, 130, "the store was away")
    none, whole, part = Held(None, 0, 4), Held(200, 4, 4, 200), Held(None, 1, 4, 200)
    assert as_held([over, Cause(400, None, held)], none) == [over]
    assert as_held([away], whole) == [away, Cause(200, None, held)]
    # Its end was noted and not done; the earlier one ended.
    assert as_held([over, away], whole) == [Cause(100, None, held), away]
    assert as_held([Cause(50, 60, held)], whole) == [Cause(50, 60, held), Cause(200, None, held)]
    assert [each.words for each in as_held([over], part)] == ["a part of the service is held"]


async def test_a_hold_that_no_event_tells_of_is_marked(browser: Browser) -> None:
    late = await browser.schedule(-20_000)
    await browser.store.hold.begin()
    text = await browser.text(f"/requests/{late}")
    assert "<bdi>It waits: the service is on hold.</bdi>" in text
    assert "data-marks" in text


_HOUR = Axis(0, 60_000, 60, UTC)
_AWAY, _HELD, _PAUSED = "the store was away", "the service was held", "lane a was paused"


@pytest.mark.parametrize(
    ("causes", "lane", "told"),
    [
        ([], "", []),
        ([Cause(-900, -500, _AWAY), Cause(HOUR_MS, HOUR_MS + 1, _AWAY)], "", []),
        ([Cause(1000, 3000, _AWAY)], "", [("the store was away for 2 s", "")]),
        # Repeats are one, alike or not.
        (
            [Cause(n * 60_000, n * 60_000 + 2000, _AWAY) for n in range(9)],
            "",
            [("the store was away: 9 × 2 s", "1 %")],  # noqa: RUF001
        ),
        (
            [Cause(0, 2000, _AWAY), Cause(9000, 307_000, _AWAY)],
            "",
            [("the store was away 2 times, 5 min in all", "17 %")],
        ),
        ([Cause(5, 5, "a worker was lost")] * 2, "", [("a worker was lost 2 times", "")]),
        ([Cause(-HOUR_MS, None, _HELD)], "", [("the service is held", "100 %")]),
        (
            [Cause(0, 10, _HELD), Cause(900_000, None, _HELD)],
            "",
            [("the service is held, 2 times so far", "50 %")],
        ),
        # What overlaps is counted once.
        (
            [Cause(0, 900_000, _HELD), Cause(600_000, 900_000, _HELD)],
            "",
            [("the service was held 2 times, 20 min in all", "50 %")],
        ),
        # A lane's are told where it is shown alone, after the others.
        ([Cause(0, 900_000, _PAUSED, "a"), Cause(0, 9000, _AWAY)], "b", [(f"{_AWAY} for 9 s", "")]),
        (
            [Cause(0, 900_000, _PAUSED, "a"), Cause(0, 9000, _AWAY), Cause(0, 18_000, _HELD)],
            "a",
            [
                ("the service was held for 18 s", "1 %"),
                ("the store was away for 9 s", ""),
                ("lane a was paused for 15 min", "50 %"),
            ],
        ),
    ],
)
def test_causes_of_a_chart_are_folded(
    causes: list[Cause], lane: str, told: list[tuple[str, str]]
) -> None:
    """Of an hour, half an hour after it began."""
    found = folded(causes, _HOUR, HOUR_MS // 2, lane)
    assert [(each.words, each.share) for each in found] == told


def test_marks_of_causes_are_bounded_and_say_what_goes_on() -> None:
    away = [Cause(n * 1000, n * 1000 + 500, _AWAY) for n in range(0, 3600, 7)]
    [fold] = folded(away, _HOUR, HOUR_MS)
    assert 1 <= len(fold.marks) <= 100
    assert (len(fold.times), fold.earlier) == (5, len(away) - 5)
    assert fold.times[-1] == "1970-01-01 00:59"
    [fold] = folded([Cause(0, 10, _HELD), Cause(900_000, None, _HELD)], _HOUR, 1_800_000)
    assert fold.marks == [(0, 10), (900_000, None)]


def test_each_cause_has_its_share_of_a_lateness_unless_that_is_under_a_tenth() -> None:
    causes = [
        Cause(0, 5000, "the service was held"),
        Cause(0, None, "lane a was paused", "a"),
        Cause(6000, 6000, "a worker was lost"),
        Cause(8000, 8900, "the store was away"),
    ]
    of_all = "It was due for 10 s: for 40 % of that time the service was held"
    assert why_late(causes, Late(1000, 1000, 11_000)) == [of_all]
    of_lane = "It was due for 10 s: for 60 % of that time lane a is paused"
    held = "40 % of that time the service was held"
    assert why_late(causes, Late(1000, 1000, 11_000, "a")) == [of_lane, held]
    by_rate = Late(1000, 7000, 11_000, "b", "lane b had used up its rate")
    rate = "20 % of that time lane b had used up its rate"
    assert why_late(causes, by_rate) == [of_all, rate]
    assert why_late(causes, Late(1000, 1000, 1900)) == []
    away = "It was due for 3.9 s: for 23 % of that time the store was away"
    assert why_late(causes, Late(5100, 5100, 9000, "b")) == [away]
    assert why_late(causes, Late(4900, 4900, 7900)) == []
    again = [*causes, Cause(7500, 7900, "the store was away")]
    away = "It was due for 3.9 s: for 33 % of that time the store was away, 2 times"
    assert why_late(again, Late(5100, 5100, 9000, "b")) == [away]
