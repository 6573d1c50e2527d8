"""Requests take turns on the event loop, fair by account, by the time that they take of it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from api import fair_queue
from api.fair_queue import STRANGERS, Payer, Turns
from api.service import Service
from scheduler.ids import new_api_key, new_schedule_ids
from scheduler.runtime import pause
from tests.api.conftest import Api, payload

LONG_S, SHORT_S = 0.010, 0.001


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Loop:
    """Requests whose steps take time by a clock of their own, and the order in which they ran."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.turns = Turns(self.clock)
        self.steps: list[str] = []
        self.rounds = 0

    async def work(self, name: str, step_s: float, count: int) -> None:
        for _ in range(count):
            self.steps.append(name)
            self.clock.now_s += step_s
            await asyncio.sleep(0)

    def request(
        self, name: str, step_s: float, count: int, account_id: str = ""
    ) -> asyncio.Task[None]:
        return self.started(self.work(name, step_s, count), Payer(account_id or name))

    def started(self, work: Coroutine[Any, Any, None], payer: Payer) -> asyncio.Task[None]:
        async def run() -> None:
            await self.turns.taken(work, payer)

        return asyncio.create_task(run())

    async def charge(self, *accounts: str) -> None:
        """So that they have taken more than what is free."""
        await asyncio.gather(*(self.request(each, SHORT_S, 5) for each in accounts))
        self.steps.clear()

    async def heavy(self, name: str, count: int, ran: int) -> list[asyncio.Task[None]]:
        """Eight requests of one account, of which so many steps have run."""
        await self.charge("a")
        tasks = [self.request(name, LONG_S, count, "a") for _ in range(8)]
        while self.steps.count(name) < ran:
            await asyncio.sleep(0)
        self.steps.clear()
        return tasks

    async def count_rounds(self) -> None:
        while True:
            self.rounds += 1
            await asyncio.sleep(0)


@pytest.fixture
def loop() -> Loop:
    return Loop()


def is_idle(turns: Turns) -> bool:
    return not turns._line and not turns._is_taken


async def test_of_two_accounts_each_gets_as_much_time(loop: Loop) -> None:
    await loop.charge("a", "b")
    heavy = [loop.request("a", LONG_S, 100, "a") for _ in range(8)]
    light = loop.request("b", SHORT_S, 200)
    await light
    took_s = loop.steps.count("a") * LONG_S
    assert abs(took_s - 200 * SHORT_S) <= 3 * LONG_S
    await asyncio.gather(*heavy)
    assert is_idle(loop.turns)


async def test_an_account_gains_nothing_by_waiting_for_long(loop: Loop) -> None:
    await loop.charge("a", "b")
    first = loop.request("a", LONG_S, 100)
    while loop.steps.count("a") < 50:
        await asyncio.sleep(0)
    loop.steps.clear()
    await loop.request("b", LONG_S, 20)
    assert abs(loop.steps.count("a") - 20) <= 3
    await first


async def test_an_account_that_takes_little_never_waits(loop: Loop) -> None:
    heavy = await loop.heavy("a", 50, 20)
    await loop.request("little", 0.0001, 10)
    assert loop.steps.count("a") <= 5
    await asyncio.gather(*heavy)


async def test_of_an_account_the_request_goes_first_that_has_taken_least(loop: Loop) -> None:
    heavy = await loop.heavy("heavy", 30, 80)
    await loop.request("small", SHORT_S, 5, "a")
    assert loop.steps.count("heavy") <= 2
    await asyncio.gather(*heavy)


async def test_what_was_taken_is_forgotten_in_time(loop: Loop) -> None:
    await loop.charge("a")
    payer = Payer("a")
    assert loop.turns.must_wait(payer)
    loop.clock.now_s += 1
    assert not loop.turns.must_wait(payer)


@pytest.mark.parametrize(("step_s", "least"), [(LONG_S, fair_queue._ROUNDS), (0.00001, 0)])
async def test_after_a_long_step_the_loop_has_rounds_for_all_else(
    loop: Loop, step_s: float, least: int
) -> None:
    await loop.charge("a")
    at: list[int] = []

    async def noting() -> None:
        for _ in range(5):
            at.append(loop.rounds)
            loop.clock.now_s += step_s
            await asyncio.sleep(0)

    counting = asyncio.create_task(loop.count_rounds())
    await asyncio.gather(*(loop.started(noting(), Payer("a")) for _ in range(8)))
    counting.cancel()
    gaps = [after - before for before, after in itertools.pairwise(at)]
    assert min(gaps) >= least
    assert max(gaps) <= fair_queue._ROUNDS + 4


async def test_a_request_gets_what_its_work_returns_or_raises(loop: Loop) -> None:
    await loop.charge("a")

    async def failing() -> None:
        await asyncio.sleep(0)
        raise LookupError

    async def caught() -> None:
        try:
            await failing()
        except LookupError:
            loop.steps.append("caught")
        await asyncio.wait_for(asyncio.sleep(0), 30)

    with pytest.raises(LookupError):
        await loop.started(failing(), Payer("a"))
    await loop.started(caught(), Payer("a"))
    assert loop.steps == ["caught"]
    assert is_idle(loop.turns)


