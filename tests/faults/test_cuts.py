"""The store goes away after each command of every call of the API: the answer is true, and the same
call again comes to the right end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from itertools import count
from typing import Any, NamedTuple

import httpx
import pytest
from msgspec.structs import replace

from api.openapi.operations import OPERATIONS
from scheduler.callbacks import Callback
from scheduler.errors import Reason
from scheduler.lane_settings import LaneSettings, Pause
from scheduler.models import Outcome, Plan, Request, Status
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.lifecycle.callback.callbacks import CallbackAck
from scheduler.store.lifecycle.end.end_rows import Ack
from tests.api.conftest import URL, client_of
from tests.support.apps import app_of, built
from tests.support.plain import redis_of
from tests.support.servers import DroppingProxy, ValkeyProcess

pytestmark = pytest.mark.usefixtures("hasty_repeats")
# Each account has a shard of its own.
SHARDS = 64
BROKEN = Outcome(Status.FAILED, 503, 30, "Service Unavailable")
CALLBACK = f"{URL}/ended"
HOURLY = Timing(every_ms=3_600_000)
_HOUR = {"every": "1h", "targetUrl": URL}
_LATER = {"targetUrl": URL, "delay": "1h"}
_EVER = 10**9


class Case(NamedTuple):
    """A call of an account that `prepared` has made: `{waiting}` in its path or body stands for the
    id of that name. `repeated`: how one that was done may be answered a second time, beside 2xx.
    `knows`: the process has seen the API key before. `follows`: a worker may have to make the
    occurrence after a cancelled one."""

    operation: str
    path: Mapping[str, str] = {}
    body: Any = None
    query: Mapping[str, str] = {}
    repeated: int = 0
    knows: bool = False
    follows: bool = False


CASES = [
    Case("createSchedule", body=_LATER),
    Case("createSchedule", body=_LATER, knows=True),
    Case("createSchedule", body=_LATER | {"reference": "order-1", "onExisting": "replace"}),
    Case("createSchedules", body={"schedules": [_LATER, _LATER, {"targetUrl": URL}]}),
    Case(
        "createSchedules", body={"schedules": [_LATER | {"reference": "a", "onExisting": "keep"}]}
    ),
    Case("listSchedules"),
    Case("listSchedules", query={"status": "failed,scheduled"}),
    Case("listSchedules", query={"callback": "failed"}),
    Case("getSchedule", {"scheduleId": "{waiting}"}),
    Case("changeSchedule", {"scheduleId": "{waiting}"}, {"targetMethod": "PUT"}),
    Case("cancelSchedule", {"scheduleId": "{waiting}"}),
    Case("cancelSchedule", {"scheduleId": "{occurrence}"}, follows=True),
    Case("cancelSchedules", body={"ids": ["{waiting}", "{occurrence}"]}, follows=True),
    Case("cancelSchedules", body={"status": "scheduled", "lane": "slow"}),
    Case("replaySchedule", {"scheduleId": "{failed}"}),
    Case("replaySchedules", body={"ids": ["{failed}"]}),
    Case("replaySchedules", body={"status": "failed"}),
    Case("resendCallback", {"scheduleId": "{failed}"}, repeated=409),
    Case("resendCallbacks", body={"ids": ["{failed}", "{waiting}"]}),
    Case("resendCallbacks", body={"callback": "failed"}),
    Case("getUsage"),
    Case("listLogs"),
    Case("listLogs", query={"status": "failed"}),
    Case("getCredits"),
    Case("getSigningSecrets"),
    Case("rotateSigningSecret"),
    Case("listLanes"),
    Case("getLane", {"lane": "slow"}),
    Case("setLane", {"lane": "slow"}, {"parallelism": 7}),
    Case("changeLane", {"lane": "slow"}, {"paused": True}),
    Case("pauseLane", {"lane": "slow"}, {"pauseNote": "maintenance"}),
    Case("resumeLane", {"lane": "rests"}),
    Case("clearLane", {"lane": "slow"}),
    Case("getAccount"),
    Case("changeAccount", body={"paused": True, "pauseNote": "maintenance"}),
    Case("pauseAccount", body={"pauseNote": "maintenance"}),
    Case("resumeAccount"),
    Case("createRecurring", body=_HOUR),
    Case("listRecurring"),
    Case("listRecurring", query={"state": "paused"}),
    Case("listRecurring", query={"name": "goes"}),
    Case("previewRecurring", query={"cron": "0 9 29 2 *"}),
    Case("getRecurring", {"recurringId": "{active}"}),
    Case("getRecurring", {"recurringId": "name:goes"}),
    Case("changeRecurring", {"recurringId": "{active}"}, {"targetMethod": "PUT"}),
    Case("changeRecurring", {"recurringId": "{active}"}, {"every": "2h"}),
    Case("changeRecurring", {"recurringId": "{active}"}, {"cron": "0 9 29 2 *"}),
    Case("changeRecurring", {"recurringId": "{paused}"}, {"every": "2h"}),
    Case("setRecurring", {"name": "goes"}, _HOUR | {"targetMethod": "PUT"}),
    Case("setRecurring", {"name": "another"}, _HOUR),
    Case("deleteRecurring", {"recurringId": "{active}"}, repeated=404),
    Case("deleteRecurring", {"recurringId": "{paused}"}, repeated=404),
    Case("pauseRecurring", {"recurringId": "{active}"}, {"pauseNote": "maintenance"}),
    Case("pauseRecurring", {"recurringId": "{paused}"}, {"pauseNote": "maintenance"}),
    Case("changeRecurring", {"recurringId": "{paused}"}, {"paused": False, "lane": "slow"}),
    Case("resumeRecurring", {"recurringId": "{paused}"}),
    Case("triggerRecurring", {"recurringId": "{active}"}),
]
# They ask the store nothing, or not for an account.
APART = {"getHealth", "getReadiness"}
ROUTES = {
    of_method["operationId"]: (method.upper(), path)
    for path, methods in built().state.document["paths"].items()
    for method, of_method in methods.items()
}


class Account(NamedTuple):
    """One that has something of each kind, and the ids of these."""

    account_id: str
    key: str
    ids: Mapping[str, str]

    @property
    def shard(self) -> int:
        return keys.parts(self.account_id).shard


async def prepared(store: Store) -> Account:
    made = await store.accounts.create(
        f"of {await redis_of(store).dbsize()}", credits=100, plan=Plan.UNLIMITED
    )
    account_id, shard = made.account_id, keys.parts(made.account_id).shard
    _, key = await store.api_keys.create(account_id, "test")
    await store.lanes.put(account_id, "slow", LaneSettings(parallelism=5))
    later_ms = store.clock.now_ms() + 3_600_000
    fields: dict[str, Any] = {"lane": "slow", "reference": "order-1"}
    waiting = await store.schedules.create(account_id, Request(later_ms, "POST", URL, **fields))
    failed = await store.schedules.create(
        account_id, Request(1, "POST", URL, callback=Callback(CALLBACK))
    )
    held = await store.claims.claim(shard, lease_ms=15_000, most=9)
    assert await store.ends.ack(shard, [Ack(each, BROKEN, 0) for each in held.invocations]) == [1]
    calls = await store.claims.claim(shard, lease_ms=15_000, most=9)
    ends = [CallbackAck(each, BROKEN) for each in calls.invocations]
    assert await store.callbacks.ack(shard, ends) == [1]
    active, paused = [
        (
            await store.recurring.create(account_id, Draft(Request(0, "POST", URL), HOURLY, name))
        ).rule
        for name in ("goes", "rests")
    ]
    await store.recurring.pause(account_id, paused.recurring_id, Pause("us"))
    await store.lanes.change(account_id, "rests", lambda old: replace(old, pause=Pause("us")))
    await store.pauses.change(account_id, lambda old: replace(old, pause=Pause("us")))
    ids = {"waiting": waiting, "failed": failed, "occurrence": active.schedule_id or ""}
    ids |= {"active": active.recurring_id, "paused": paused.recurring_id}
    return Account(account_id, key, ids)


class Stores(NamedTuple):
    """One behind the proxy, which the calls go by, and one that nothing happens to."""

    settings: Settings
    proxy: DroppingProxy
    cut: Store
    sound: Store

    async def call(self, case: Case, account: Account) -> httpx.Response:
        method, path = ROUTES[case.operation]
        headers = {"idempotency-key": "this-call"} if OPERATIONS[case.operation].once else {}
        path = path.format_map(case.path).format_map(account.ids)
        async with client_of(app_of(self.settings, self.cut), account.key) as client:
            return await client.request(
                method,
                path,
                json=_named(case.body, account.ids),
                params=case.query,
                headers=headers,
            )

    async def tend(self, account: Account) -> None:
        """As a worker does in the course of time."""
        rules = [account.ids["active"], account.ids["paused"]]
        await self.sound.recurring.tend(account.account_id, rules)

    async def dump(self, account: Account) -> dict[bytes, bytes]:
        """All that the account's shard has, but for what a call counts before it is judged."""
        client, prefix = redis_of(self.sound), keys.shard(account.shard)
        counted = (prefix + keys.API_KEY, keys.account(account.account_id) + keys.SCANS)
        names = [each for each in await client.keys(prefix + "*") if not _begins(each, counted)]
        async with client.pipeline(transaction=True) as pipe:
            for name in names:
                pipe.dump(name)
            return dict(zip(names, await pipe.execute(), strict=True))

    async def state(self, account: Account) -> Any:
        """How all stands, without ids and times."""
        app = app_of(self.settings, self.sound)
        found = []
        async with client_of(app, account.key) as client:
            for path, what, shown in _SHOWN:
                answer = await client.get(path)
                assert answer.status_code == 200, answer.text
                of_all = answer.json() if what is None else answer.json()[what]
                rows = of_all if isinstance(of_all, list) else [of_all]
                found.append(sorted(repr([_at(each, name) for name in shown]) for each in rows))
        return found


