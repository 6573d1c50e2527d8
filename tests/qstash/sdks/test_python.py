"""Each method of the Python SDK, blocking and awaiting."""

from __future__ import annotations

import time
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
        url=receiver.answer("/published"), method="GET", body="as it is", label="one",
        headers={"X-Own": "yes", "content-type": "text/x-own"},
    )  # fmt: skip
    [got] = receiver.wait_for(1, "/published")
    sent = {
        "x-own": "yes",
        "content-type": "text/x-own",
        "user-agent": "Upstash-QStash",
        "upstash-message-id": made.message_id,
        "upstash-retried": "0",
        "upstash-label": "one",
    }
    assert (got.method, got.body, got.headers) == ("GET", b"as it is", got.headers | sent)
    filters = {"message_id": made.message_id, "state": LogState.DELIVERED}
    [entry] = until(lambda: client.log.list(filter=filters).logs)
    assert (entry.url, entry.label, entry.response_status) == (receiver.url + got.path, "one", 200)

    before_ms = time.time_ns() // 1_000_000
    waiting = client.message.publish_json(
        url=f"{receiver.url}/?a=b&c=%2F", body={"n": 1}, headers={"X-Own": "yes"}, delay=LATER,
        retries=5, retry_delay="1000 * (1 + retried)", timeout="20s",
        callback=f"{receiver.url}/back", callback_headers={"X-Back": "1"},
        failure_callback=f"{receiver.url}/failed",
    )  # fmt: skip
    seen = client.message.get(waiting.message_id)
    assert 0 <= seen.not_before - before_ms - 1000 * LATER < 60_000
    assert (seen.url, seen.body) == (f"{receiver.url}/?a=b&c=%2F", '{"n": 1}')
    assert (seen.max_retries, seen.retry_delay_expression) == (5, "1000 * (1 + retried)")
    assert seen.headers == {"Content-Type": ["application/json"], "X-Own": ["yes"]}
    assert (seen.callback, seen.callback_headers) == (f"{receiver.url}/back", {"X-Back": ["1"]})
    assert seen.failure_callback == f"{receiver.url}/failed"
    assert seen.schedule_id is seen.queue is seen.flow_control is seen.label is None
    client.message.cancel(waiting.message_id)
    with pytest.raises(QStashError, match="404"):
        client.message.cancel("msg_never")

    for once, repeated in (
        ({"deduplication_id": "d"}, True),
        ({"content_based_deduplication": True, "body": "x"}, True),
        ({"content_based_deduplication": False, "body": b"\xff\x00"}, False),
    ):
        first, second = [
            client.message.publish(url=receiver.url, delay="1h", **once) for _ in range(2)
        ]
        assert (first.deduplicated, second.deduplicated) == (False, repeated)
        assert (first.message_id == second.message_id) is repeated
    assert client.message.get(first.message_id).body_base64 == "/wA="
    some = [first.message_id, second.message_id, "msg_never"]
    assert client.message.cancel_many(some) == 2
    assert [client.message.cancel_all() for _ in range(2)] == [2, 0]


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
    url = receiver.answer("/queued")
    made = [
        client.message.enqueue(queue="q", url=url, body="1"),
        client.message.enqueue_json(queue="q", url=url, body=2),
    ]
    seen = client.queue.get("q")
    assert (seen.name, seen.parallelism, seen.paused, seen.lag) == ("q", 2, True, 2)
    assert client.queue.list() == [seen]
    client.queue.resume("q")
    got = receiver.wait_for(2, "/queued")
    assert {each.headers["upstash-message-id"] for each in got} == {m.message_id for m in made}
    client.queue.pause("q")
    assert client.queue.get("q").paused
    client.queue.delete("q")
    assert client.queue.list() == []
    with pytest.raises(QStashError, match="404"):
        client.queue.get("q")


def schedules(client: Any, receiver: Receiver) -> None:
    zoned = "CRON_TZ=Europe/Vienna 0 9 1 1 *"
    made = client.schedule.create_json(
        destination=receiver.url, cron=zoned, body={}, queue="yearly"
    )
    seen = client.schedule.get(made)
    assert (seen.schedule_id, seen.destination, seen.cron) == (made, receiver.url, zoned)
    assert (seen.method, seen.body, seen.queue, seen.retries) == ("POST", "{}", "yearly", 3)
    assert seen.next_schedule_time > time.time() * 1000
    named = client.schedule.create(
        destination=receiver.url, cron="0 0 1 1 *", schedule_id="_Named-1", label="three"
    )
    assert named == "_Named-1"
    seen = client.schedule.get(named)
    assert (seen.label, seen.body, seen.paused) == ("three", None, False)
    assert {each.schedule_id for each in client.schedule.list()} == {made, named}
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
    client.flow_control.unpin("flow", {"parallelism": True})
    client.flow_control.pause("flow")
    seen = client.flow_control.get("flow")
    assert (seen.parallelism_max, seen.rate_max, seen.rate_period) == (7, 20, 120)
    assert [seen.is_paused, seen.is_pinned_parallelism, seen.is_pinned_rate] == [True, False, True]
    client.flow_control.resume("flow")
    client.flow_control.reset_rate("flow")
    seen = client.flow_control.get("flow")
    assert (seen.is_paused, seen.rate_count) == (False, 0)
    assert client.message.cancel_all() == 1


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
    assert page.messages + rest.messages == letters
    assert rest.cursor is None
    client.dlq.delete(letter.dlq_id)
    assert client.dlq.delete_many([each.dlq_id for each in letters]) == 2
    assert client.dlq.list().messages == []
    with pytest.raises(QStashError, match="404"):
        client.dlq.delete(letter.dlq_id)


def keys(client: Any) -> None:
    before = client.signing_key.get()
    assert before.current.startswith("sig_")
    after = client.signing_key.rotate()
    assert after.current == before.next
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
