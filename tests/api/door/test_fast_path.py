"""Creates past the parser and past ASGI: as they are on the usual way."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from unittest.mock import AsyncMock

import msgspec
import pytest
from uvicorn.server import ServerState

from api.app import App
from api.door.connections import ConnectionLimits
from api.door.fast_path import _MOST_HEADS, _MOST_HEADS_OF_A_KEY, FastPath, KnownHeads
from api.reading import SMALL_BYTES
from api.serve import uvicorn_config
from scheduler.callers import KnownKey
from scheduler.errors import InsufficientCredits, OutcomeUnknown, StoreUnavailable
from scheduler.models import Plan, Request
from scheduler.runtime.settings import Settings
from scheduler.store import keys
from tests.api.conftest import CREDITS, URL, Api, payload
from tests.api.schema.test_payload import BAD, NO_JSON, RULES, TAKEN
from tests.support.apps import app_of
from tests.support.waiting import until_async

USUAL = "X-Usual: 1\r\n"


class Answer(NamedTuple):
    """An answer, without its request's id."""

    status: int
    headers: list[str]
    body: dict[str, Any]

    @property
    def unnamed(self) -> Answer:
        """Without what differs between two creates."""
        names = [line.partition(":")[0] for line in self.headers]
        body = {name: value for name, value in self.body.items() if not name.endswith("Id")}
        return Answer(self.status, names if self.status == 201 else self.headers, body)


class Connection(asyncio.Transport):
    """A connection of an app in this process."""

    def __init__(
        self,
        api: Any,
        heads: KnownHeads,
        kind: type[FastPath] = FastPath,
        address: str = "127.0.0.1",
    ) -> None:
        super().__init__({"peername": (address, 1)})
        assert isinstance(api.app, App)
        service, guard = api.app.state.service, ConnectionLimits(api.app.state.service.settings)
        config = uvicorn_config(api.app, guard, service)
        config.load()
        self._key, self.written, self._closing = api.key, bytearray(), False
        self.reads = True
        self.protocol = kind(
            service, heads, guard, config=config, server_state=ServerState(), app_state={}
        )
        self.protocol.connection_made(self)

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self._closing = True

    abort = close

    def is_closing(self) -> bool:
        return self._closing

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    @property
    def was_fast(self) -> bool:
        """Whether the parser has seen nothing."""
        return self.protocol.cycle is None

    def request(self, body: bytes, more: str = "", line: str = "POST /schedule HTTP/1.1") -> bytes:
        lines = f"{line}\r\nHost: api\r\nX-API-Key: {self._key}\r\n{more}"
        return f"{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body

    async def ask(self, data: bytes) -> Answer:
        self.protocol.data_received(data)
        return await self.answer()

    async def answer(self) -> Answer:
        """The next one."""
        found: Answer | None = await until_async(self._taken, "an answer")
        assert found is not None
        return found

    def _taken(self) -> Answer | None:
        head, _, rest = bytes(self.written).partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        sizes = [int(line[16:]) for line in lines if line.startswith("content-length: ")]
        if not sizes or len(rest) < sizes[0]:
            return None
        self.written = bytearray(rest[sizes[0] :])
        [request_id] = [line for line in lines if line.startswith("postdate-request-id: ")]
        lines.remove(request_id)
        body = json.loads(rest[: sizes[0]])
        assert body.pop("requestId", request_id) in request_id
        return Answer(int(lines[0].split()[1]), lines[1:], body)


class Two(NamedTuple):
    """An app, with a head that is known; each way has connections of its own."""

    api: Api
    heads: KnownHeads

    @classmethod
    async def of(cls, api: Api) -> Two:
        two = cls(api, KnownHeads())
        connection = two.connection()
        first = await connection.ask(connection.request(json.dumps(payload()).encode()))
        assert first.status == 201
        return two

    def connection(self) -> Connection:
        return Connection(self.api, self.heads)

    async def answers(self, body: bytes) -> tuple[Answer, Answer, bool]:
        """Of the usual way and of the fast one, and whether it was that."""
        usual, fast = self.connection(), self.connection()
        told = await usual.ask(usual.request(body, USUAL)), await fast.ask(fast.request(body))
        return *told, fast.was_fast


@pytest.fixture
async def two(api: Api) -> Two:
    return await Two.of(api)


