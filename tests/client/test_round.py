"""Both clients against a real `postdate up`."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from postdate import (
    Conflict,
    ConnectionFailed,
    Created,
    InvalidRequest,
    NewSchedule,
    NotFound,
    Unauthorized,
)
from tests.client.both import Client
from tests.commands import postdate_json
from tests.servers import PostdateProcess, Receiver, free_port, in_days, until


@pytest.fixture
def key(postdate_up: PostdateProcess) -> str:
    """Of an account of the test's own: others may have left much in the first one."""
    where = {"redis_url": postdate_up.redis_url}
    name = f"client {secrets.token_hex(8)}"
    limits = ("--credits", "1000", "--plan", "unlimited")
    account = postdate_json("account", "create", name, *limits, **where)["accountId"]
    return str(postdate_json("key", "create", account, "--name", "test", **where)["key"])


@pytest.fixture
def client(mode: str, postdate_up: PostdateProcess, key: str) -> Iterator[Client]:
    with Client(mode, postdate_up.base_url, key) as client:
        yield client


def test_a_schedule_fires_and_is_found_in_log_and_statistics(
    client: Client, receiver: Receiver
) -> None:
    executed, credits = client.stats().total_invocations, client.credits()
    url = receiver.url + "/hook"
    before = datetime.now(UTC)
    created = client.schedule(url, in_=0.5, json={"hello": "future"}, headers={"X-A": "1"})
    [received] = receiver.wait_for(1, "/hook")
    assert (received.method, received.body) == ("POST", b'{"hello": "future"}')
    assert received.headers["x-a"] == "1"
    due = datetime.fromisoformat(received.headers["postdate-trigger-at"])
    assert before < due <= datetime.fromtimestamp(received.at_ns / 1e9, UTC)

    [entry] = until(lambda: client.logs(url=url, status="completed"), "the log entry")
    assert (entry.schedule_id, entry.status_code, entry.target_url) == (
        created.schedule_id,
        200,
        url,
    )
    assert entry.scheduled_at == due
    assert client.stats().total_invocations == executed + 1
    assert client.credits() == credits - 1
    found = client.get(created.schedule_id)
    assert (found.status, found.status_code, found.executed_at) == (
        "completed",
        200,
        entry.executed_at,
    )


def test_a_waiting_one_is_read_listed_changed_and_cancelled(client: Client) -> None:
    credits = client.credits()
    due = in_days(40)
    created = client.schedule("https://example.com/a", at=due, json={"n": 1}, headers={"X": "1"})
    schedule_id = created.schedule_id
    found = client.get(schedule_id)
    assert (found.status, found.trigger_at, found.target_method) == ("scheduled", due, "POST")
    assert (found.target_body, found.target_headers) == ({"n": 1}, {"X": "1"})
    assert [each.schedule_id for each in client.list(from_=due, limit=1)] == [schedule_id]

    later = due + timedelta(days=1)
    changed = client.change(schedule_id, at=later, url="https://example.com/b", headers=None)
    assert (changed.trigger_at, changed.target_url) == (later, "https://example.com/b")
    assert (changed.target_body, changed.target_headers) == ({"n": 1}, {})
    assert client.get(schedule_id) == changed

    cancelled = client.cancel(schedule_id)
    assert (cancelled.status, cancelled.credits_remaining) == ("cancelled", credits)
    with pytest.raises(Conflict) as caught:
        client.cancel(schedule_id)
    assert caught.value.status == "cancelled"
    assert client.list(from_=due) == []


def test_a_batch_and_its_repeat_cost_one_credit_each_item(client: Client, mode: str) -> None:
    credits = client.credits()
    due = in_days(70)
    new = [NewSchedule(f"https://example.com/{n}", at=due) for n in range(120)]
    new[7] = NewSchedule("ftp://example.com", at=due)
    results = client.schedule_batch(new, idempotency_key=f"batch-{mode}")
    again = client.schedule_batch(new, idempotency_key=f"batch-{mode}")
    assert [type(each) for each in results] == [*[Created] * 7, InvalidRequest, *[Created] * 112]
    assert results[7].details[0].field == "targetUrl"
    ids = [each.schedule_id for each in results if isinstance(each, Created)]
    assert [each.schedule_id for each in again if isinstance(each, Created)] == ids
    assert all(each.replayed for each in again if isinstance(each, Created))
    assert client.credits() == credits - 119
    # More than one page of both lists.
    assert [each.schedule_id for each in client.list(from_=due)] == sorted(ids)
    assert len(client.logs(status="scheduled", from_=due)) == 119
    for schedule_id in ids:
        client.cancel(schedule_id)
    assert client.credits() == credits


