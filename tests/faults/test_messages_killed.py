"""kill -9 of an API amid calls of the QStash door, and of a worker before the callback of a message
was accepted."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from qstash import Receiver as Verifier

from tests.support.servers import (
    Customer,
    Deployment,
    DroppingProxy,
    PostdateProcess,
    Receiver,
    script,
    until,
)

COUNT, IN_BATCH, CREDITS = 160, 4, 1000
SHORT_LEASE_MS = 1500
URL = "https://example.com/hook"
_NO_ANSWER = (httpx.TransportError, json.JSONDecodeError)


def door_of(api: PostdateProcess, customer: Customer) -> httpx.Client:
    headers = {"authorization": f"Bearer {customer.key}"}
    return httpx.Client(base_url=f"{api.base_url}/qstash/v2", headers=headers, verify=False)


def once(number: int) -> dict[str, str]:
    return {"upstash-delay": "1h", "upstash-deduplication-id": f"order-{number}"}


def published(door: httpx.Client, *numbers: int) -> list[dict[str, Any]]:
    """The answers, one for each, to calls that are repeated until there is one."""
    items = [{"destination": f"{URL}/{n}", "headers": once(n)} for n in numbers]

    def answer() -> list[dict[str, Any]] | None:
        try:
            if len(numbers) > 1:
                said = door.post("/batch", json=items)
            else:
                said = door.post(f"/publish/{URL}/{numbers[0]}", headers=once(numbers[0]))
        except httpx.TransportError:
            return None
        assert said.status_code in (200, 503), said.text
        found = said.json() if said.status_code == 200 else None
        return found if found is None or isinstance(found, list) else [found]

    return until(answer, f"an answer for {numbers}")


def test_each_deduplication_id_is_one_message_and_one_credit_over_kills() -> None:
    with Deployment(qstash="on") as running:
        api = running.api()
        customer = running.customer(credits=CREDITS)
        done: dict[int, str] = {}

        def publish(numbers: range) -> None:
            with door_of(api, customer) as door:
                size = IN_BATCH if numbers[0] % 2 else 1
                for start in range(0, len(numbers), size):
                    some = numbers[start : start + size]
                    answers = published(door, *some)
                    done.update(zip(some, (a["messageId"] for a in answers), strict=True))

        with ThreadPoolExecutor(8) as pool:
            parts = [pool.submit(publish, range(n, COUNT, 8)) for n in range(8)]
            for quarter in (1, 2, 3):
                until(lambda q=quarter: len(done) >= q * COUNT // 4, "more answers")
                api.kill()
                api.start()
            for part in parts:
                part.result()
        with door_of(api, customer) as door:
            again = {n: published(door, n)[0] for n in done}
        assert again == {n: {"messageId": done[n], "deduplicated": True} for n in done}
        assert len(set(done.values())) == len(done) == COUNT
        assert len(customer.log()) == COUNT
        assert customer.credits() == CREDITS - COUNT
        assert running.problems() == []


def _publish(door: httpx.Client) -> Any:
    return door.post(f"/publish/{URL}", headers=once(1)).json()["messageId"]


def _batch(door: httpx.Client) -> Any:
    items = [{"destination": URL, "headers": once(n)} for n in range(3)]
    return [each["messageId"] for each in door.post("/batch", json=items).json()]


def _schedule(door: httpx.Client) -> Any:
    headers = {"upstash-cron": "0 9 * * *", "upstash-schedule-id": "daily"}
    return door.post(f"/schedules/{URL}", headers=headers).json()


def _retry(door: httpx.Client) -> Any:
    letters = door.get("/dlq").json()["messages"]
    return door.post("/dlq/retry", json={"dlqIds": [each["dlqId"] for each in letters]}).is_success


def _rotate(door: httpx.Client) -> Any:
    return door.post("/keys/rotate").json()


@pytest.mark.parametrize(
    ("call", "what", "stored", "cost"),
    [
        (_publish, "lifecycle/create/create", 1, 1),
        (_batch, "lifecycle/create/create", 3, 3),
        (_schedule, "recurring/step_with_room", 1, 1),
        (_retry, "lifecycle/create/create", 1, 1),
        (_rotate, "accounts/signing/door_keys", 0, 0),
    ],
)
def test_what_was_done_and_not_answered_is_done_once(
    call: Callable[[httpx.Client], Any], what: str, stored: int, cost: int, receiver: Receiver
) -> None:
    """The API is killed when the store has done it and the reply is on its way."""
    bad = receiver.answer("/bad", status=489)
    with Deployment(qstash="on") as running, DroppingProxy(running.valkey.socket) as proxy:
        killed = running.api(redis_url=proxy.url)
        customer, other = running.customer(), running.customer()
        worker = running.worker()
        for each in (other, customer):
            with door_of(killed, each) as door:
                failed = door.post(f"/publish/{bad}").json()["messageId"]
                assert each.outcome(f"sch_{failed[4:]}")["statusCode"] == 489
                keys = door.get("/keys").json()
                if each is other:
                    call(door)  # its script is known from now on
        worker.stop()
        credits, entries = customer.credits(), len(customer.log())
        proxy.hold_reply(script(what))
        with door_of(killed, customer) as door, ThreadPoolExecutor(1) as pool:
            cut = pool.submit(call, door)
            until(lambda: proxy.held, "the reply of the script")
            killed.kill()
            with pytest.raises(_NO_ANSWER):
                cut.result()
        with door_of(running.api(), customer) as door:
            now = door.get("/keys").json()
            if call is _rotate:
                assert (now["current"], now["next"] in keys.values()) == (keys["next"], False)
            else:
                first = call(door)
                assert (now, call(door)) == (keys, first)
            fresh = Customer(str(door.base_url).removesuffix("/qstash/v2/"), customer.key)
            assert len(fresh.log()) - entries == stored
            assert credits - fresh.credits() == cost
            fresh.close()
        assert running.problems() == []


def test_a_callback_of_a_message_comes_again_from_another_worker(receiver: Receiver) -> None:
    """The worker that got the target's answer is killed before the callback was accepted."""
    good = receiver.answer("/good", body=b"\xffdone", headers=(("X-Own", "a"),))
    bad = receiver.answer("/bad", status=489, body=b"no")
    back = {
        "upstash-callback": receiver.answer("/back", never=True),
        "upstash-failure-callback": receiver.answer("/failed", never=True),
    }
    with Deployment(qstash="on", lease_ms=SHORT_LEASE_MS) as running:
        api = running.api()
        customer = running.customer()
        killed = running.worker()
        with door_of(api, customer) as door:
            for url in (good, bad):
                assert door.post(f"/publish/{url}", headers=back, content=b"{}").is_success
            keys = door.get("/keys").json()
        before = [receiver.wait_for(1, path)[0] for path in ("/back", "/failed")]
        killed.kill()
        for path in ("/back", "/failed"):
            receiver.answer(path)
        running.worker()
        after = [receiver.wait_for(2, path)[1] for path in ("/back", "/failed")]
        assert [len(receiver.at(path)) for path in ("/good", "/bad")] == [1, 1]
        until(lambda: not running.problems(), "the end of all")
    verifier = Verifier(keys["current"], keys["next"])
    for first, second in zip(before, after, strict=True):
        assert second.body == first.body
        assert second.headers["upstash-message-id"] == first.headers["upstash-message-id"]
        verifier.verify(
            signature=second.headers["upstash-signature"],
            body=second.body.decode(),
            url=receiver.url + second.path,
        )
