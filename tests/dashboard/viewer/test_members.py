"""Members of an account and its history, over HTTP. test_writes.py shows that each write is refused
to those whose role is too low."""

from __future__ import annotations

import re

import pytest

from api.dashboard.operators.audit import WORDS
from api.dashboard.viewer.history import GROUPS
from scheduler.callers import Role
from scheduler.events import OWN, Kind
from scheduler.models import Account, Request
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from scheduler.store.accounts.sign_in.sessions import ATTEMPTS_PER_BOTH
from tests.dashboard.conftest import ORIGIN, PASSWORD, URL, Browser, Dashboard
from tests.dashboard.test_pages import PAGES

JOIN = {"password": PASSWORD, "again": PASSWORD}
ANN = "ann@example.com"


def link_in(text: str) -> str:
    """The path of the one link that a page shows."""
    [link] = set(re.findall(rf"{ORIGIN}/dashboard(/link/[\w-]+)", text))
    return str(link)


async def happened(browser: Browser, **query: str) -> list[tuple[str, str]]:
    """Who and what, of the history's page."""
    text = await browser.text("/history", **query)
    rows = re.findall(r'data-th="Who">(.*?)</td>\s*<td data-th="What">(.*?)</td>', text, re.DOTALL)
    return [(re.sub("<[^>]*>", "", who), re.sub("<[^>]*>", "", what)) for who, what in rows]


async def member_id(dashboard: Dashboard, account: Account, email: str) -> str:
    return (await dashboard.store.members.get(account.account_id, email)).member_id


