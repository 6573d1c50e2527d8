"""Small parts of calls, and calls that end between two of them. Creates of every kind, and
replays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from scheduler.errors import OutcomeUnknown
from scheduler.models import Idempotency, Request, Upsert
from scheduler.store.lifecycle.create.create_rows import Part
from scheduler.store.lifecycle.create.creator import _CREATE, Creator
from scheduler.store.lifecycle.create.replays import Replays
from scheduler.store.lifecycle.create.results import CreateResult
from scheduler.store.queries.listing import Selection
from scheduler.store.server import Script
from scheduler.store.verdict import Verdict
from tests.store.lifecycle.end.dead_letters import (
    due_at,
    fail,
    letter_ids,
    new_ids,
    replay,
    verdicts,
)
from tests.store.scene import URL, Scene

# Rows of a part with `small_parts`, of whatever kind they are.
PIECE = 4


def at_part(
    monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], Awaitable[object]]
) -> None:
    """Does something before the part of that number is sent, of the next call that has so many."""
    send, sent = Creator._send, 0

    async def sending(self: Creator, call: Any, part: Part) -> bytes:
        nonlocal sent
        sent += 1
        if sent == number:
            await act()
        return await send(self, call, part)

    monkeypatch.setattr(Creator, "_send", sending)


async def cut() -> None:
    raise OutcomeUnknown("The store's answer was lost")


def lose_reply(monkeypatch: pytest.MonkeyPatch, scene: Scene, number: int) -> None:
    """Loses the store's reply to the part of that number, once."""
    write, sent = scene.store.server.write, 0

    async def lose(script: Script, key: str, arguments: Any) -> Any:
        nonlocal sent
        reply = await write(script, key, arguments)
        sent += script is _CREATE
        if sent == number and script is _CREATE:
            await cut()
        return reply

    monkeypatch.setattr(scene.store.server, "write", lose)


ONCE = Idempotency("key", "what was asked", b"note")
SECOND_MS, DAY_MS = 1000, 86_400_000
COUNT = 2 * PIECE + 1
DONE, UNPAID, REPLAYED = Verdict.DONE, Verdict.UNPAID, Verdict.REPLAYED
Asked = Request | Upsert


async def requests(scene: Scene, count: int, **fields: Any) -> list[Request]:
    due_ms = await scene.clock.now_ms() + 60 * SECOND_MS
    return [
        Request(due_ms + n, "POST", URL, **{k: f"{v}{n}" for k, v in fields.items()})
        for n in range(count)
    ]


async def headed(scene: Scene, count: int) -> list[Request]:
    return await requests(scene, count, reference="order-", lane="lane-")


async def keeps(scene: Scene, count: int) -> list[Upsert]:
    """Every second one means one that waits."""
    wanted = await requests(scene, count, reference="order-")
    for each in wanted[::2]:
        await scene.store.schedules.create(scene.account_id, each)
    return [Upsert(each, keep=True) for each in wanted]


async def replaces(scene: Scene, count: int) -> list[Upsert]:
    due_ms = await scene.clock.now_ms() + 90 * SECOND_MS
    later = [
        msgspec.structs.replace(each.request, trigger_at_ms=due_ms)
        for each in await keeps(scene, count)
    ]
    return [Upsert(each, False, DAY_MS) for each in later]


async def failed(scene: Scene, count: int) -> list[str]:
    return await fail(scene, count, reference="order")


async def create(
    scene: Scene, wanted: Sequence[Asked], once: Idempotency | None = ONCE, _: int = 0
) -> CreateResult:
    """A repeat ends what an earlier call has begun."""
    schedules = scene.store.schedules
    done = await schedules.create_all(scene.account_id, wanted, once)
    if once is None or done.unfinished is None:
        return done
    return await schedules.finish(scene.account_id, wanted, once, done.unfinished)


async def before(scene: Scene) -> CreateResult | None:
    return await scene.store.schedules.created_before(scene.account_id, ONCE)


async def by_ids(
    scene: Scene, wanted: list[str], once: Idempotency | None = ONCE, due_ms: int = 1
) -> Replays:
    return await replay(scene, wanted, once, due_ms)


async def by_filter(
    scene: Scene, wanted: list[str], once: Idempotency | None = ONCE, due_ms: int = 1
) -> Replays:
    selected, call = Selection(limit=len(wanted)), scene.store.schedules.replay_failed
    return await call(scene.account_id, selected, due_at(due_ms), once)


class Kind(NamedTuple):
    """What is asked for, by a call; `half` of which waits already."""

    prepare: Callable[[Scene, int], Awaitable[Any]]
    call: Callable[..., Awaitable[Any]] = create
    half: bool = False

    @property
    def replays(self) -> bool:
        return self.prepare is failed

    async def compare(self, scene: Scene, wanted: Any, done: Any, credits: int) -> None:
        """Each was stored as it was asked, and paid for once; a call before is known by its key."""
        made = new_ids(done) if self.replays else done.schedule_ids
        assert len(set(made)) == len(wanted)
        stored = [await scene.get(each) for each in made]
        if self.replays:
            requests = [(each.request.replay_of, each.request.trigger_at_ms) for each in stored]
            assert requests == [(each, 1) for each in wanted]
            assert (verdicts(done), done.trigger_at_ms) == ([DONE] * len(wanted), 1)
            assert not {*await letter_ids(scene)} & {*wanted}
        else:
            assert [each.due_at_ms for each in stored] == [each.trigger_at_ms for each in wanted]
        new = len(wanted) // 2 if self.half else len(wanted)
        assert await scene.credits() == credits - new
        await scene.assert_sound()


PLAIN, REPLAYS = Kind(requests), Kind(failed, by_ids)
KINDS = pytest.mark.parametrize(
    "kind",
    [
        *(PLAIN, Kind(headed), Kind(keeps, half=True), Kind(replaces, half=True)),
        *(REPLAYS, Kind(failed, by_filter)),
    ],
    ids=["plain", "headed", "keeps", "replaces", "replays by ids", "replays by a filter"],
)
