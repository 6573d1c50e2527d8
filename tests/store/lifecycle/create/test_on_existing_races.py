"""Eight clients of two processes at one reference, with claims, cancellations and lost replies in
between. `RACE_ROUNDS=2000` makes it as long as the promise was judged by."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import suppress
from typing import NamedTuple

import pytest

from scheduler.errors import Conflict
from scheduler.models import Idempotency, Request, Upsert
from scheduler.store import Store, keys
from scheduler.store.verdict import Verdict
from tests.store.losses import lossy
from tests.store.scene import URL, Scene

pytestmark = [pytest.mark.sound, pytest.mark.timeout(900)]
ROUNDS = int(os.environ.get("RACE_ROUNDS", "40"))
CLIENTS, NAME = 8, "order-1"


class Accepted(NamedTuple):
    """A request that was stored: for which schedule, its body, and when it was asked and answered,
    in steps of the test."""

    schedule_id: str
    body: bytes
    asked: int
    answered: int


class Race:
    def __init__(self, scene: Scene, stores: list[Store], seed: int) -> None:
        self.scene, self.stores, self.random = scene, stores, random.Random(seed)
        self.steps = 0
        self.most_waiting = 0
        self.accepted: list[Accepted] = []
        self.sent: dict[str, bytes | None] = {}

    def step(self) -> int:
        self.steps += 1
        return self.steps

    async def ask(self, client: int) -> None:
        asked, store = self.step(), self.stores[client % len(self.stores)]
        keep, soon = self.random.random() < 0.2, self.random.random() < 0.4
        body, now_ms = b"%d" % asked, store.clock.now_ms()
        due_ms = now_ms + (self.random.randint(-5, 5) if soon else 60_000)
        request = Request(due_ms, "POST", URL, body=body, reference=NAME)
        max_wait_ms = self.random.choice([None, 2, 120_000]) if not keep else None
        once = Idempotency(f"{asked}", "") if self.random.random() < 0.2 else None
        wanted = Upsert(request, keep, max_wait_ms)
        done = await store.schedules.create_all(self.scene.account_id, [wanted], once)
        [placed] = done.placed
        assert placed.is_stored
        if placed.verdict == Verdict.DONE or not keep:
            self.accepted.append(Accepted(placed.schedule_id, body, asked, self.step()))

    async def fire(self) -> None:
        held = await self.scene.claim()
        for each in held:
            assert each.schedule_id not in self.sent
            self.sent[each.schedule_id] = each.request.body
        await asyncio.sleep(0)
        await self.scene.ack(held)

    async def cancel(self) -> None:
        if self.accepted:
            with suppress(Conflict):
                await self.scene.cancel(self.accepted[-1].schedule_id)

    async def watch(self) -> None:
        """How many wait, at one moment."""
        base = self.scene.base
        commands = [("ZCARD", base + keys.WAITING), ("ZCARD", base + keys.HELD)]
        waiting, held = await self.scene.store.server.reads(commands, at_once=base)
        self.most_waiting = max(self.most_waiting, waiting - held)

    async def round(self) -> None:
        acts = [self.ask(client) for client in range(CLIENTS)]
        acts += [self.fire(), self.watch(), self.watch()]
        if self.random.random() < 0.2:
            acts.append(self.cancel())
        self.random.shuffle(acts)
        await asyncio.gather(*acts)

    async def judge(self) -> None:
        """No request goes out, or waits, in the place of one that was accepted later."""
        found = dict(self.sent)
        for each in {each.schedule_id for each in self.accepted} - set(found):
            schedule = await self.scene.get(each)
            if schedule.outcome is None and not schedule.body_dropped:
                found[each] = schedule.request.body
        by_body = {each.body: each for each in self.accepted}
        for schedule_id, body in found.items():
            last = by_body[body or b""]
            assert last.schedule_id == schedule_id
            others = [each for each in self.accepted if each.schedule_id == schedule_id]
            assert not [each for each in others if each.asked > last.answered], (last, others)


@pytest.mark.parametrize("seed", range(2))
async def test_at_most_one_waits_and_the_last_one_accepted_goes_out(
    scene: Scene, processes: list[Store], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each schedule costs one credit: `sound` compares them with what waits and has ended."""
    monkeypatch.setattr("scheduler.store.server.server._PAUSES_S", (0.0,) * 20)
    await scene.store.accounts.grant(scene.account_id, 20 * ROUNDS)
    race = Race(scene, processes, seed)
    for each in processes:
        lossy(each, race.random, 0.05, "lifecycle/create/create")
    for _ in range(ROUNDS):
        await race.round()
    await race.watch()
    await race.judge()
    assert race.most_waiting == 1
    assert len(race.sent) > ROUNDS / 10


async def test_a_debounce_of_ten_thousand_calls_is_one_request(scene: Scene) -> None:
    before, due_ms = await scene.credits(), await scene.clock.now_ms() + 3_600_000

    async def call(n: int) -> str:
        request = Request(due_ms + n, "POST", URL, body=b"%d" % n, reference=NAME)
        done = await scene.store.schedules.create_all(
            scene.account_id, [Upsert(request, keep=False, max_wait_ms=60_000_000)]
        )
        return done.schedule_ids[0]

    made = set[str]()
    for first in range(0, 10_000, 500):
        made.update(await asyncio.gather(*(call(n) for n in range(first, first + 500))))
    [schedule_id] = made
    assert (await scene.get(schedule_id)).request.body == b"9999"
    assert await scene.visible_at_ms(schedule_id) == due_ms + 9999
    assert await scene.credits() == before - 1
    await scene.change(schedule_id, trigger_at_ms=due_ms - 3_700_000)
    assert [each.schedule_id for each in await scene.claim()] == [schedule_id]