_SHOWN: list[tuple[str, str | None, tuple[str, ...]]] = [
    ("/stats/remaining-credits", None, ("creditsRemaining",)),
    (
        "/schedule?limit=100&status=scheduled,failed,cancelled,completed",
        "schedules",
        ("status", "targetMethod", "lane", "reference", "retries"),
    ),
    ("/schedule?status=failed", "schedules", ("callback.status",)),
    ("/lanes", "lanes", ("lane", "parallelism", "paused", "waiting")),
    ("/recurring", "recurring", ("name", "state", "every", "cron", "targetMethod")),
    ("/account", None, ("paused", "note")),
    ("/signing", "secrets", ()),
]


def _at(row: Any, name: str) -> Any:
    for part in name.split("."):
        row = row and row.get(part)
    return row


def _begins(name: bytes, prefixes: tuple[str, ...]) -> bool:
    return name.decode().startswith(prefixes)


def _named(body: Any, ids: Mapping[str, str]) -> Any:
    if isinstance(body, list):
        return [_named(each, ids) for each in body]
    if isinstance(body, dict):
        return {name: _named(each, ids) for name, each in body.items()}
    return body.format_map(ids) if isinstance(body, str) else body


@pytest.fixture
async def stores(
    valkey: ValkeyProcess, proxy: DroppingProxy, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stores]:
    monkeypatch.setattr("scheduler.store.server.server._PAUSES_S", (0.0, 0.0))
    direct = Settings(redis_url=valkey.url, shards=SHARDS)
    cut = Settings(redis_url=proxy.url, shards=SHARDS)
    async with (
        aclosing(await Store.open(direct)) as sound,
        aclosing(await Store.open(cut)) as store,
    ):
        yield Stores(cut, proxy, store, sound)
        assert await sound.check() == []