def test_the_same_key_never_costs_a_second_credit(client: Client, mode: str) -> None:
    credits = client.credits()
    at = in_days(100)
    first = client.schedule("https://example.com", at=at, idempotency_key=f"one-{mode}")
    again = client.schedule("https://example.com", at=at, idempotency_key=f"one-{mode}")
    assert (first.replayed, again.replayed) == (False, True)
    assert again.schedule_id == first.schedule_id
    assert client.credits() == credits - 1
    with pytest.raises(InvalidRequest) as caught:
        client.schedule("https://example.org", at=at, idempotency_key=f"one-{mode}")
    assert caught.value.status_code == 422
    client.cancel(first.schedule_id)


class LosingAnswers:
    """Passes each request on to the real server, and then loses the answers to the first few."""

    def __init__(self, real: httpx.Client, lost: int) -> None:
        self._real = real
        self._lost = lost

    def handle(self, request: httpx.Request) -> httpx.Response:
        answer = self._real.request(
            request.method, request.url, headers=request.headers, content=request.content
        )
        if self._lost:
            self._lost -= 1
            raise httpx.ReadError("the connection was cut")
        return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)


def test_lost_answers_cost_one_credit_and_give_one_back(
    mode: str, postdate_up: PostdateProcess, key: str, client: Client
) -> None:
    credits = client.credits()
    due = in_days(130)

    def losing(lost: int) -> Client:
        handler = LosingAnswers(real, lost).handle
        return Client(mode, postdate_up.base_url, key, handler=handler)

    with (
        httpx.Client(verify=False) as real,
        losing(2) as creating,
        losing(2) as changing,
        losing(2) as ending,
    ):
        created = creating.schedule("https://example.com", at=due)
        assert [each.schedule_id for each in client.list(from_=due)] == [created.schedule_id]
        assert client.credits() == credits - 1
        later = due + timedelta(days=1)
        assert changing.change(created.schedule_id, at=later).trigger_at == later
        assert ending.cancel(created.schedule_id).credits_remaining == credits
    assert client.credits() == credits


def test_refusals(client: Client, mode: str, postdate_up: PostdateProcess) -> None:
    with pytest.raises(NotFound):
        client.get("sch_00000000000000000000000000")
    with pytest.raises(InvalidRequest) as caught:
        client.schedule("nonsense", at="never")
    assert {each.field for each in caught.value.details} == {"targetUrl", "triggerAt"}
    with (
        Client(mode, postdate_up.base_url, "pd_00_wrong") as stranger,
        pytest.raises(Unauthorized, match="Invalid or inactive API key"),
    ):
        stranger.credits()


def test_nobody_there(mode: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with (
        Client(mode, url, "pd_00_key", retry_for=0.3) as client,
        pytest.raises(ConnectionFailed, match=rf"^{url} cannot be reached: ") as caught,
    ):
        client.schedule("https://example.com", in_=5)
    assert not caught.value.maybe_done


def test_retries_are_sent_and_what_waits_for_one_is_shown_and_stopped(
    client: Client, receiver: Receiver
) -> None:
    url = receiver.answer("/hook", status=503)
    delays = [timedelta(hours=1), 90, "2h"]
    created = client.schedule(url, in_=0, retries=5, retry_delays=delays)
    [attempt] = until(lambda: client.logs(url=url, status="retrying"), "the first attempt")
    assert (attempt.attempt, attempt.status_code) == (1, 503)
    found = client.get(created.schedule_id)
    assert (found.retries, found.retry_delays) == (5, ["1h", "1m30s", "2h"])
    assert (found.status, found.attempts, found.status_code) == ("scheduled", 1, 503)
    assert found.next_attempt_at == attempt.next_attempt_at
    changed = client.change(created.schedule_id, retries=7, retry_delays=None)
    assert (changed.retries, changed.retry_delays) == (7, None)
    assert changed.next_attempt_at == found.next_attempt_at
    stopped = client.cancel(created.schedule_id)
    assert (stopped.status, stopped.status_code, stopped.attempts) == ("failed", 503, 1)
    with pytest.raises(TypeError, match="must be a list"):
        client.schedule(url, in_=0, retries=1, retry_delays="10s")
    [plain] = client.schedule_batch([NewSchedule(url, in_=60, retries=1, retry_delays=["1s"])])
    assert isinstance(plain, Created)
    assert client.cancel(plain.schedule_id).status == "cancelled"
