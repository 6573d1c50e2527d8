"""As test_cuts.py, with calls of the QStash door: the store goes away after each command."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from itertools import count
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest

from api.qstash.app import create_door
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from tests.faults.test_cuts import SHARDS, _lose
from tests.qstash.conftest import URL, Door, client_of, door_of
from tests.qstash.ends import LOST, end, letter_of, publish
from tests.support.apps import app_of
from tests.support.plain import redis_of
from tests.support.servers import DroppingProxy, ValkeyProcess

pytestmark = pytest.mark.usefixtures("hasty_repeats")
_UNKNOWN = "Outcome unknown; repeat "
_LATER = {"upstash-delay": "1h"}
_ONCE = _LATER | {"upstash-deduplication-id": "order-1"}
_FLOW = {"upstash-flow-control-key": "k", "upstash-flow-control-value": "parallelism=2,rate=9"}
_DAILY = {"upstash-cron": "0 9 * * *", "upstash-schedule-id": "daily"}


def _item(number: int, headers: Mapping[str, str] = _LATER, **more: str) -> dict[str, Any]:
    return {"destination": f"{URL}/{number}", "headers": headers, **more}


def _items(*numbers: int) -> list[dict[str, Any]]:
    """Each is published once."""
    return [_item(n, _LATER | {"upstash-deduplication-id": f"order-{n}"}) for n in numbers]


class Case(NamedTuple):
    """A call below /qstash/v2. `{waiting}`, `{letter}` stand for ids. `repeated`: how one that was
    done may be answered a second time, beside 200. `adds`: each repeat does more."""

    method: str
    path: str
    headers: Mapping[str, str] = {}
    body: Any = None
    repeated: int = 200
    adds: bool = False


CASES = [
    Case("POST", f"/publish/{URL}", _ONCE),
    Case("POST", f"/publish/{URL}", _LATER | {"upstash-content-based-deduplication": "true"}),
    Case("POST", f"/publish/{URL}", _ONCE | _FLOW),
    Case("POST", f"/publish/{URL}", _LATER, adds=True),
    Case("POST", f"/enqueue/mail/{URL}", _ONCE),
    Case("POST", "/batch", body=_items(1, 2, 3)),
    Case("POST", "/batch", body=[_item(1), _item(2, queue="mail")], adds=True),
    Case("POST", "/batch", body=[_item(1), *_items(2, 3), _item(4)], adds=True),
    Case("DELETE", "/messages/{waiting}", repeated=404),
    Case("DELETE", "/messages", body={"messageIds": ["{waiting}"]}),
    Case("DELETE", "/messages", body={"url": URL}),
    Case("POST", "/dlq/retry", body={"dlqIds": ["{letter}"]}),
    Case("POST", "/dlq/retry", body={"label": "lost"}),
    Case("DELETE", "/dlq/{letter}", repeated=404),
    Case("DELETE", "/dlq", body={"dlqIds": ["{letter}"]}),
    Case("POST", f"/schedules/{URL}", _DAILY),
    Case("POST", f"/schedules/{URL}/other", _DAILY | _FLOW | {"upstash-schedule-id": "nightly"}),
    Case("PATCH", "/schedules/nightly/pause"),
    Case("PATCH", "/schedules/rests/resume"),
    Case("DELETE", "/schedules/nightly", repeated=404),
    Case("POST", "/queues", body={"queueName": "mail", "parallelism": 4}),
    Case("POST", "/queues/mail/pause"),
    Case("DELETE", "/queues/slow"),
    Case("POST", "/flowControl/k/pin?parallelism=3"),
    Case("POST", "/flowControl/k/resetRate"),
    Case("GET", "/keys"),
    Case("POST", "/keys/rotate", adds=True),
]
WAYS = ["the reply", "the reply, and stays away", "the command, and stays away"]


class Doors(NamedTuple):
    """One behind the proxy, which the calls go by, and one that nothing happens to."""

    proxy: DroppingProxy
    cut: Store
    sound: Store
    settings: Settings

    async def account(self) -> tuple[Door, dict[str, str]]:
        """One that has something of each kind, and the ids of these."""
        door = await door_of(app_of(self.settings, self.sound, create_door), self.sound)
        lost = await publish(door, label="lost", retries="0")
        await end(door, LOST)
        waiting = await publish(door, delay="1h")
        for name in ("nightly", "rests"):
            headers = _DAILY | {"upstash-schedule-id": name}
            await _call(door, Case("POST", f"/schedules/{URL}", headers), {})
        await _call(door, Case("PATCH", "/schedules/rests/pause"), {})
        await _call(door, Case("POST", "/queues", body={"queueName": "slow"}), {})
        rule = await self.sound.recurring.id_of(door.account_id, "nightly")
        return door, {"waiting": waiting, "letter": letter_of(lost), "rule": rule}

    def behind_the_proxy(self, door: Door) -> Door:
        app = app_of(self.settings, self.cut, create_door)
        return msgspec.structs.replace(
            door, app=app, store=self.cut, client=client_of(app, door.key)
        )

    async def dump(self, account_id: str) -> dict[bytes, bytes]:
        """All that the account's shard has, but for what a call counts before it is judged."""
        client, prefix = redis_of(self.sound), keys.shard(keys.parts(account_id).shard)
        counted = prefix + keys.API_KEY, keys.account(account_id) + keys.SCANS
        names = [
            each
            for each in await client.keys(prefix + "*")
            if not each.decode().startswith(counted)
        ]
        async with client.pipeline(transaction=True) as pipe:
            for name in names:
                pipe.dump(name)
            return dict(zip(names, await pipe.execute(), strict=True))