def test_the_table_has_every_call() -> None:
    assert {case.operation for case in CASES} | APART == set(ROUTES) == set(OPERATIONS)


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{number}-{case.operation}" for number, case in enumerate(CASES)]
)
async def test_a_cut_call_is_answered_truly(stores: Stores, case: Case) -> None:
    account = await prepared(stores.sound)
    answer = await stores.call(case, account)
    assert answer.is_success, answer.text
    done = await stores.state(account)
    has_written = await _cut_each(stores, case, done, "the reply, and stays away", [])
    if ROUTES[case.operation][0] == "GET":
        assert not any(has_written)
        return
    assert has_written[-1]
    await _cut_each(stores, case, done, "the command, and stays away", has_written)
    await _cut_each(stores, case, done, "the reply", has_written)


async def _cut_each(
    stores: Stores, case: Case, done: Any, what: str, written: list[bool]
) -> list[bool]:
    """Loses `what` of the n-th command of a call, for each n. Returns whether something was written
    by then; `written` has that of the loss of a reply."""
    has_written: list[bool] = []
    account = await prepared(stores.sound)
    for nth in count(1):
        if has_written and has_written[-1]:
            account = await prepared(stores.sound)
        await stores.cut.ping()  # over the one connection of all commands
        if case.knows:
            assert await stores.cut.api_keys.admit(account.key) is not None
        before = await stores.dump(account)
        _lose(stores.proxy, what, nth)
        answer = await stores.call(case, account)
        lost, stores.proxy.dropped = stores.proxy.dropped, 0
        stores.proxy.heal()
        after = await stores.dump(account)
        has_written.append(after != before)
        where = f"{case.operation}, {what}, command {nth}: {answer.text}"
        if answer.is_success:
            if case.follows:
                await stores.tend(account)
            assert await stores.state(account) == done, where
        else:
            _judge(case, answer, after == before, where)
            # What was certainly not written is not unknown.
            may_have_written = (written or has_written)[nth - 1]
            assert may_have_written or reason(answer) == Reason.STORE_UNAVAILABLE, where
        if not answer.is_success and has_written[-1]:
            again = await stores.call(case, account)
            assert again.is_success or again.status_code == case.repeated, where + again.text
            await stores.tend(account)
            assert await stores.state(account) == done, where
        if not lost:
            assert answer.is_success, where
            return has_written
    raise AssertionError


def _lose(proxy: DroppingProxy, what: str, nth: int) -> None:
    if "reply" in what:
        proxy.drop_reply(b"", nth=nth)
    if "command" in what or "away" in what:
        proxy.drop_command(b"", nth=nth, times=_EVER if "away" in what else 1)


def reason(answer: httpx.Response) -> Reason:
    return Reason(answer.json()["reason"])


def _judge(case: Case, answer: httpx.Response, is_unchanged: bool, where: str) -> None:
    assert answer.status_code == 503, where
    assert int(answer.headers["retry-after"]) >= 1
    if reason(answer) is Reason.STORE_UNAVAILABLE:
        assert is_unchanged, where
    else:
        assert reason(answer) is Reason.OUTCOME_UNKNOWN, where
        takes_key = OPERATIONS[case.operation].once
        assert ("Idempotency-Key" in answer.json()["error"]) == takes_key, where