async def test_both_ways_answer_and_store_the_same(two: Two) -> None:
    for fields, _ in TAKEN:
        body = json.dumps(payload(**fields | {"triggerAt": None, "expiresAt": None, "delay": "1h"}))
        usual, fast, was_fast = await two.answers(body.encode())
        assert usual.status == 201
        assert was_fast == (len(body) <= SMALL_BYTES)
        assert usual.unnamed.headers == fast.unnamed.headers
        stored = [await two.api.stored(each.body["scheduleId"]) for each in (usual, fast)]
        one, other = [msgspec.structs.replace(each, trigger_at_ms=0) for each in stored]
        assert one == other
    assert await two.api.store.check() == []


async def test_bad_bodies_get_the_usual_answer(two: Two) -> None:
    bodies = [json.dumps(payload(**fields)).encode() for fields, _ in BAD]
    for body in [*bodies, *NO_JSON]:
        usual, fast, was_fast = await two.answers(body)
        assert usual.unnamed == fast.unnamed
        assert was_fast == (usual.status == 201)


async def deactivate(api: Api) -> None:
    [key] = await api.store.api_keys.of_account(api.account_id)
    await api.store.api_keys.deactivate(key.key_id)


async def suspend(api: Api) -> None:
    await api.store.changes.suspend(api.account_id)


async def spend(api: Api) -> None:
    request = Request(2**42, "POST", "https://example.com")
    await api.store.schedules.create_all(api.account_id, [request] * CREDITS)


@pytest.mark.parametrize(("act", "status"), [(deactivate, 401), (suspend, 403), (spend, 402)])
async def test_refusals_of_the_store_get_the_usual_answer(
    two: Two, act: Callable[[Api], Awaitable[None]], status: int
) -> None:
    await act(two.api)
    gc.collect()
    gc.disable()
    try:
        usual, fast, _ = await two.answers(json.dumps(payload()).encode())
        left = [each for each in gc.get_objects() if isinstance(each, InsufficientCredits)]
    finally:
        gc.enable()
    assert (usual.status, usual) == (status, fast)
    assert await two.api.credits() == (0 if act is spend else CREDITS - 1)
    assert not left  # it would be for the collector


@pytest.mark.parametrize("error", [StoreUnavailable("x"), OutcomeUnknown("x"), OSError("x")])
async def test_faults_get_the_usual_answer(
    two: Two, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr("scheduler.store.server.server._PAUSES_S", (0.0,))
    monkeypatch.setattr(two.api.store.server, "write", AsyncMock(side_effect=error))
    usual, fast, _ = await two.answers(json.dumps(payload()).encode())
    assert (usual.status, usual) == (500 if isinstance(error, OSError) else 503, fast)


async def test_each_request_counts_once_against_the_rate_and_beyond_it_is_429(api: Api) -> None:
    """Also one that is refused: its credits are spent."""
    async with api.another(1, Plan.FREE) as limited:
        two, body = await Two.of(limited), json.dumps(payload()).encode()
        rate = keys.account(limited.account_id) + keys.RATE
        await two.api.store.server.call("DEL", rate)
        usual, fast, _ = await two.answers(body)
        assert (usual.status, usual.body) == (402, fast.body)
        left = [line for each in (usual, fast) for line in each.headers if "remaining" in line]
        assert left == [f"ratelimit-remaining: {n}" for n in (9, 8)]
        await two.api.store.server.call("SET", rate, 2**52)
        usual, fast, _ = await two.answers(body)
        assert (usual.status, usual) == (429, fast)


BODY = json.dumps({"targetUrl": URL, "delay": "1h"}).encode()


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"more": "Idempotency-Key: 1\r\n"}, 201),
        ({"more": "Accept: a\r\nAccept: b\r\n"}, 201),
        ({"more": "Connection: close\r\n"}, 201),
        ({"more": "traceparent: 00-1-1-01\r\n"}, 201),
        ({"line": "POST /schedule HTTP/1.0"}, 201),
        ({"line": "POST /schedule?limit=1 HTTP/1.1"}, 400),
        ({"line": "POST /schedule/ HTTP/1.1"}, 404),
        ({"body": b"{" + b" " * SMALL_BYTES + BODY[1:]}, 201),
        ({"body": b""}, 400),
    ],
)
async def test_others_go_the_usual_way(two: Two, changes: dict[str, Any], status: int) -> None:
    for _ in range(2):
        connection = two.connection()
        answer = await connection.ask(connection.request(**({"body": BODY} | changes)))
        assert (answer.status, connection.was_fast) == (status, False)


