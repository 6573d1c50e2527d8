"""What tests of messages do in a worker's place, and in another account's."""

from __future__ import annotations

from typing import Any

import httpx

from scheduler.models import Answer, Invocation, Outcome, Status
from scheduler.qstash.names import dlq_id, schedule_id
from scheduler.store import keys
from scheduler.store.lifecycle.end.end_rows import Ack
from tests.qstash.conftest import Door

DONE = Outcome(Status.COMPLETED, 200, 12, "")
SAID = Answer("text/plain", b"404 Not Found")
LOST = Outcome(Status.FAILED, 404, 12, "Not Found", answer=SAID)
NOBODY = "msg_01jd3v9x8kfw3s9s2m2v2v2v2v"  # an id that nothing has


async def publish(door: Door, **sent: Any) -> str:
    """The id of a new message."""
    answer = await door.publish(**sent)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["messageId"])


async def claim(door: Door) -> list[Invocation]:
    """All that is due."""
    shard = keys.parts(door.account_id).shard
    return (await door.store.claims.claim(shard, lease_ms=15_000, most=200)).invocations


async def end(
    door: Door,
    outcome: Outcome = DONE,
    *,
    wait_ms: int | None = None,
    lateness_ms: int | None = 0,
    held: list[Invocation] | None = None,
) -> list[Invocation]:
    """Ends all due messages so, or the claimed ones. With a wait, the next attempt comes then;
    without a lateness the message was never sent."""
    held = [each for each in held or await claim(door) if not each.is_callback]
    due_ms = None if wait_ms is None else door.store.clock.now_ms() + wait_ms
    acks = [Ack(each, outcome, lateness_ms, due_ms) for each in held]
    await door.store.ends.ack(held[0].shard, acks)
    return held


async def fail(door: Door, count: int = 1, **sent: Any) -> list[str]:
    """Ids in the DLQ of messages that failed."""
    made = [await publish(door, **sent) for _ in range(count)]
    await end(door, LOST)
    return [letter_of(each) for each in made]


def letter_of(message_id: str) -> str:
    found = schedule_id(message_id)
    assert found is not None
    return dlq_id(found)


async def said(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()


async def ask(door: Door, call: str, body: Any = None, /, **query: Any) -> httpx.Response:
    """By a method and a path below /qstash/v2, such as `GET keys`."""
    method, path = call.split()
    return await door.client.request(method, f"/qstash/v2/{path}", params=query, json=body)


async def get(door: Door, path: str, /, **query: Any) -> Any:
    return await said(await ask(door, f"GET {path}", **query))


async def post(door: Door, path: str, body: Any = None, /, **query: Any) -> Any:
    return await said(await ask(door, f"POST {path}", body, **query))


async def delete(door: Door, path: str, body: Any = None, /, **query: Any) -> Any:
    return await said(await ask(door, f"DELETE {path}", body, **query))


async def deleted(door: Door, path: str, body: Any = None, /, **query: Any) -> httpx.Response:
    return await ask(door, f"DELETE {path}", body, **query)


def refused(answer: httpx.Response, status: int) -> str:
    """The sentence of an answer that has nothing else."""
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    return str(answer.json()["error"])
