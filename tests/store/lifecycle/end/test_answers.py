"""What a target said when it failed: kept with the schedule, of the attempt that it was said to."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.models import Answer, Outcome
from scheduler.runtime.settings import Settings
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.queries.listing import Selection
from scheduler.store.stored import BETWEEN_ATTEMPTS_BYTES
from tests.store.conftest import SHARDS
from tests.store.scene import COMPLETED, FAILED, Scene

WAIT_MS = 60_000


def saying(body: bytes, content_type: str = "text/plain") -> Outcome:
    return msgspec.structs.replace(FAILED, answer=Answer(content_type, body))


@pytest.fixture(params=[(), (bytes(32),)], ids=["in clear", "encrypted"])
def settings(request: pytest.FixtureRequest) -> Settings:
    return Settings(shards=SHARDS, secret_key=request.param)


@pytest.fixture
def scene(fake_scene: Scene) -> Scene:
    return fake_scene


async def said(scene: Scene, schedule_id: str) -> bytes | None:
    """Of the last attempt, as every way of reading it tells."""
    found = await scene.get(schedule_id)
    outcome = found.retry.outcome if found.retry else found.outcome
    if found.retry is not None:
        listed = (await scene.store.unended.page(scene.account_id, Selection())).schedules
        assert found in listed
    await scene.assert_sound()
    return outcome.answer.body if outcome and outcome.answer else None


async def retried(scene: Scene, outcome: Outcome, wait_ms: int = WAIT_MS) -> str:
    """A schedule that waits for its next attempt."""
    schedule_id = await scene.create(retries=5)
    assert await scene.retry([await scene.claim_one()], wait_ms, outcome) == [1]
    return schedule_id


async def test_between_two_attempts_it_is_the_last_one_s(scene: Scene) -> None:
    schedule_id = await retried(scene, saying(b"busy"), 0)
    assert await said(scene, schedule_id) == b"busy"
    again = await scene.claim_one()
    assert await said(scene, schedule_id) == b"busy", "while the next one is made"
    await scene.retry([again], 0, saying(b"still busy"))
    assert await said(scene, schedule_id) == b"still busy"
    await scene.retry([await scene.claim_one()], WAIT_MS, FAILED)
    assert await said(scene, schedule_id) is None


async def test_a_long_one_is_cut_between_two_characters(scene: Scene) -> None:
    long = b"x" + "é".encode() * 500
    schedule_id = await retried(scene, saying(long))
    assert await said(scene, schedule_id) == long[: BETWEEN_ATTEMPTS_BYTES - 1]


async def test_the_end_has_what_was_said_to_it(scene: Scene) -> None:
    ends = {b"no": saying(b"no"), None: FAILED}
    for expected, outcome in ends.items():
        schedule_id = await retried(scene, saying(b"busy"), 0)
        await scene.ack([await scene.claim_one()], outcome)
        assert await said(scene, schedule_id) == expected
    schedule_id = await retried(scene, saying(b"busy"), 0)
    await scene.ack([await scene.claim_one()], COMPLETED)
    assert await said(scene, schedule_id) is None


async def test_ends_of_one_call_have_each_its_own(scene: Scene) -> None:
    made = [await scene.create() for _ in range(4)]
    by_id = {each.schedule_id: each for each in await scene.claim()}
    outcomes = [saying(b"one"), COMPLETED, FAILED, saying(b"four" * 500)]
    acks = [Ack(by_id[each], outcome, 0) for each, outcome in zip(made, outcomes, strict=True)]
    assert await scene.store.ends.ack(scene.shard, acks) == [1] * 4
    assert [await said(scene, each) for each in made] == [b"one", None, None, b"four" * 500]


async def test_what_ends_without_a_further_attempt_ends_as_the_one_before(scene: Scene) -> None:
    stopped = await retried(scene, saying(b"stop"))
    await scene.cancel(stopped)
    assert await said(scene, stopped) == b"stop"
    given_up = await retried(scene, saying(b"gave up"), 0)
    again = await scene.claim_one()
    again.attempt -= 1  # as the worker does with one that is not made any more
    await scene.ack([again], again.retry.outcome)
    assert await said(scene, given_up) == b"gave up"
