"""`expiresAt`, by a whole worker: it is looked at again right before the first byte."""

from __future__ import annotations

from typing import Any

import pytest

import worker.send.firer
from scheduler.models import Outcome
from tests.worker.scene import Scene
from tests.worker.scripted import Line, answer, answering, dying, playing, until
from worker.send.outcome import Failure, failed

_SOON_MS = 60_000


def pass_ms(scene: Scene, ms: int) -> None:
    scene.store.clock.observe((scene.store.clock.now_ms() + ms) * 1000)


def expiring(scene: Scene, url: str) -> None:
    """One that expires in a minute is handed out."""
    scene.hand_out(url=url, expires_at_ms=scene.store.clock.now_ms() + _SOON_MS)


async def ended(scene: Scene, count: int) -> tuple[Outcome, int]:
    """The outcome of the last one, and how many attempts it had."""
    await until(lambda: len(scene.claims.acked) == count)
    ack = scene.claims.acked[-1]
    return ack.outcome, ack.invocation.attempt


async def test_what_has_expired_when_it_is_claimed_is_not_sent(scene: Scene) -> None:
    expiring(scene, "http://127.0.0.1:1/")
    pass_ms(scene, _SOON_MS + 1)
    await scene.start()
    assert await ended(scene, 1) == (failed(Failure.EXPIRED), 0)


async def test_what_expires_between_its_moment_and_its_first_byte_is_not_sent(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*given: Any) -> bytes:
        pass_ms(scene, _SOON_MS + 1)
        return rendered(*given)

    rendered = worker.send.firer.render
    monkeypatch.setattr(worker.send.firer, "render", late)
    async with playing(answering(answer())) as target:
        expiring(scene, target.url())
        await scene.start()
        assert await ended(scene, 1) == (failed(Failure.EXPIRED), 0)
        await scene.stop()
    assert target.requests == []


async def test_what_was_sent_once_and_expires_before_it_is_sent_again_was_sent(
    scene: Scene,
) -> None:
    """A kept connection died under it, so that one attempt was made."""

    async def late(line: Line) -> None:
        await dying(line)
        pass_ms(scene, _SOON_MS + 1)

    async with playing(late, answering(answer())) as target:
        scene.hand_out(url=target.url())
        await scene.start()
        await ended(scene, 1)
        expiring(scene, target.url())
        outcome, attempts = await ended(scene, 2)
        await scene.stop()
    assert (outcome.error_message, attempts) == (Failure.CLOSED_EARLY, 1)
    assert len(target.requests) == 2
