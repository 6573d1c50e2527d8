"""Each method of the Python SDK, blocking and awaiting."""

from __future__ import annotations

import time
from base64 import b64encode
from typing import Any

import pytest
from qstash.errors import QStashError
from qstash.log import LogState

from tests.support.receiver import Receiver
from tests.support.waiting import until

LATER = 3600


def test_every_method_does_what_it_says(client: Any, receiver: Receiver) -> None:
    messages(client, receiver)
    batches(client, receiver)
    queues(client, receiver)
    schedules(client, receiver)
    flow_control(client, receiver)
    dead_letters(client, receiver)
    keys(client)
    what_is_not_offered(client)
    assert client.called == client.methods()


def messages(client: Any, receiver: Receiver) -> None:
    made = client.message.publish(
        url=receiver.answer("/published"),
        method="GET",
        body="as it is",
        headers={"X-Own": "yes", "content-type": "text/x-own"},
        label="one",
    )
    [got] = receiver.wait_for(1, "/published")
    assert (got.method, got.body) == ("GET", b"as it is")
    assert (got.headers["x-own"], got.headers["content-type"]) == ("yes", "text/x-own")
    assert got.headers["upstash-message-id"] == made.message_id
    assert (got.headers["upstash-retried"], got.headers["upstash-label"]) == ("0", "one")
    assert got.headers["user-agent"].startswith("Upstash-QStash")

    def delivered() -> Any:
        filters = {"message_id": made.message_id, "state": LogState.DELIVERED}
        return client.log.list(filter=filters).logs

    [entry] = until(delivered)
    assert (entry.url, entry.label, entry.response_status) == (
        f"{receiver.url}/published",
        "one",
        200,
    )
    states = {each.state for each in client.log.list(filter={"label": "one"}).logs}
    assert states >= {LogState.CREATED, LogState.DELIVERED}

    before_ms = time.time_ns() // 1_000_000
    waiting = client.message.publish_json(
        url=f"{receiver.url}/?a=b&c=%2F",
        body={"n": 1},
        headers={"X-Own": "yes"},
        delay=LATER,
        retries=5,
        retry_delay="1000 * (1 + retried)",
        callback=f"{receiver.url}/back",
        failure_callback=f"{receiver.url}/failed",
        callback_headers={"X-Back": "1"},
        timeout="20s",
    )
    seen = client.message.get(waiting.message_id)
    assert (seen.message_id, seen.url) == (waiting.message_id, f"{receiver.url}/?a=b&c=%2F")
    assert (seen.method, seen.body, seen.max_retries) == ("POST", '{"n": 1}', 5)
    assert seen.headers == {"Content-Type": ["application/json"], "X-Own": ["yes"]}
    assert seen.retry_delay_expression == "1000 * (1 + retried)"
    assert (seen.callback, seen.failure_callback) == (
        f"{receiver.url}/back",
        f"{receiver.url}/failed",
    )
    assert seen.callback_headers == {"X-Back": ["1"]}
    assert 0 <= seen.not_before - before_ms - 1000 * LATER < 60_000
    assert seen.schedule_id is seen.queue is seen.flow_control is seen.label is None
    client.message.cancel(waiting.message_id)
    with pytest.raises(QStashError, match="404"):
        client.message.cancel("msg_never")

    def once(**more: Any) -> Any:
        return client.message.publish(url=receiver.url, delay="1h", **more)

    first, second = once(deduplication_id="d"), once(deduplication_id="d")
    assert (first.deduplicated, second.deduplicated) == (False, True)
    assert first.message_id == second.message_id
    alike = [once(content_based_deduplication=True, body="x") for _ in range(2)]
    assert [each.deduplicated for each in alike] == [False, True]
    apart = [once(content_based_deduplication=False, body="x") for _ in range(2)]
    assert [each.deduplicated for each in apart] == [False, False]
    some = [each.message_id for each in apart]
    assert client.message.cancel_many([*some, "msg_never"]) == 2
    assert client.message.cancel_all() == 2
    assert client.message.cancel_all() == 0

    binary = client.message.publish(url=receiver.url, body=b"\xff\x00", delay=LATER)
    assert client.message.get(binary.message_id).body_base64 == b64encode(b"\xff\x00").decode()
    client.message.cancel(binary.message_id)