async def test_who_is_invited_sets_a_password_and_is_a_member(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    answer = await browser.write("/members", email="Ann@example.com", role="act")
    path = link_in(answer.text)
    assert path not in await browser.text("/members"), "it is shown once"
    ann = dashboard.browser(ada)
    asked = await ann.text(path)
    assert (ANN in asked, "may look, schedule" in asked) == (True, True)
    refused = await ann.post(path, password="short", again="short")
    assert (refused.status_code, "at least 10 characters" in refused.text) == (400, True)
    assert (await ann.post(path, **JOIN)).status_code == 303
    assert (await ann.get("")).status_code == 200
    for again in (await ann.get(path), await dashboard.browser().post(path, **JOIN)):
        assert (again.status_code, "no longer good" in again.text) == (410, True)
    assert await happened(browser) == [
        (ANN, "accepted the invitation (act)"),
        by_link(f"invited {ANN}, act"),
    ]
    elsewhere = dashboard.browser(ada)
    assert (await elsewhere.post("/sign-in", email=ANN, password=PASSWORD)).status_code == 303


def by_link(what: str) -> tuple[str, str]:
    return ("operator&#39;s link", what)


@pytest.mark.parametrize(
    ("fields", "status", "told"),
    [
        ({"email": "ann", "role": "act"}, 400, "is not an e-mail address"),
        ({"email": ANN, "role": "boss"}, 400, "choose what they may do"),
        ({"email": "ADA@example.com", "role": "act"}, 409, "is a member already"),
    ],
    ids=["address", "role", "member"],
)
async def test_a_bad_invitation_says_why(
    browser: Browser, fields: dict[str, str], status: int, told: str
) -> None:
    answer = await browser.write("/members", **fields)
    assert (answer.status_code, told in answer.text) == (status, True)
    assert len(await browser.store.members.all(browser.account_id)) == 1


async def test_an_address_of_another_account_is_told_to_nobody_who_invites(
    dashboard: Dashboard, browser: Browser
) -> None:
    await dashboard.account("bob", email="bob@example.com")
    path = link_in((await browser.write("/members", email="bob@example.com", role="own")).text)
    for number in range(ATTEMPTS_PER_BOTH + 1):
        answer = await dashboard.browser().post(path, **JOIN)
        is_limited = number == ATTEMPTS_PER_BOTH
        assert answer.status_code == (429 if is_limited else 409)
        assert is_limited or "cannot be used here" in answer.text


async def test_an_owner_changes_a_role_makes_a_link_and_removes(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    ann = await dashboard.member(ada, ANN, Role.READ)
    found = f"/members/{await member_id(dashboard, ada, ANN)}"
    assert (await ann.write("/account/pause", **{"for": "1h"})).status_code == 403
    assert (await browser.write(f"{found}/role", role="act")).status_code == 303
    assert (await ann.write("/account/pause", **{"for": "1h"})).status_code == 303
    path = link_in((await browser.write(f"{found}/link")).text)
    new = {"password": "another quiet morning", "again": "another quiet morning"}
    assert (await dashboard.browser().post(path, **new)).status_code == 303
    assert (await ann.get("")).status_code == 303, "signed out, for the password is another one"
    again = dashboard.browser(ada)
    assert (await again.post("/sign-in", email=ANN, password=new["password"])).status_code == 303
    assert "signed out at once" in await browser.text(f"{found}/remove")
    assert (await browser.write(f"{found}/remove")).status_code == 303
    assert (await again.get("")).status_code == 303
    assert (await browser.get(f"{found}/remove")).status_code == 404
    refused = await dashboard.browser().post("/sign-in", email=ANN, password=new["password"])
    assert refused.status_code == 401


async def test_the_last_owner_stays(dashboard: Dashboard, ada: Account, browser: Browser) -> None:
    found = f"/members/{await member_id(dashboard, ada, 'ada@example.com')}"
    for path, fields in ((f"{found}/role", {"role": "read"}), (f"{found}/remove", {})):
        answer = await browser.write(path, **fields)
        assert (answer.status_code, "keeps an owner" in answer.text) == (409, True)


async def test_pages_hide_what_one_may_not_do(dashboard: Dashboard, ada: Account) -> None:
    """All forms that write but those that are everybody's, and all links to what makes or changes
    something; to owners, secrets."""
    owner = await dashboard.member(ada, "own@example.com")
    await owner.schedule(lane="a")
    await owner.execute(503)
    forms = re.compile(r'<form[^>]*method="post"[^>]*action="/dashboard([^"]*)"')
    everybodys = {"/zone", "/sign-out", "/account/password"}
    seen: dict[Role, set[str]] = {}
    for role in Role:
        browser = await dashboard.member(ada, f"{role}2@example.com", role)
        texts = [await browser.text(path) for path in PAGES]
        seen[role] = {path for text in texts for path in forms.findall(text)}
        links = {path for text in texts for path in re.findall(r'href="/dashboard([^"?#]*)', text)}
        for path in ("/keys", "/signing/rotate", "/requests/new", "/recurring/new"):
            needs = Role.OWN if path in ("/keys", "/signing/rotate") else Role.ACT
            answer = await browser.get(path)
            assert answer.status_code == (200 if role.allows(needs) else 403), (role, path)
            assert path not in links or role.allows(needs), (role, path)
    assert seen[Role.READ] == everybodys
    assert not any(path.startswith(("/keys", "/members", "/account/c")) for path in seen[Role.ACT])
    assert everybodys < seen[Role.ACT] < seen[Role.OWN]


async def test_the_history_says_who_did_what(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    ann = await dashboard.member(ada, ANN)
    await ann.write("/account/pause", **{"for": "1h"})
    await ann.write("/lanes/mail", rate="5", per="1s")
    await ann.write("/lanes/mail/clear")
    await ann.write("/keys", name="<b>nightly</b>")
    await browser.write("/signing/rotate", keep_for="1h", once="x")
    await browser.write("/account/callback", url="https://example.com/ended")
    await dashboard.store.changes.suspend(ada.account_id)
    assert await happened(browser) == [
        ("an operator", "the account was suspended"),
        by_link("the default callback was changed (executed)"),
        by_link("the signing secrets were rotated"),
        (ANN, "API key &lt;b&gt;nightly&lt;/b&gt; was made"),
        (ANN, "lane mail was cleared"),
        (ANN, "limits of lane mail were changed"),
        (ANN, "the account was paused"),
        (ANN, "accepted the invitation (own)"),
        ("us", f"invited {ANN}, own"),
    ]
    assert len(await happened(browser, who=ANN)) == 5
    assert await happened(browser, kind="lanes", who=ANN) == [
        (ANN, "lane mail was cleared"),
        (ANN, "limits of lane mail were changed"),
    ]
    assert (await browser.get("/history", kind="x")).status_code == 400


async def test_a_press_that_changes_nothing_of_a_rule_is_no_event(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    draft = Draft(Request(0, "GET", URL), Timing(every_ms=3_600_000), "nightly")
    rule = (await dashboard.store.recurring.create(ada.account_id, draft)).rule
    path = f"/recurring/{rule.recurring_id}"
    for act in ("resume", "pause", "pause", "resume", "resume", "delete", "delete"):
        assert (await browser.write(f"{path}/{act}")).status_code == 303
    assert await happened(browser, kind="recurring") == [
        by_link(f"recurring schedule nightly was {what}")
        for what in ("deleted", "resumed", "paused")
    ]


async def test_the_history_has_pages(dashboard: Dashboard, ada: Account, browser: Browser) -> None:
    for number in range(60):
        await dashboard.store.api_keys.create(ada.account_id, f"key {number}", "us")
    first = await browser.text("/history")
    [more] = re.findall(r'href="/dashboard(/history\?before=[^"]+)" rel="next"', first)
    second = await browser.text(more)
    shown = [re.findall(r"API key (key \d+)", text) for text in (first, second)]
    assert shown[0] + shown[1] == [f"key {number}" for number in reversed(range(60))]
    assert 'rel="next"' not in second


async def test_the_history_shows_hostile_and_long_names(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    """Some events are cut, and others not: their person is one."""
    await browser.write("/keys", name="nightly\u202etxt")
    long = "x" * 230 + "@example.com"
    ann = await dashboard.member(ada, long)
    await ann.write("/account/callback", url="https://example.com/ended")
    await ann.write("/requests/bulk", action="cancel", id=await ann.schedule(), confirmed="1")
    hidden = "API key a\u202eb"
    await browser.store.events.note(ada.account_id, Kind.RULE_MADE, who=hidden, about="nightly")
    assert [what for _, what in await happened(browser, who=long[:200])] == [
        "a bulk action: Cancel: 1 request",
        "the default callback was changed (executed)",
        "accepted the invitation (own)",
    ]
    assert f'<option value="{hidden}">API key a\\u202eb<' in await browser.text("/history")
    assert len(await happened(browser, who=hidden)) == 1
    assert await happened(browser, kind="secrets", who="operator's link") == [
        by_link("API key nightly\\u202etxt was made")
    ]


def test_each_kind_of_event_of_an_account_has_words_and_a_group() -> None:
    grouped = frozenset().union(*(kinds for _, kinds in GROUPS.values()))
    assert grouped == OWN
    assert sum(len(kinds) for _, kinds in GROUPS.values()) == len(OWN), "in one group each"
    assert WORDS.keys() >= OWN