@pytest.mark.parametrize(
    ("more", "statuses"),
    [
        ("Authorization: Bearer {key}\r\n", [(201, False), (201, True)]),
        ("Authorization: Basic YTpi\r\n", [(201, False), (201, True)]),
        ("Authorization: Bearer pd_00_other\r\n", [(401, False), (401, False)]),
    ],
)
async def test_a_head_with_authorization_is_known_once_it_led_to_a_201(
    two: Two, more: str, statuses: list[tuple[int, bool]]
) -> None:
    found = []
    for _ in statuses:
        connection = two.connection()
        answer = await connection.ask(connection.request(BODY, more.format(key=two.api.key)))
        found.append((answer.status, connection.was_fast))
    assert found == statuses


async def test_a_body_that_comes_in_pieces_goes_the_usual_way(two: Two) -> None:
    connection = two.connection()
    data = connection.request(BODY + b"     ")  # its first piece would be a body, too
    connection.protocol.data_received(data[:-5])
    assert (await connection.ask(data[-5:])).status == 201
    assert not connection.was_fast


async def test_requests_that_come_together_are_answered_in_order(two: Two) -> None:
    connection = two.connection()
    each = connection.request(BODY)
    connection.protocol.data_received(each)
    connection.protocol.data_received(each[:50])
    assert not connection.reads
    connection.protocol.data_received(each[50:] + b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    answers = [await connection.answer() for _ in range(3)]
    assert [answer.status for answer in answers] == [201, 201, 200]
    assert answers[0].body["scheduleId"] < answers[1].body["scheduleId"]
    assert connection.reads


async def test_a_body_beyond_a_limit_that_is_lower_goes_the_usual_way(api: Api) -> None:
    settings = Settings(max_body_bytes=100)
    async with api.another(app=app_of(settings, api.store)) as limited:
        two = await Two.of(limited)
        usual, fast, _ = await two.answers(BODY + b" " * 100)
        assert (usual.status, usual) == (413, fast)


@pytest.mark.parametrize("is_refused", [False, True])
async def test_the_answer_under_way_is_the_last_one_of_a_process_that_ends(
    two: Two, is_refused: bool
) -> None:
    connection = two.connection()
    if is_refused:
        await suspend(two.api)
    connection.protocol.data_received(connection.request(BODY))
    connection.protocol.shutdown()
    assert not connection.is_closing()
    assert (await connection.answer()).headers[-1] == "connection: close"
    assert connection.is_closing()


async def test_a_client_that_leaves_costs_nothing_but_its_schedule(two: Two) -> None:
    connection = two.connection()
    connection.protocol.data_received(connection.request(BODY))
    connection.close()
    connection.protocol.connection_lost(None)
    await until_async(
        lambda: two.api.app.state.service.tally.requests["/schedule", "POST", 201] == 2
    )
    assert await two.api.credits() == CREDITS - 2
    assert not connection.written


def test_heads_are_few_and_those_of_a_key_push_out_their_own() -> None:
    heads = KnownHeads()
    first = KnownKey(0, "first", "acc_a")
    heads.remember(b"first", first, RULES)
    other = KnownKey(0, "other", "acc_b")
    for n in range(2 * _MOST_HEADS_OF_A_KEY):
        heads.remember(b"%d" % n, other, RULES)
    known = [n for n in range(2 * _MOST_HEADS_OF_A_KEY) if heads.get(b"%d" % n)]
    assert known == list(range(_MOST_HEADS_OF_A_KEY, 2 * _MOST_HEADS_OF_A_KEY))
    known_first = heads.get(b"first")
    assert known_first is not None
    assert known_first.key == first
    for n in range(2 * _MOST_HEADS):
        heads.remember(b"of %d" % n, KnownKey(0, str(n), "acc_c"), RULES)
    assert sum(heads.get(b"of %d" % n) is not None for n in range(2 * _MOST_HEADS)) <= _MOST_HEADS
    assert heads.get(b"first") is None