def batches(client: Any, receiver: Receiver) -> None:
    url = receiver.answer("/batch")
    plain = client.message.batch(
        [
            {"url": url, "body": "1", "method": "PUT", "headers": {"X-Number": "1"}},
            {"url": url, "delay": LATER, "queue": "of-batch", "label": "two"},
        ]
    )
    [got] = receiver.wait_for(1, "/batch")
    assert (got.method, got.body, got.headers["x-number"]) == ("PUT", b"1", "1")
    seen = client.message.get(plain[1].message_id)
    assert (seen.queue, seen.label, seen.body) == ("of-batch", "two", None)
    flow = {"key": "of-batch", "rate": 23, "period": "1h30m3s"}
    [made] = client.message.batch_json(
        [{"url": url, "body": [1], "delay": "1d", "flow_control": flow}]
    )
    seen = client.message.get(made.message_id)
    assert (seen.body, seen.headers) == ("[1]", {"Content-Type": ["application/json"]})
    told = seen.flow_control
    assert (told.key, told.parallelism, told.rate, told.period) == ("of-batch", None, 23, 5403)
    assert client.message.cancel_all() == 2
    client.queue.delete("of-batch")


def queues(client: Any, receiver: Receiver) -> None:
    client.queue.upsert("q", parallelism=2, paused=True)
    made = [
        client.message.enqueue(queue="q", url=receiver.answer("/queued"), body="1"),
        client.message.enqueue_json(queue="q", url=f"{receiver.url}/queued", body=2),
    ]
    seen = client.queue.get("q")
    assert (seen.name, seen.parallelism, seen.paused, seen.lag) == ("q", 2, True, 2)
    assert seen.created_at <= seen.updated_at
    assert client.queue.list() == [seen]
    client.queue.resume("q")
    got = receiver.wait_for(2, "/queued")
    assert {each.headers["upstash-message-id"] for each in got} == {m.message_id for m in made}
    client.queue.pause("q")
    assert client.queue.get("q").paused
    client.queue.upsert("q")
    assert (client.queue.get("q").paused, client.queue.get("q").parallelism) == (False, 1)
    client.queue.delete("q")
    assert client.queue.list() == []
    with pytest.raises(QStashError, match="404"):
        client.queue.get("q")


def schedules(client: Any, receiver: Receiver) -> None:
    made = client.schedule.create_json(
        destination=receiver.url, cron="CRON_TZ=Europe/Vienna 0 9 1 1 *", body={}, queue="yearly"
    )
    seen = client.schedule.get(made)
    assert (seen.schedule_id, seen.destination) == (made, receiver.url)
    assert (seen.cron, seen.method, seen.body) == ("CRON_TZ=Europe/Vienna 0 9 1 1 *", "POST", "{}")
    assert (seen.queue, seen.paused, seen.retries) == ("yearly", False, 3)
    assert seen.next_schedule_time > time.time() * 1000
    for url in (f"{receiver.url}/1", f"{receiver.url}/2"):
        named = client.schedule.create(
            destination=url, cron="0 0 1 1 *", schedule_id="_Named-1", label="three", method="PUT"
        )
        assert named == "_Named-1"
    assert {each.schedule_id for each in client.schedule.list()} == {made, named}
    seen = client.schedule.get(named)
    assert (seen.destination, seen.label, seen.body) == (f"{receiver.url}/2", "three", None)
    client.schedule.pause(named)
    assert client.schedule.get(named).paused
    client.schedule.resume(named)
    assert not client.schedule.get(named).paused
    assert client.message.cancel_all() == 0, "what a schedule will make is no message yet"
    for each in (made, named):
        client.schedule.delete(each)
    assert client.schedule.list() == []
    with pytest.raises(QStashError, match="404"):
        client.schedule.get(made)