async def _call(door: Door, case: Case, ids: Mapping[str, str]) -> httpx.Response:
    path, body = case.path, json.dumps(case.body) if case.body is not None else ""
    for name, value in ids.items():
        path, body = path.replace(f"{{{name}}}", value), body.replace(f"{{{name}}}", value)
    return await door.client.request(
        case.method, f"/qstash/v2{path}", content=body, headers=dict(case.headers)
    )


async def _state(door: Door) -> list[Any]:
    """How all stands, without ids and times."""
    native = {"x-api-key": door.key}
    found: list[Any] = [await door.credits()]
    for path, name, shown in (
        ("/schedule?limit=100&status=scheduled,failed,cancelled", "schedules", "status targetUrl"),
        ("/lanes", "lanes", "lane parallelism rate paused waiting"),
        ("/recurring", "recurring", "name state targetUrl"),
    ):
        answer = await door.client.get(path, headers=native)
        assert answer.status_code == 200, answer.text
        rows = [[each.get(field) for field in shown.split()] for each in answer.json()[name]]
        found.append(sorted(map(repr, rows)))
    letters = await door.client.get("/qstash/v2/dlq")
    return [*found, len(letters.json()["messages"])]


@pytest.fixture
async def doors(valkey: ValkeyProcess, proxy: DroppingProxy) -> AsyncIterator[Doors]:
    settings = Settings(redis_url=valkey.url, shards=SHARDS, qstash="on")
    cut = Settings(redis_url=proxy.url, shards=SHARDS, qstash="on")
    async with (
        aclosing(await Store.open(settings)) as sound,
        aclosing(await Store.open(cut)) as store,
    ):
        yield Doors(proxy, store, sound, cut)
        assert await sound.check() == []


@pytest.mark.parametrize(
    "what", ["the reply", "the reply, and stays away", "the command, and stays away"]
)
@pytest.mark.parametrize(
    "case", CASES, ids=[f"{number}-{case.method}" for number, case in enumerate(CASES)]
)
async def test_a_cut_call_is_answered_truly(doors: Doors, case: Case, what: str) -> None:
    """A 503 that does not call its outcome unknown has changed nothing, and the same call again
    comes to the end that one call has."""
    door, ids = await doors.account()
    answer = await _call(door, case, ids)
    assert answer.status_code == 200, answer.text
    done, changed = await _state(door), True
    for nth in count(1):
        if changed:
            door, ids = await doors.account()
        await doors.cut.ping()  # over the one connection of all commands
        before = await doors.dump(door.account_id)
        _lose(doors.proxy, what, nth)
        answer = await _call(doors.behind_the_proxy(door), case, ids)
        lost, doors.proxy.dropped = doors.proxy.dropped, 0
        doors.proxy.heal()
        where = f"{case.method} {case.path}, {what}, command {nth}: {answer.text}"
        changed = await doors.dump(door.account_id) != before
        if answer.status_code != 200:
            assert answer.status_code == 503, where
            assert int(answer.headers["retry-after"]) >= 1
            is_unknown = answer.json()["error"].startswith(_UNKNOWN)
            # The first look at the keys makes them.
            assert is_unknown or not changed or case.method == "GET", where
            if not changed or case.adds:
                continue
            again = await _call(door, case, ids)
            assert again.status_code in (200, case.repeated), where
            # As a worker does in the course of time.
            await doors.sound.recurring.tend(door.account_id, [ids["rule"]])
        assert await _state(door) == done, where
        if not lost:
            assert answer.status_code == 200, where
            return