@pytest.mark.parametrize("rounds", range(1, 12))
async def test_a_request_that_is_given_up_gives_its_turn_on(loop: Loop, rounds: int) -> None:
    await loop.charge("a")
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await loop.work(name, LONG_S, 3)
        except asyncio.CancelledError:
            ended.append(name)
            raise

    tasks = [loop.started(work(name), Payer("a")) for name in "xyz"]
    for _ in range(rounds):
        await asyncio.sleep(0)
    tasks[1].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results[0] is results[2] is None
    assert isinstance(results[1], asyncio.CancelledError)
    assert loop.steps.count("x") == loop.steps.count("z") == 3
    assert ended == (["y"] if "y" in loop.steps else [])
    assert is_idle(loop.turns)


async def test_few_accounts_are_remembered(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_queue, "_MOST_KNOWN", 8)
    tasks = [loop.request(str(n), LONG_S, 3) for n in range(100)]
    await asyncio.gather(*tasks)
    assert len(loop.turns._accounts) == 8
    assert Counter(loop.steps) == {str(n): 3 for n in range(100)}


# Of the API


class Watched(Turns):
    """Each step takes a millisecond by its clock; notes what each account was charged for."""

    def __init__(self) -> None:
        self.clock = Clock()
        super().__init__(self._later)
        self.charged: list[str] = []

    def _later(self) -> float:
        self.clock.now_s += SHORT_S
        return self.clock.now_s

    def charge(self, payer: Payer) -> None:
        if payer.owed_s:
            self.charged.append(payer.account_id)
        super().charge(payer)


@pytest.fixture
def watched(api: Api) -> Watched:
    service: Service = api.app.state.service
    service.turns = watched = Watched()
    return watched


def items(count: int, **more: object) -> dict[str, Any]:
    return {"schedules": [payload(reference=f"r{n}", **more) for n in range(count)]}


def heavy_calls() -> Sequence[tuple[str, str, Any]]:
    return [
        ("POST", "/schedule/batch", items(3)),
        ("POST", "/schedule/batch", items(3, onExisting="keep")),
        ("POST", "/schedule/batch", items(3, retries=99)),
        ("POST", "/schedule/batch", "no JSON"),
        ("POST", "/schedule", payload(targetBodyText="a" * 20_000)),
        ("POST", "/schedule/cancel", {"status": "scheduled"}),
        ("POST", "/schedule/cancel", {"ids": ["sch_0"]}),
        ("POST", "/schedule/replay", {"status": "failed"}),
        ("GET", "/schedule?targetUrl=https://example.com/none", None),
        ("GET", "/stats", None),
        ("GET", "/stats/logs", None),
        ("GET", "/recurring/preview?every=1h", None),
        ("GET", "/nothing", None),
    ]


async def test_heavy_calls_are_charged_to_the_account_and_those_of_strangers_to_them_all(
    api: Api, watched: Watched
) -> None:
    """Also the first one of a key that is not known yet."""
    for method, path, body in heavy_calls():
        for key in (api.key, new_api_key(0)):
            watched.charged.clear()
            await api.client.request(method, path, json=body, headers={"x-api-key": key})
            payers = set(watched.charged)
            assert payers == {api.account_id if key == api.key else STRANGERS}, (path, key)


async def test_small_creates_and_health_checks_take_no_turns(api: Api, watched: Watched) -> None:
    for _ in range(2):
        assert (await api.create()).status_code == 201
        for path in ("/healthz", "/readyz"):
            assert (await api.client.get(path)).status_code == 200
    assert watched.charged == []


COUNT, AT_ONCE = 100, pause._FEW
NAMES = {"ids": new_schedule_ids(COUNT, 0)}


@pytest.mark.parametrize(
    ("path", "body", "least"),
    [
        # Sealed for the store; alike ones are judged 32 at once, and 128 are answered.
        ("/schedule/batch", items(COUNT), COUNT - AT_ONCE + COUNT // 32),
        ("/schedule/batch", items(COUNT, onExisting="replace"), 2 * (COUNT - AT_ONCE)),
        ("/schedule/batch", items(COUNT, retries=99), COUNT - AT_ONCE),
        ("/schedule/cancel", NAMES, 2 * (COUNT - AT_ONCE)),
        ("/schedule/replay", NAMES, 2 * (COUNT - AT_ONCE)),
    ],
)
async def test_work_on_many_schedules_pauses_in_each_of_its_parts(
    api: Api,
    watched: Watched,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body: dict[str, Any],
    least: int,
) -> None:
    monkeypatch.setattr(pause, "PIECE_S", 0.0)  # each schedule is a piece
    answer = await api.client.post(path, json=body)
    assert answer.status_code == 200
    assert len(watched.charged) >= least


async def test_a_repeated_batch_pauses_too(
    api: Api, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pause, "PIECE_S", 0.0)
    content = json.dumps(items(COUNT))
    for _ in range(2):
        watched.charged.clear()
        headers = {"idempotency-key": "a"}
        answer = await api.client.post("/schedule/batch", content=content, headers=headers)
    assert answer.headers["idempotency-replayed"] == "true"
    assert len(watched.charged) >= COUNT - AT_ONCE
