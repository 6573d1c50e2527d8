"""What tests of dead letters say over and over: failures, the list of them, replays."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.models import Idempotency, Request, Schedule
from scheduler.store.lifecycle.create.replays import Replays
from scheduler.store.verdict import Verdict
from scheduler.target.short_texts import spelt_headers
from tests.store.scene import COMPLETED, FAILED, Scene, ids_of

LARGE_BYTES = 2**40


async def fail(scene: Scene, count: int = 1, **fields: object) -> list[str]:
    """So many that failed together; nothing else may be due."""
    made = [await scene.create(**fields) for _ in range(count)]
    claimed = await scene.claim(most=count, most_bytes=LARGE_BYTES)
    assert sorted(each.schedule_id for each in claimed) == sorted(made)
    assert await scene.ack(claimed, FAILED) == [1] * count
    return sorted(made)


async def stop(scene: Scene, count: int = 1) -> list[str]:
    """So many that were stopped together between two attempts; nothing else may be due."""
    made = [await scene.create() for _ in range(count)]
    assert await scene.retry(await scene.claim(most=count), 60_000) == [1] * count
    done = await scene.store.canceller.by_id(scene.account_id, made)
    assert all(each.stopped for each in done.each)
    return sorted(made)


async def complete_all(scene: Scene) -> list[Request]:
    """Fires all due schedules; returns their requests."""
    claimed = await scene.claim(most=1000)
    assert await scene.ack(claimed, COMPLETED) == [1] * len(claimed)
    requests = [each.request for each in claimed]
    return [replace(each, headers=spelt_headers(each.headers)) for each in requests]


async def letters(scene: Scene, **selected: Any) -> list[Schedule]:
    """Every dead letter that is selected."""
    await scene.store.tick()
    return await scene.listed(scene.store.failed, **({"limit": 3} | selected))


async def letter_ids(scene: Scene, **selected: Any) -> list[str]:
    return ids_of(await letters(scene, **selected))


def due_at(ms: int):  # type: ignore[no-untyped-def]
    """The change that makes a replay due then."""

    def made(original: Schedule) -> Request:
        return msgspec.structs.replace(
            original.request, trigger_at_ms=ms, replay_of=original.schedule_id
        )

    return made


async def replay(
    scene: Scene, schedule_ids: list[str], once: Idempotency | None = None, due_ms: int = 1
) -> Replays:
    """In bulk, by their ids."""
    return await scene.store.schedules.replay_all(
        scene.account_id, schedule_ids, due_at(due_ms), once, most_bytes=LARGE_BYTES
    )


def verdicts(done: Replays) -> list[Verdict]:
    return [each.verdict for each in done.each]


def new_ids(done: Replays) -> list[str]:
    return [each.schedule_id for each in done.each if each.schedule_id is not None]
