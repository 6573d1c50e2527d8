"""Both clients, and a buffer, against a real `postdate up`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest

import postdate
from tests.client.both import Client
from tests.support.commands import own_account
from tests.support.servers import PostdateProcess, in_days, refusing_port

URL = "https://example.com"


@pytest.fixture
def key(postdate_up: PostdateProcess) -> str:
    """Of an account of the test's own: others may have left much in the first one."""
    return own_account(postdate_up, 2000)["api_key"]


@pytest.fixture
def client(mode: str, postdate_up: PostdateProcess, key: str) -> Iterator[Client]:
    with Client(mode, postdate_up.base_url, key) as client:
        yield client


class LosingAnswers:
    """Passes each request on to the real server, and then loses the next few answers, but for the
    first that it `passes`."""

    def __init__(self, lost: int, passes: int = 0) -> None:
        self._lost, self._passes = lost, passes

    def __call__(self, request: httpx.Request) -> httpx.Response:
        with httpx.Client(verify=False) as real:
            answer = real.request(
                request.method, request.url, headers=request.headers, content=request.content
            )
        if self._passes:
            self._passes -= 1
        elif self._lost:
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


@pytest.mark.parametrize(
    ("name", "kind"), [("cancel_many", postdate.Cancelled), ("replay_many", postdate.Conflict)]
)
def test_each_id_given_has_its_result_in_order(client: Client, name: str, kind: type) -> None:
    """Also one that is given twice, is malformed, or is in no account; over several calls."""
    made = [client.schedule(URL, at=in_days(9), json={"n": n}).schedule_id for n in range(2)]
    odd = ["", "order-17", "ü" * 300, f"{made[0]}x", "sch_00000000000000000000000000"]
    many = [f"none-{n}" for n in range(1000)]
    ids = [made[0], *odd, made[0], *many, made[1], odd[1], made[0]]
    results = getattr(client, name)(ids)
    assert [each.schedule_id for each in results] == ids
    for given, result in zip(ids, results, strict=True):
        assert isinstance(result, kind if given in made else postdate.NotFound)


def test_a_replay_of_many_goes_on_where_an_answer_was_lost(
    mode: str,
    postdate_up: PostdateProcess,
    key: str,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("postdate.calls._AT_ONCE", 2)
    url = f"http://127.0.0.1:{refusing_port()}"
    made = [client.schedule(url, at=in_days(9)).schedule_id for _ in range(5)]
    client.cancel_many(made)
    losing = LosingAnswers(1, passes=1)
    with (
        Client(mode, postdate_up.base_url, key, handler=losing, retry_for=0) as impatient,
        pytest.raises(postdate.ConnectionFailed) as caught,
    ):
        impatient.replay_many(made)
    results = client.replay_many(made, idempotency_key=caught.value.idempotency_key)
    assert [each.replay_of for each in results] == made
    assert [each.replayed for each in results] == [True] * 4 + [False]
    assert client.credits() == 2000 - 5


async def test_of_thousands_in_a_buffer_each_costs_one_credit_though_answers_are_lost(
    postdate_up: PostdateProcess, key: str
) -> None:
    urls = [f"{URL}/{n}" for n in range(1_500)]
    urls[7] = urls[1234] = "ftp://example.com"
    transport = httpx.MockTransport(LosingAnswers(3))
    async with httpx.AsyncClient(transport=transport) as http:
        client = postdate.AsyncPostdate(postdate_up.base_url, key, http=http)
        async with postdate.Buffer(client) as buffer:
            creating = (buffer.schedule(url, at=in_days(9), json={"url": url}) for url in urls)
            results = await asyncio.gather(*creating, return_exceptions=True)
        bad = [n for n, each in enumerate(results) if isinstance(each, postdate.InvalidRequest)]
        assert bad == [7, 1234]
        assert await client.credits() == 2000 - 1498
        for n in (0, 1000, 1499):
            created = results[n]
            assert isinstance(created, postdate.Created)
            assert (await client.get(created.schedule_id)).target_body == {"url": urls[n]}
