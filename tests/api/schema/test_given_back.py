"""What a GET shows can be given back, and then nothing changes: schedules, occurrences, recurring
schedules, lanes and the account with random settings, in each state that they may be in. Which
fields a call takes, and of which type, is read from the OpenAPI document."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from scheduler.models import Outcome, Plan, Status
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.times import format_iso8601
from tests.api.conftest import Api, api_of, past
from tests.samples import SAMPLES
from tests.support.apps import app_of
from tests.support.plain import keeping, redis_of
from tests.support.valkey import ValkeyProcess

# In all 1,050 rounds on each server, of which `make test` makes the first 100.
ROUNDS_OF_A_WALK = 25
DAY_MS = 86_400_000
FAILED = Outcome(Status.FAILED, 503, 1, "busy")
# What answers show by the clock.
BY_THE_CLOCK = {"emptyAt", "heldBy", "next"}
# Of texts that keep a grammar, and of numbers of which one bounds another.
OWN: dict[str, list[Any]] = {
    "cron": ["0 9 * * 1-5", "*/15 8-10 * * MON", "0 0 L * *", "30 2 * * *"],
    "every": ["1h", 90, "36h", "1d12h"],
    "timeZone": ["UTC", "Europe/Berlin", "America/New_York"],
    "name": ["report", "a:b", "0"],
    "expiresAfter": ["10m", 3, "2d"],
    "rate": [5, 10, 100_000],
    "per": ["1s", 60, "1h30m", "1d"],
    "burst": [1, 2, 5],
    **{name: [v for v in values if len(str(v)) < 1000] for name, values in SAMPLES.items()},
    "callbackUrl": [*SAMPLES["callbackUrl"], "default"],
    "retryDelays": [*SAMPLES["retryDelays"], ["10s", "1m", "10m", "1h", "6h"], [5]],
    "delay": ["1h", 7200],
}


class Fields:
    """Of each call with a body, by operation: its name, and its schema."""

    def __init__(self, document: dict[str, Any], chance: random.Random) -> None:
        self._document, self._random = document, chance
        self.of = {
            operation["operationId"]: dict(self._properties(self._schema_of(operation)))
            for item in document["paths"].values()
            for operation in item.values()
            if "operationId" in operation and "requestBody" in operation
        }

    def some(self, operation: str, now_ms: int, **always: Any) -> dict[str, Any]:
        """A body with some of the fields. It need not be valid."""
        share = self._random.choice((0.1, 0.2, 0.4))
        given = {
            name: self._value(name, schema, now_ms)
            for name, schema in self.of[operation].items()
            if self._random.random() < share
        }
        return given | always

    def shown(self, operation: str, answer: bytes) -> bytes:
        """A body with all fields of the call that the answer has, in the same text."""
        members = msgspec.json.decode(answer, type=dict[str, msgspec.Raw])
        taken = {name: text for name, text in members.items() if name in self.of[operation]}
        return msgspec.json.encode(taken)

    def _value(self, name: str, schema: dict[str, Any], now_ms: int) -> Any:
        schema, chance = self._resolved(schema), self._random
        if name in OWN and chance.random() < 0.85:
            return chance.choice(OWN[name])
        if "anyOf" in schema:
            return self._value(name, chance.choice(schema["anyOf"]), now_ms)
        if "enum" in schema:
            return chance.choice(schema["enum"])
        types = schema["type"]
        kind = types if isinstance(types, str) else chance.choice(types)
        if kind == "null" or name in OWN:
            return None
        if kind == "boolean":
            return chance.random() < 0.5
        if kind == "integer":
            return chance.randint(schema.get("minimum", 0), schema.get("maximum", 100))
        if schema.get("format") == "date-time":
            return format_iso8601(now_ms + chance.randint(DAY_MS // 24, 30 * DAY_MS))
        letters = "ab Z09.;ä→🙂"
        return "".join(
            chance.choices(letters, k=chance.randint(0, min(40, schema.get("maxLength", 40))))
        )

    def _schema_of(self, operation: dict[str, Any]) -> dict[str, Any]:
        return dict(operation["requestBody"]["content"]["application/json"]["schema"])

    def _properties(self, schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        schema = self._resolved(schema)
        yield from schema.get("properties", {}).items()
        for way in ("allOf", "anyOf", "oneOf"):
            for part in schema.get(way, ()):
                yield from self._properties(part)

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            found = self._document
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            schema = found
        return schema


class Back(NamedTuple):
    """What was made: where it is read, and the call that takes what is shown there."""

    path: str
    method: str
    to: str
    operation: str


class Walk:
    """One account, with what random calls make in it."""

    def __init__(self, api: Api, fields: Fields, chance: random.Random) -> None:
        self.api, self.fields, self.random = api, fields, chance
        self.given: list[str] = []
        self.makes: list[Callable[[], Awaitable[Back]]] = [
            *(self.schedule, self.schedule, self.occurrence, self.rule, self.rule),
            *(self.lane, self.account),
        ]

    async def made(self, method: str, path: str, operation: str, **always: Any) -> dict[str, Any]:
        """The answer to a call with random fields that are accepted."""
        while True:
            body = self.fields.some(operation, self.api.store.clock.now_ms(), **always)
            answer = await self.api.client.request(method, path, json=body)
            assert answer.status_code in (200, 201, 400, 409), answer.text
            if answer.status_code < 400:
                self.given.append(f"{method} {path} {json.dumps(body)}")
                return dict(answer.json())

    async def schedule(self) -> Back:
        state = self.random.choice(("waits", "is due", "failed"))
        when = {"delay": "1d"} if state == "waits" else {"triggerAt": past()}
        always = {"targetUrl": self.random.choice(OWN["targetUrl"]), "onExisting": None}
        always |= {"triggerAt": None, "delay": None, "maxWait": None} | when
        if state == "failed":
            always["retries"] = 3
        made = await self.made("POST", "/schedule", "createSchedule", **always)
        if state == "failed":
            due_ms = self.api.store.clock.now_ms() + DAY_MS
            for held in await self.api.claim():
                await self.api.store.ends.ack(held.shard, [Ack(held, FAILED, 1, due_ms)])
        path = f"/schedule/{made['scheduleId']}"
        return Back(path, "PATCH", path, "changeSchedule")

    async def occurrence(self) -> Back:
        _, rule = await self._rule()
        path = f"/schedule/{rule['scheduleId']}"
        if self.random.random() < 0.5:
            await self.made("PATCH", path, "changeSchedule")
        return Back(path, "PATCH", path, "changeSchedule")

    async def rule(self) -> Back:
        name, rule = await self._rule()
        path, of_one = f"/recurring/{rule['recurringId']}", f"/schedule/{rule['scheduleId']}"
        for _ in range(self.random.randint(0, 2)):
            what = self.random.choice(("pause", "cancel", "change", "move"))
            match what:
                case "pause":
                    await self.api.client.post(f"{path}/pause")
                case "cancel":
                    await self.api.client.delete(of_one)
                case "change":
                    await self.made("PATCH", path, "changeRecurring", name=name)
                case "move":
                    await self.api.client.patch(of_one, json={"delay": "2d", "lane": "of-its-own"})
        if self.random.random() < 0.5:
            return Back(path, "PUT", f"/recurring/by-name/{name}", "setRecurring")
        return Back(path, "PATCH", path, "changeRecurring")

    async def _rule(self) -> tuple[str, dict[str, Any]]:
        name = f"rule-{len(self.given)}"
        always = {"targetUrl": self.random.choice(OWN["targetUrl"]), "name": name, "endsAt": None}
        when = self.random.choice(({"cron": None}, {"every": None}))
        [other] = {"cron", "every"} - when.keys()
        always |= when | {other: self.random.choice(OWN[other])}
        rule = await self.made("PUT", f"/recurring/by-name/{name}", "setRecurring", **always)
        return name, rule

    async def lane(self) -> Back:
        path = f"/lanes/lane-{len(self.given)}"
        for method, operation in self.random.choices(
            (("PUT", "setLane"), ("PATCH", "changeLane")), k=self.random.randint(1, 3)
        ):
            await self.made(method, path, operation)
        await self.made("PUT", path, "setLane", note="it is set")
        if self.random.random() < 0.3:
            key = keys.account(self.api.account_id) + keys.LANE + path.removeprefix("/lanes/")
            calm_ms = self.api.store.clock.now_ms() + DAY_MS
            await redis_of(self.api.store).hset(key, "calm", calm_ms)
        return self.random.choice(
            (Back(path, "PUT", path, "setLane"), Back(path, "PATCH", path, "changeLane"))
        )

    async def account(self) -> Back:
        await self.made("PATCH", "/account", "changeAccount")
        return Back("/account", "PATCH", "/account", "changeAccount")

    async def stands(self) -> dict[bytes, bytes]:
        """Each key of the store, as it is."""
        redis = redis_of(self.api.store)
        names = sorted(await redis.keys("*"))
        async with redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.dump(name)
            return dict(zip(names, await pipe.execute(), strict=True))

    async def round(self) -> None:
        back, client = await self.random.choice(self.makes)(), self.api.client
        shown = await client.get(back.path)
        body = self.fields.shown(back.operation, shown.content)
        self.given.append(f"{back.method} {back.to} {body.decode()}")
        before = await self.stands()
        answer = await client.request(back.method, back.to, content=body)
        assert answer.status_code == 200, answer.text
        after = await self.stands()
        assert [key for key in before | after if before.get(key) != after.get(key)] == []
        again = await client.get(back.path)
        assert of_the_owner(again.content) == of_the_owner(shown.content)
        assert again.headers.get("etag") == shown.headers.get("etag")
        assert answer.headers.get("etag") in (None, shown.headers.get("etag"))


def of_the_owner(answer: bytes) -> dict[str, Any]:
    return {n: v for n, v in msgspec.json.decode(answer).items() if n not in BY_THE_CLOCK}


async def walk(settings: Settings, store: Store, seed: int) -> None:
    chance = random.Random(seed)
    async with api_of(app_of(settings, store), store, 1000, Plan.UNLIMITED) as api:
        document = (await api.client.get("/schema/openapi.json")).json()
        walk = Walk(api, Fields(document, chance), chance)
        for _ in range(ROUNDS_OF_A_WALK):
            try:
                await walk.round()
            except AssertionError as error:
                error.add_note("\n".join((f"seed {seed}", *walk.given[-6:])))
                raise
        assert await store.check() == []


@pytest.mark.parametrize(
    "seeds",
    [pytest.param(range(4), id="4 walks")]
    + [
        pytest.param(range(n, n + 19), id=f"19 from {n}", marks=pytest.mark.slow)
        for n in range(4, 42, 19)
    ],
)
@pytest.mark.both_servers
async def test_what_is_shown_can_be_given_back_and_changes_nothing(
    valkey: ValkeyProcess, seeds: range
) -> None:
    """Encrypted: a value that is written again is other bytes."""
    settings = Settings(redis_url=valkey.url, shards=2, secret_key=(b"k" * 32,))
    for seed in seeds:
        valkey.flush()
        store = await Store.open(settings)
        try:
            async with keeping(store):
                await walk(settings, store, seed)
        finally:
            await store.aclose()
