"""Both clients, and a buffer, against a real `postdate up`."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from postdate import AsyncPostdate, Buffer, Conflict, Created, InvalidRequest, NewSchedule
from tests.client.both import Client
from tests.servers import PostdateProcess, Receiver, in_days, postdate_json, until

URL = "https://example.com"


@pytest.fixture
def key(postdate_up: PostdateProcess) -> str:
    """Of an account of the test's own: others may have left much in the first one."""
    where = {"redis_url": postdate_up.redis_url}
    name = f"client {secrets.token_hex(8)}"
    limits = ("--credits", "2000", "--plan", "unlimited")
    account = postdate_json("account", "create", name, *limits, **where)["accountId"]
    return str(postdate_json("key", "create", account, "--name", "test", **where)["key"])


@pytest.fixture
def client(mode: str, postdate_up: PostdateProcess, key: str) -> Iterator[Client]:
    with Client(mode, postdate_up.base_url, key) as client:
        yield client


def test_a_schedule_fires_and_is_found_in_log_and_statistics(
    client: Client, receiver: Receiver
) -> None:
    url = receiver.url + "/hook"
    before = datetime.now(UTC)
    created = client.schedule(url, in_=0.2, json={"hello": "future"}, headers={"X-A": "1"})
    [received] = receiver.wait_for(1, "/hook")
    assert (received.method, received.body) == ("POST", b'{"hello": "future"}')
    assert received.headers["x-a"] == "1"
    due = datetime.fromisoformat(received.headers["postdate-trigger-at"])
    assert before < due <= datetime.fromtimestamp(received.at_ns / 1e9, UTC)
    [entry] = until(lambda: client.logs(url=url, status="completed"), "the log entry")
    assert (entry.schedule_id, entry.status_code) == (created.schedule_id, 200)
    assert (entry.target_url, entry.scheduled_at) == (url, due)
    assert (client.stats().total_invocations, client.credits()) == (1, 1999)
    found = client.get(created.schedule_id)
    assert (found.status, found.executed_at) == ("completed", entry.executed_at)


def test_a_waiting_one_is_read_listed_changed_and_cancelled(client: Client) -> None:
    due = in_days(40)
    schedule_id = client.schedule(URL, at=due, json={"n": 1}, headers={"X": "1"}).schedule_id
    found = client.get(schedule_id)
    assert (found.status, found.trigger_at, found.target_method) == ("scheduled", due, "POST")
    assert (found.target_body, found.target_headers) == ({"n": 1}, {"X": "1"})
    assert [each.schedule_id for each in client.list(from_=due, limit=1)] == [schedule_id]
    later = due + timedelta(days=1)
    changed = client.change(schedule_id, at=later, url=URL + "/b", headers=None)
    assert (changed.trigger_at, changed.target_url) == (later, URL + "/b")
    assert (changed.target_body, changed.target_headers) == ({"n": 1}, {})
    assert client.get(schedule_id) == changed
    cancelled = client.cancel(schedule_id)
    assert (cancelled.status, cancelled.credits_remaining) == ("cancelled", 2000)
    with pytest.raises(Conflict) as caught:
        client.cancel(schedule_id)
    assert caught.value.status == "cancelled"


def test_a_batch_and_its_repeat_cost_one_credit_each_item(client: Client) -> None:
    due = in_days(70)
    new = [NewSchedule(f"{URL}/{n}", at=due, text="x" * 1000) for n in range(120)]
    new[7] = NewSchedule("ftp://example.com", at=due)
    results = client.schedule_batch(new, idempotency_key="batch")
    again = client.schedule_batch(new, idempotency_key="batch")
    assert [type(each) for each in results] == [*[Created] * 7, InvalidRequest, *[Created] * 112]
    assert results[7].details[0].field == "targetUrl"
    ids = [each.schedule_id for each in results if isinstance(each, Created)]
    assert [each.schedule_id for each in again if isinstance(each, Created)] == ids
    assert all(each.replayed for each in again if isinstance(each, Created))
    assert client.credits() == 2000 - 119
    # More than one page of both lists.
    assert [each.schedule_id for each in client.list(from_=due)] == sorted(ids)
    assert len(client.logs(status="scheduled", from_=due)) == 119


class LosingAnswers:
    """Passes each request on to the real server, and then loses the answers to the first few."""

    def __init__(self, lost: int) -> None:
        self._lost = lost

    def __call__(self, request: httpx.Request) -> httpx.Response:
        with httpx.Client(verify=False) as real:
            answer = real.request(
                request.method, request.url, headers=request.headers, content=request.content
            )
        if self._lost:
            self._lost -= 1
            raise httpx.ReadError("the connection was cut")
        return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)


def test_lost_answers_cost_one_credit_and_give_one_back(
    mode: str, postdate_up: PostdateProcess, key: str, client: Client
) -> None:
    def losing() -> Client:
        return Client(mode, postdate_up.base_url, key, handler=LosingAnswers(2))

    due = in_days(130)
    with losing() as creating, losing() as changing, losing() as ending:
        created = creating.schedule(URL, at=due)
        assert [each.schedule_id for each in client.list(from_=due)] == [created.schedule_id]
        assert client.credits() == 1999
        later = due + timedelta(days=1)
        assert changing.change(created.schedule_id, at=later).trigger_at == later
        assert ending.cancel(created.schedule_id).credits_remaining == 2000


async def test_of_thousands_in_a_buffer_each_costs_one_credit_though_answers_are_lost(
    postdate_up: PostdateProcess, key: str
) -> None:
    urls = [f"{URL}/{n}" for n in range(1_500)]
    urls[7] = urls[1234] = "ftp://example.com"
    transport = httpx.MockTransport(LosingAnswers(3))
    async with httpx.AsyncClient(transport=transport) as http:
        client = AsyncPostdate(postdate_up.base_url, key, http=http)
        async with Buffer(client) as buffer:
            creating = (buffer.schedule(url, at=in_days(9), json={"url": url}) for url in urls)
            results = await asyncio.gather(*creating, return_exceptions=True)
        assert [n for n, each in enumerate(results) if isinstance(each, InvalidRequest)] == [
            7,
            1234,
        ]
        assert await client.credits() == 2000 - 1498
        for n in (0, 1000, 1499):
            created = results[n]
            assert isinstance(created, Created)
            assert (await client.get(created.schedule_id)).target_body == {"url": urls[n]}
