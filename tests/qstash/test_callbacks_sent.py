"""Callbacks of messages, as a store has them and as a worker sends them."""

from __future__ import annotations

import json
import time
from base64 import b64decode
from typing import Any

import httpx
import pytest
from qstash import Receiver as Verifier

from scheduler.callbacks import Callback
from scheduler.models import Invocation, Outcome, Request, Status
from scheduler.qstash.carried import CallbackWay, Carried, pack
from scheduler.store import Store, keys
from scheduler.store.lifecycle.end.end_rows import Ack
from tests.qstash.conftest import URL, Door
from tests.support.plain import redis_of
from tests.support.servers import Deployment, Receiver

DELAY_MS = 40_000
DONE = Outcome(Status.COMPLETED, 200, 12, "")
FAILED = Outcome(Status.FAILED, 404, 12, "Not Found")


async def claimed(store: Store, shard: int) -> list[Invocation]:
    return (await store.claims.claim(shard, lease_ms=60_000, most=64)).invocations


@pytest.mark.parametrize(("outcome", "waits"), [(DONE, True), (FAILED, False)])
async def test_a_callback_waits_for_as_long_as_its_caller_said(
    door: Door, outcome: Outcome, waits: bool
) -> None:
    """That of a failure has a way of its own. Of two that end together each waits for itself."""
    store, shard = door.store, keys.parts(door.account_id).shard
    carried = Carried(callback=CallbackWay(delay_ms=DELAY_MS), failure_callback=CallbackWay())
    wish = Callback(f"{URL}/back", failure_url=f"{URL}/failed")
    for door_value in (pack(carried), pack(Carried())):
        request = Request(1, "POST", URL, callback=wish, door=door_value)
        await store.schedules.create(door.account_id, request)
    held = await claimed(store, shard)
    before_ms = store.clock.now_ms()
    await store.ends.ack(shard, [Ack(each, outcome, 0) for each in held])
    base = keys.account(door.account_id)
    due = dict(await redis_of(store).zrange(base + keys.CALLBACKS, 0, -1, withscores=True))
    late = [each for each in due.values() if each >= before_ms + DELAY_MS]
    assert (len(due), len(late)) == (2, int(waits))
    assert all(each < before_ms + DELAY_MS + 30_000 for each in due.values())
    reports = await claimed(store, shard)
    assert len(reports) == 2 - len(late)
    assert all(each.is_callback and each.request.door for each in reports)
    assert await store.check() == []


async def test_the_callback_of_the_account_gets_its_usual_report(door: Door) -> None:
    """Its receiver may know of no message."""
    store, shard = door.store, keys.parts(door.account_id).shard
    set_ = {"callbackUrl": f"{URL}/account"}
    assert (await door.client.patch("/account", json=set_)).status_code == 200
    for wish in (None, Callback(f"{URL}/own")):
        request = Request(1, "POST", URL, callback=wish, door=pack(Carried()))
        await store.schedules.create(door.account_id, request)
    await store.ends.ack(shard, [Ack(each, DONE, 0) for each in await claimed(store, shard)])
    reports = {each.request.url: each.request for each in await claimed(store, shard)}
    native, own = reports[f"{URL}/account"], reports[f"{URL}/own"]
    assert (native.door, json.loads(native.body or b"")["type"]) == (None, "schedule.completed")
    assert own.door is not None
    assert "sourceMessageId" in json.loads(own.body or b"")


@pytest.mark.slow
def test_a_worker_sends_them_signed_and_as_the_caller_said(receiver: Receiver) -> None:
    with Deployment(qstash="on") as running:
        api = running.api()
        running.worker()
        customer = running.customer()
        base_url, token = f"{api.base_url}/qstash/v2", f"Bearer {customer.key}"
        door = httpx.Client(base_url=base_url, headers={"authorization": token})
        found = door.get("/keys").json()
        verifier = Verifier(found["current"], found["next"])
        good = receiver.answer("/good", body=b"\xffdone", headers=(("X-Own", "a"), ("X-Own", "b")))
        bad = receiver.answer("/bad", status=489, body=b"no")
        ways = {
            "Upstash-Callback": f"{receiver.url}/back",
            "Upstash-Callback-Forward-X-Whose": "mine",
            "Upstash-Callback-Method": "PUT",
            "Upstash-Failure-Callback": f"{receiver.url}/failed",
        }
        made = {}
        for url in (good, bad):
            answer = door.post(f"/publish/{url}", headers=ways, content=b"{}")
            assert answer.status_code == 200, answer.text
            made[url] = answer.json()["messageId"]
        door.close()
        [back] = receiver.wait_for(1, "/back")
        [failed] = receiver.wait_for(1, "/failed")
        assert [len(receiver.at(path)) for path in ("/good", "/bad")] == [1, 1]
        customer_sees = running.problems()
    assert customer_sees == []
    assert (back.method, back.headers["x-whose"]) == ("PUT", "mine")
    assert (failed.method, "x-whose" in failed.headers) == ("POST", False)
    told: dict[str, Any] = {}
    for got, url in ((back, good), (failed, bad)):
        verifier.verify(
            signature=got.headers["upstash-signature"],
            body=got.body.decode(),
            url=receiver.url + got.path,
        )
        assert got.headers["user-agent"] == "Upstash-QStash"
        assert got.headers["content-type"] == "application/json"
        assert got.headers["upstash-message-id"] == f"msg_cbk_{made[url][4:]}"
        told[url] = json.loads(got.body)
        assert told[url]["sourceMessageId"] == made[url]
        assert abs(told[url]["createdAt"] - time.time() * 1000) < 60_000
    assert (told[good]["status"], b64decode(told[good]["body"])) == (200, b"\xffdone")
    assert told[good]["header"]["X-Own"] == ["a", "b"]
    assert "dlqId" not in told[good]
    assert (told[bad]["status"], b64decode(told[bad]["body"])) == (489, b"no")
    assert (told[bad]["retried"], told[bad]["maxRetries"]) == (0, 3)
    assert told[bad]["dlqId"] == made[bad][4:]
