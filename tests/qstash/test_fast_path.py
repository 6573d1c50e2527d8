"""Messages past the parser: what they store and are answered is what it is the usual way."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest

from api.door.fast_path import KnownHeads
from api.qstash.app import create_door
from api.qstash.fast_path import KnownMessage, MessageFastPath
from scheduler.errors import OutcomeUnknown
from scheduler.models import BodyKind
from scheduler.qstash.carried import opened
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from tests.api.door.test_fast_path import Answer, Connection
from tests.qstash.conftest import URL, Door, door_of
from tests.support.apps import app_of

HEAD = "Content-Type: application/json\r\nUpstash-Label: a\r\nUpstash-Delay: 1h\r\n"
BODY = b'{"a": 1}'


class Client(NamedTuple):
    """A client whose first message made its head known."""

    door: Door
    heads: KnownHeads

    @classmethod
    async def of(cls, door: Door, head: str = HEAD) -> Client:
        client = cls(door, KnownHeads())
        told, was_fast = await client.publish(head=head)
        assert (told.status, was_fast) == (200, False)
        return client

    async def publish(
        self, url: str = URL, body: bytes = BODY, head: str = HEAD, address: str = "127.0.0.1"
    ) -> tuple[Answer, bool]:
        """The answer, and whether the parser has seen nothing."""
        connection = Connection(self.door, self.heads, MessageFastPath, address)
        line = f"POST /qstash/v2/publish/{url} HTTP/1.1"
        told = await connection.ask(connection.request(body, head, line))
        return told, connection.was_fast


@pytest.mark.parametrize(
    ("url", "body", "kind"),
    [
        (URL, BODY, BodyKind.JSON),
        (URL + "/b?c=d&e=%20", b"text", BodyKind.TEXT),
        ("http://example.org:8080", b"\xff", BodyKind.BINARY),
        (URL, b"", BodyKind.JSON),
    ],
)
async def test_a_fast_message_is_as_a_usual_one(
    door: Door, url: str, body: bytes, kind: BodyKind
) -> None:
    client, other = await Client.of(door), Client(door, KnownHeads())
    usual, is_fast = await other.publish(url, body)
    fast, was_fast = await client.publish(url, body)
    assert (is_fast, was_fast) == (False, True)
    made = [await door.request(each.body) for each in (usual, fast)]
    assert msgspec.structs.replace(made[1], trigger_at_ms=made[0].trigger_at_ms) == made[0]
    assert (made[1].url, made[1].body, made[1].body_kind) == (url, body or None, kind)
    assert made[1].trigger_at_ms > door.store.clock.now_ms() + 3_590_000
    assert [line.partition(":")[0] for line in fast.headers] == [
        line.partition(":")[0] for line in usual.headers
    ]
    counted = door.app.state.service.tally.requests
    assert counted == {("/qstash/v2/publish/{url}", "POST", 200): 3}
    assert await door.credits() == 1997
    assert await door.store.check() == []


@pytest.mark.parametrize(
    "more",
    [
        "Upstash-Deduplication-Id: a\r\n",
        "Upstash-Content-Based-Deduplication: true\r\n",
        "Upstash-Flow-Control-Key: k\r\nUpstash-Flow-Control-Value: rate=1\r\n",
        "Upstash-Not-Before: 4000000000\r\n",
        "Upstash-Brand-New: 1\r\n",
        "X-Forwarded-For: 192.0.2.1\r\n",
        "Connection: close\r\n",
        "Upstash-Label: b\r\n",
    ],
)
async def test_a_head_that_means_one_message_alone_is_not_remembered(door: Door, more: str) -> None:
    head = HEAD + more.replace("4000000000", str(door.store.clock.now_ms() // 1000 + 60))
    client = await Client.of(door, head)
    _, was_fast = await client.publish(head=head)
    assert not was_fast


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("https%3A%2F%2Fexample.com%2F", 200),
        (URL + "?", 200),
        (URL + "?qstash_token=x", 401),
        ("https://10.0.0.1/", 400),
        ("https://", 400),
        ("http", 501),
    ],
)
async def test_another_destination_goes_the_usual_way(door: Door, url: str, status: int) -> None:
    client = await Client.of(door)
    told, was_fast = await client.publish(url)
    assert (told.status, was_fast) == (status, False)


async def test_a_token_of_the_query_opens_no_head(door: Door) -> None:
    heads, head = KnownHeads(), b"Host: api\r\nContent-Length: 0\r\n\r\n"
    line = f"POST /qstash/v2/publish/{URL}%b HTTP/1.1\r\n".encode()
    token = f"?qstash_token={door.key}".encode()
    statuses = []
    for query in (b"", token, token, b""):
        connection = Connection(door, heads, MessageFastPath)
        statuses.append((await connection.ask(line % query + head)).status)
        assert not connection.was_fast
    assert statuses == [401, 200, 200, 401]


async def test_the_address_is_of_the_client_that_asks(door: Door) -> None:
    client = await Client.of(door)
    carried: list[Any] = []
    for _ in range(2):
        told, _ = await client.publish(address="192.0.2.9")
        carried.append(opened((await door.request(told.body)).door))
    assert [each.caller_ip for each in carried] == ["192.0.2.9"] * 2


async def test_what_the_store_refuses_is_answered_the_usual_way(door: Door) -> None:
    poor = await door_of(door.app, door.store, credits=1)
    client = await Client.of(poor)
    told, _ = await client.publish()
    assert (told.status, told.body) == (402, {"error": "Insufficient credits"})
    client = await Client.of(door)
    [key] = await door.store.api_keys.of_account(door.account_id)
    await door.store.api_keys.deactivate(key.key_id)
    told, _ = await client.publish()
    assert (told.status, told.body) == (401, {"error": "Invalid or inactive API key"})
    assert await door.credits() == 1999


async def test_a_lost_reply_is_answered_and_nothing_is_stored_again(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, end = await Client.of(door), door.store.schedules.end_by_key

    def lost(*given: Any) -> Any:
        end(*given)
        raise OutcomeUnknown("lost")

    monkeypatch.setattr(door.store.schedules, "end_by_key", lost)
    told, _ = await client.publish()
    assert told.status == 503
    assert "Upstash-Deduplication-Id" in told.body["error"]
    assert await door.credits() == 1998


@pytest.mark.parametrize(("count", "status"), [(1000, 200), (1001, 400)])
async def test_a_query_names_as_many_ids_as_fit_into_a_head(
    settings: Settings, store: Store, count: int, status: int
) -> None:
    roomy = msgspec.structs.replace(settings, max_head_bytes=64 * 1024)
    door = await door_of(app_of(roomy, store, create_door), store)
    connection = Connection(door, KnownHeads(), MessageFastPath)
    ids = "&".join(f"messageIds=msg_{n:026}" for n in range(count))
    line = f"DELETE /qstash/v2/messages?{ids} HTTP/1.1"
    told = await connection.ask(connection.request(b"", line=line))
    assert told.status == status
    assert told.body == ({"cancelled": 0} if status == 200 else told.body)


async def test_native_creates_are_as_fast_beside_them(door: Door) -> None:
    heads = KnownHeads()
    body = b'{"targetUrl": "https://example.com/", "delay": "1h"}'
    for is_fast in (False, True):
        connection = Connection(door, heads, MessageFastPath)
        told = await connection.ask(connection.request(body))
        assert (told.status, connection.was_fast) == (201, is_fast)


@pytest.mark.parametrize("size", [1024, 16 * 1024, 99_999])
async def test_a_known_head_keeps_no_body(door: Door, size: int) -> None:
    """Thousands of heads are kept."""
    client = Client(door, KnownHeads())
    await client.publish(body=b"x" * size)
    [known] = client.heads._known.values()
    assert isinstance(known, KnownMessage)
    assert known._published.request.body is None
    told, was_fast = await client.publish()
    assert (told.status, was_fast) == (200, True)
