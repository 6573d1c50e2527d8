"""Every write of the dashboard, found by a walk over its routes: from where, and by whom."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, product
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from msgspec.structs import replace
from redis import exceptions

from api.dashboard.routes import dashboard_router
from api.dashboard.viewer import passwords
from scheduler.callers import Role
from scheduler.errors import StoreUnavailable
from scheduler.lane_settings import Pause
from scheduler.models import Account, Request
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from scheduler.store import Store, keys
from scheduler.store.bulk.records import Asked, Kind, packed_ids
from scheduler.store.server import server
from tests.dashboard.conftest import ORIGIN, PASSWORD, Browser, Dashboard
from tests.store.whole.harm import Backup, look
from tests.support.plain import redis_of
from tests.support.servers import in_days

ROUTES: dict[str, set[str]] = {
    route.path_format.removeprefix("/dashboard"): set(route.methods)
    for route in dashboard_router().routes
}
# A target for everybody, which writes nothing.
WRITES = sorted(path for path, methods in ROUTES.items() if methods - {"GET", "OPTIONS"})
WRITES.remove("/echo")
# These make a session, and so have none yet.
SIGN_IN = ["/link/{secret}", "/sign-in"]
SIGNED_IN = [path for path in WRITES if path not in SIGN_IN]
OPERATORS = "/system"
EVEN_SUSPENDED = ["/account/password", "/sign-out", "/zone"]
# A member with the role `act` may do all else.
ONLY_OWNERS = [
    *("/account/callback", "/keys", "/keys/{key_id}/deactivate", "/signing/rotate", "/members"),
    *(f"/members/{{member_id}}/{act}" for act in ("link", "remove", "role")),
]
OTHER = "another quiet morning"
# With these each one does something. A new page needs its own here.
FIELDS = {
    "/account/callback": {"url": "https://example.com/ended"},
    "/account/pause": {"for": "1h"},
    "/account/password": {"current": PASSWORD, "password": OTHER, "again": OTHER},
    "/account/resume": {},
    "/keys": {"name": "new"},
    "/keys/{key_id}/deactivate": {},
    "/lanes/{lane}": {"rate": "9", "per": "1s"},
    "/lanes/{lane}/calm": {},
    "/lanes/{lane}/clear": {},
    "/lanes/{lane}/pause": {"for": "1h"},
    "/lanes/{lane}/resume": {},
    "/link/{secret}": {},
    "/members": {"email": "new@example.com", "role": "act"},
    "/members/{member_id}/link": {},
    "/members/{member_id}/remove": {},
    "/members/{member_id}/role": {"role": "read"},
    "/recurring/new": {
        "way": "every",
        "every": "1h",
        "targetUrl": "https://example.com/",
        "once": "x",
    },
    "/recurring/{recurring_id}/change": {
        "way": "every",
        "every": "2h",
        "targetUrl": "https://example.com/",
        "name": "other",
        "etag": "{etag}",
    },
    "/recurring/{recurring_id}/delete": {},
    "/recurring/{recurring_id}/pause": {},
    "/recurring/{recurring_id}/resume": {},
    "/recurring/{recurring_id}/run": {"once": "x"},
    "/requests/bulk": {"action": "cancel", "id": "{schedule_id}", "confirmed": "1"},
    "/requests/bulk/{action_id}/close": {},
    "/requests/bulk/{action_id}/stop": {},
    "/requests/new": {
        "targetUrl": "https://example.com/",
        "targetMethod": "GET",
        "delay": "1h",
        "once": "x",
    },
    "/requests/{schedule_id}/again": {"once": "x"},
    "/requests/{schedule_id}/callback": {"once": "x"},
    "/requests/{schedule_id}/cancel": {},
    "/requests/{schedule_id}/edit": {
        "targetUrl": "https://example.com/",
        "triggerAt": f"{in_days(70):%Y-%m-%d}T00:00",
        "etag": "{schedule_etag}",
    },
    "/requests/{schedule_id}/lane": {"to_lane": "another"},
    "/requests/{schedule_id}/time": {"at": f"{in_days(70):%Y-%m-%d}T00:00"},
    "/sign-in": {"email": "holder@example.com", "password": PASSWORD},
    "/sign-out": {},
    "/signing/rotate": {"keep_for": "1h", "once": "x"},
    "/system/grant": {"account": "{account}", "credits": "7", "once": "abcdefghijklmnop"},
    "/system/hold": {},
    "/system/resume": {"since": "{since}"},
    "/zone": {"zone": "Europe/Berlin"},
}

# Every key and its value, in one command instead of one for each key.
_DUMPS = """
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  found[#found + 1] = {key, redis.call('DUMP', key)}
end
return found
"""


class Holder:
    """An operator with one of each thing that a page writes to."""

    def __init__(self, dashboard: Dashboard, account: Account, names: dict[str, str]) -> None:
        self.dashboard = dashboard
        self.account = account
        self.names = names

    async def send(
        self, browser: Browser, path: str, headers: dict[str, str] | None = None, **token: str
    ) -> httpx.Response:
        """The form of a path, with this holder's values."""
        used = dict(self.names)
        if path.endswith(("/again", "/callback")):
            used["schedule_id"] = used["ended"]
        if path.endswith("{recurring_id}/resume"):
            used["recurring_id"] = used["resting"]
        fields = {name: value.format_map(used) for name, value in FIELDS[path].items()}
        return await browser.post(path.format_map(used), headers, **fields, **token)

    async def stored(self, but: str = "") -> dict[bytes, bytes]:
        return await stored(self.dashboard.store, but)


async def stored(store: Store, but: str = "") -> dict[bytes, bytes]:
    """All that the store has, except below a prefix."""
    return {
        name: value
        for name, value in await redis_of(store).eval(_DUMPS, 0)
        if name != keys.META.encode() and not (but and name.startswith(but.encode()))
    }


@pytest.fixture
async def holder(dashboard: Dashboard) -> Holder:
    account = await dashboard.account("holder", email="holder@example.com", operator=True)
    store, hers = dashboard.store, dashboard.browser(account)
    key, _ = await store.api_keys.create(account.account_id, "hers")
    names = {
        "account": account.account_id,
        "ended": await hers.reported(),
        "key_id": key.key_id,
        "lane": "hers",
        "schedule_id": await hers.schedule(),
        "secret": await store.sessions.make_link(account.account_id),
        "member_id": await member_of(dashboard, account, "second@example.com", Role.OWN),
    }
    waiting = await store.schedules.read(account.account_id, names["schedule_id"])
    names |= {"schedule_etag": waiting.etag} | await recurring(store, account.account_id)
    names["action_id"] = "a-bulk-action-00"
    asked = Asked(Kind.CANCEL, "dashboard", 0, packed_ids([names["schedule_id"]]), {}, 0, {})
    await store.bulks.add(account.account_id, names["action_id"], asked)
    await stop(store, account.account_id, names["lane"])
    # One of its shards, as if a hold was cut off.
    names["since"] = str(store.clock.now_ms())
    await redis_of(store).set(keys.shard(0) + keys.HOLD, names["since"])
    return Holder(dashboard, account, names)


async def member_of(dashboard: Dashboard, account: Account, email: str, role: Role) -> str:
    await dashboard.member(account, email, role)
    return (await dashboard.store.members.get(account.account_id, email)).member_id


async def recurring(store: Store, account_id: str) -> dict[str, str]:
    """One that is active, and one that is paused."""
    asked = Draft(Request(0, "GET", "https://example.com/"), Timing(every_ms=3_600_000))
    active, resting = [(await store.recurring.create(account_id, asked)).rule for _ in range(2)]
    await store.recurring.pause(account_id, resting.recurring_id, Pause("us"))
    return {
        "recurring_id": active.recurring_id,
        "resting": resting.recurring_id,
        "etag": active.etag,
    }


async def stop(store: Store, account_id: str, lane: str) -> None:
    """Pauses the account, and a lane of it, which a target has calmed as well."""

    def paused(settings: Any) -> Any:
        return replace(settings, pause=Pause("first key"))

    await store.lanes.change(account_id, lane, paused)
    await store.pauses.change(account_id, paused)
    client: Any = redis_of(store)
    until_ms = store.clock.now_ms() + 3_600_000
    await client.hset(keys.account(account_id) + keys.LANE + lane, "calm", until_ms)


@pytest.fixture
async def hers(dashboard: Dashboard, holder: Holder) -> Browser:
    """The first member's, an owner, with a password."""
    store, hashed = dashboard.store, await passwords.hashed(PASSWORD)
    first, *_ = await store.members.all(holder.account.account_id)
    await store.sessions.open(holder.account.account_id, first.member_id, password=hashed)
    browser = dashboard.browser(holder.account)
    assert (await browser.post("/sign-in", **FIELDS["/sign-in"])).status_code == 303
    return browser


@pytest.mark.parametrize("role", [Role.READ, Role.ACT])
async def test_each_is_refused_to_members_whose_role_is_too_low(
    dashboard: Dashboard, holder: Holder, role: Role
) -> None:
    theirs = await dashboard.member(holder.account, "third@example.com", role)
    allowed = EVEN_SUSPENDED if role == Role.READ else {*SIGNED_IN} - {*ONLY_OWNERS}
    csrf, before = await theirs.csrf(), await holder.stored()
    for path in SIGNED_IN:
        if path not in allowed:
            answer = await holder.send(theirs, path, csrf=csrf)
            assert (answer.status_code, "You may only look" in answer.text) == (
                403,
                role == Role.READ and path not in ONLY_OWNERS,
            ), path
    assert await holder.stored() == before
    for path in ("/zone", "/lanes/{lane}/pause"):
        answer = await holder.send(theirs, path, csrf=csrf)
        assert answer.status_code == (303 if path in allowed else 403)


async def test_each_comes_from_our_own_pages(holder: Holder, hers: Browser) -> None:
    csrf, before = await hers.csrf(), await holder.stored()
    for path, headers in product(
        WRITES,
        (
            {},
            {"origin": "null"},
            {"origin": "http://evil.example"},
            {"origin": f"{ORIGIN}.evil.example"},
            {"origin": "null", "sec-fetch-site": "same-site"},
            {"origin": "http://evil.example", "sec-fetch-site": "same-origin"},
        ),
    ):
        token = {} if path in SIGN_IN else {"csrf": csrf}
        answer = await holder.send(hers, path, headers, **token)
        assert answer.status_code == 403, (path, headers)
    assert await holder.stored() == before


async def test_each_has_the_token_of_its_session(
    dashboard: Dashboard, holder: Holder, hers: Browser
) -> None:
    of_another_session = await (await dashboard.signed_in(holder.account)).csrf()
    of_another_account = await (await dashboard.signed_in(await dashboard.account("bob"))).csrf()
    before = await holder.stored()
    for path in SIGNED_IN:
        assert (await holder.send(hers, path)).status_code == 403, path
        for csrf in ("", "x", of_another_session, of_another_account):
            assert (await holder.send(hers, path, csrf=csrf)).status_code == 403, (path, csrf)
    assert await holder.stored() == before


async def test_each_has_a_session(dashboard: Dashboard, holder: Holder, hers: Browser) -> None:
    csrf, before = await hers.csrf(), await holder.stored()
    for path, cookie in product(SIGNED_IN, ("", secrets.token_urlsafe(32))):
        browser = dashboard.browser()
        browser.client.cookies.set("postdate_session", cookie)
        answer = await holder.send(browser, path, csrf=csrf)
        assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/sign-in"), path
    assert await holder.stored() == before


async def test_a_suspended_account_writes_nothing(
    dashboard: Dashboard, holder: Holder, hers: Browser
) -> None:
    await dashboard.store.changes.suspend(holder.account.account_id)
    csrf, before = await hers.csrf(), await holder.stored()
    for path in [path for path in SIGNED_IN if path not in EVEN_SUSPENDED]:
        answer = await holder.send(hers, path, csrf=csrf)
        assert (answer.status_code, "suspended" in answer.text) == (403, True), path
    assert await holder.stored() == before


@pytest.mark.parametrize("path", SIGNED_IN)
async def test_it_changes_nothing_of_another_account(
    dashboard: Dashboard, holder: Holder, path: str
) -> None:
    bob = await dashboard.account("bob")
    his = await dashboard.signed_in(bob)
    own = keys.account(bob.account_id)
    before, csrf = await holder.stored(but=own), await his.csrf()
    answer = await holder.send(his, path, csrf=csrf)
    # A lane of hers is another one than his of the same name.
    if ("{" in path and "{lane}" not in path) or path.startswith(OPERATORS):
        assert answer.status_code == 404
    after = await holder.stored(but=own)
    session = keys.SESSION.encode()
    assert {name: after.get(name) for name in before if session not in name} == {
        name: value for name, value in before.items() if session not in name
    }


@pytest.mark.parametrize("path", WRITES)
async def test_it_does_something_if_all_is_well(
    dashboard: Dashboard, holder: Holder, hers: Browser, path: str
) -> None:
    """Without that, the refusals above prove nothing."""
    token = {} if path in SIGN_IN else {"csrf": await hers.csrf()}
    if path == "/sign-in":
        hers = dashboard.browser()
    before = await holder.stored()
    answer = await holder.send(hers, path, **token)
    assert answer.status_code in (200, 303), answer.text
    assert await holder.stored() != before or "postdate_zone" in answer.headers["set-cookie"]


@contextmanager
def going_away(store: Store, nth: int) -> Iterator[list[object]]:
    """The reply to the n-th call of the store is lost, and it is away from then on. Yields what was
    called."""
    way: Any = store.server.way
    replies, called = way.replies, list[object]()

    async def cut(commands: object, *where: object, **how: object) -> object:
        called.append(commands)
        if len(called) > nth:
            raise StoreUnavailable("The store cannot be reached")
        found = await replies(commands, *where, **how)
        if len(called) == nth:
            raise exceptions.ConnectionError("Connection closed by server.")
        return found

    at_once = (0.0,) * len(server._PAUSES_S)  # it does not come back, however long one waits
    with patch.object(way, "replies", cut), patch.object(server, "_PAUSES_S", at_once):
        yield called


@pytest.mark.slow
@pytest.mark.usefixtures("hasty_repeats")
@pytest.mark.parametrize("path", [path for path in SIGNED_IN if path != "/zone"])
async def test_where_the_store_goes_away_the_page_says_what_is_true(
    dashboard: Dashboard, holder: Holder, hers: Browser, path: str
) -> None:
    csrf = await hers.csrf()
    backup, before = await Backup.of(dashboard.store), await holder.stored(but=keys.ACTS)
    for nth in count(1):
        with going_away(dashboard.store, nth) as called:
            answer = await holder.send(hers, path, csrf=csrf)
        is_unchanged = await holder.stored(but=keys.ACTS) == before
        if answer.status_code == 503:
            assert "Unknown" in answer.text or is_unchanged, nth
        else:
            assert answer.status_code in (200, 303), answer.text
            assert not is_unchanged, nth
        if len(called) < nth:
            assert not is_unchanged
            return
        await backup.restore(await look(dashboard.store))


@pytest.mark.parametrize("path", [path for path in ROUTES if path.startswith(OPERATORS)])
async def test_pages_for_operators_are_not_there_for_others(browser: Browser, path: str) -> None:
    for method in ROUTES[path] - {"OPTIONS"}:
        fields = {"csrf": await browser.csrf()} if method != "GET" else None
        answer = await browser.client.request(
            method, f"/dashboard{path}", data=fields, headers={"origin": ORIGIN}
        )
        assert (answer.status_code, "no such page" in answer.text) == (404, True)