def flow_control(client: Any, receiver: Receiver) -> None:
    settings = {"key": "flow", "parallelism": 3, "rate": 4, "period": 2}
    client.message.publish(url=receiver.url, delay=LATER, flow_control=settings)
    seen = client.flow_control.get("flow")
    assert (seen.key, seen.parallelism_max, seen.rate_max, seen.rate_period) == ("flow", 3, 4, 2)
    assert [seen.is_paused, seen.is_pinned_parallelism, seen.is_pinned_rate] == [False] * 3
    client.flow_control.pin("flow", {"parallelism": 7, "rate": 20, "period": 120})
    client.message.publish(url=receiver.url, delay=LATER, flow_control=settings)
    seen = client.flow_control.get("flow")
    assert (seen.parallelism_max, seen.rate_max, seen.rate_period) == (7, 20, 120)
    assert seen.is_pinned_parallelism
    assert seen.is_pinned_rate
    client.flow_control.unpin("flow", {"parallelism": True})
    seen = client.flow_control.get("flow")
    assert (seen.is_pinned_parallelism, seen.is_pinned_rate) == (False, True)
    client.flow_control.pause("flow")
    assert client.flow_control.get("flow").is_paused
    client.flow_control.resume("flow")
    assert not client.flow_control.get("flow").is_paused
    client.flow_control.reset_rate("flow")
    assert client.flow_control.get("flow").rate_count == 0
    assert client.message.cancel_all() == 2


def dead_letters(client: Any, receiver: Receiver) -> None:
    url = receiver.answer("/gone", status=404, body=b"404 Not Found")
    made = [
        client.message.publish_json(url=url, body=each, retries=0, label="dead").message_id
        for each in range(3)
    ]
    letters = until(lambda: len(found := client.dlq.list().messages) == 3 and found)
    assert {each.message_id for each in letters} == set(made)
    [letter] = client.dlq.list(filter={"message_id": made[0]}, count=1).messages
    assert (letter.url, letter.body, letter.label) == (url, "0", "dead")
    assert (letter.response_status, letter.response_body) == (404, "404 Not Found")
    assert client.dlq.get(letter.dlq_id) == letter
    page = client.dlq.list(count=2)
    rest = client.dlq.list(count=2, cursor=page.cursor)
    assert len(page.messages) == 2
    assert rest.cursor is None
    assert {each.message_id for each in page.messages + rest.messages} == set(made)
    client.dlq.delete(letter.dlq_id)
    others = [each.dlq_id for each in letters if each != letter]
    assert client.dlq.delete_many([*others, letter.dlq_id]) == 2
    assert client.dlq.list().messages == []
    with pytest.raises(QStashError, match="404"):
        client.dlq.delete(letter.dlq_id)


def keys(client: Any) -> None:
    before = client.signing_key.get()
    assert before.current.startswith("sig_")
    assert client.signing_key.get() == before
    after = client.signing_key.rotate()
    assert after.current == before.next
    assert after.next not in {before.current, before.next}
    assert client.signing_key.get() == after


def what_is_not_offered(client: Any) -> None:
    group = client.url_group
    endpoint = {"url": "https://example.com"}
    for call in (
        lambda: group.upsert_endpoints("g", [endpoint]),
        lambda: group.remove_endpoints("g", [endpoint]),
        lambda: group.get("g"),
        group.list,
        lambda: group.delete("g"),
        lambda: client.message.publish(url_group="g"),
        client.flow_control.get_global_parallelism,
    ):
        with pytest.raises(QStashError, match=r"501.*not offered; see docs/come-over/qstash"):
            call()
