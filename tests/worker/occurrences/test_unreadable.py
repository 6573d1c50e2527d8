"""Claimed schedules that a worker cannot read: given back, logged, counted; others go on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.models import Invocation
from scheduler.store.lifecycle.claim.claim import UnreadClaim
from tests.worker.desk import AWAY
from tests.worker.scene import Scene
from tests.worker.scripted import answer, answering, playing, until
from worker.occurrences.unreadable import ACCOUNT, DAMAGED, KEY

LACKING, NO_SUCH_KEY = "aabbccdd", "It is encrypted with key aabbccdd, which is not here"


def unreadable(scene: Scene, *, key_id: str = "", **fields: Any) -> Invocation:
    """What the next claim brings and cannot read."""
    invocation = scene.claims.make.one(**fields)
    scene.claims.unread.append(
        UnreadClaim(invocation, NO_SUCH_KEY if key_id else "garbled", key_id)
    )
    return invocation


async def test_it_is_given_back_for_later_and_the_others_go_out(scene: Scene) -> None:
    unread = unreadable(scene)
    async with playing(answering(answer())) as target:
        good = scene.hand_out(url=target.url())
        before_ms = scene.store.clock.now_ms()
        with capture_logs() as told:
            await scene.start()
            await until(lambda: scene.claims.released == [unread] and scene.held == 0)
            await until(lambda: scene.recorded == [good])
    assert before_ms < unread.due_at_ms <= scene.store.clock.now_ms() + 1000
    [line] = [each for each in told if "cannot be read" in each["event"]]
    assert (line["schedule"], line["error"]) == (unread.schedule_id, "garbled")
    assert scene.pipeline.unreadables.counted == {KEY: 0, DAMAGED: 1, ACCOUNT: 0}


async def test_until_the_store_has_it_back_it_is_held_and_given_back_again(scene: Scene) -> None:
    unread = unreadable(scene)
    scene.claims.raised["release"] += [AWAY] * 3
    await scene.start()
    await until(lambda: scene.claims.calls.count(("release", 0)) == 1)
    assert scene.held == 1
    await until(lambda: scene.claims.released == [unread] and scene.held == 0)


@pytest.mark.parametrize(
    ("key_id", "moments_s", "waits_s", "told"),
    [
        ("", [0, 1, 10, 59, 60, 300, 310], [1, 1, 5, 29.5, 30, 60, 60], [1, 4000, 1000]),
        # A key that is missing again days later is looked for again at once.
        (LACKING, [0, 100, 200, 200_000, 200_010], [1, 50, 60, 1, 5], [1, 1000, 1000, 1]),
    ],
    ids=["damaged", "a missing key"],
)
async def test_thousands_that_nobody_can_read_come_less_and_less_and_are_one_line_a_minute(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    key_id: str,
    moments_s: list[int],
    waits_s: list[float],
    told: list[int],
) -> None:
    now_s, now_ms = 0.0, scene.store.clock.now_ms()
    monkeypatch.setattr(scene.store.clock, "now_ms", lambda: now_ms)
    for module in ("worker.occurrences.unreadable", "scheduler.runtime.reminder"):
        monkeypatch.setattr(f"{module}.time", SimpleNamespace(monotonic=lambda: now_s))
    unreadables, waited_s = scene.pipeline.unreadables, []
    with capture_logs() as lines:
        for moment_s in moments_s:
            now_s = 1000.0 + moment_s
            for _ in range(1000):
                one = scene.claims.make.one()
                unreadables.put([UnreadClaim(one, "garbled", key_id)])
            waited_s.append((one.due_at_ms - now_ms) / 1000)
    assert waited_s == pytest.approx(waits_s, abs=0.2)
    assert [each["count"] for each in lines] == told
    unreadables.clear()


async def test_who_lacks_a_key_that_others_have_asks_and_soon_lets_them_have_it(
    scene: Scene,
) -> None:
    sealing_keys = scene.store.sealing_keys

    async def read() -> None:
        sealing_keys.missing = frozenset({LACKING})

    sealing_keys.read = sealing_keys.watch = read
    unread = unreadable(scene, key_id=LACKING)
    await scene.start()
    await until(lambda: scene.claims.released == [unread])
    assert sealing_keys.missing == {LACKING}
    assert scene.pipeline.unreadables.counted[KEY] == 1


async def test_accounts_that_are_damaged_are_told_and_counted(scene: Scene) -> None:
    scene.claims.broken.append("acc_00_broken")
    with capture_logs() as told:
        await scene.start()
        await until(lambda: scene.pipeline.unreadables.counted[ACCOUNT] == 1)
    assert "acc_00_broken" in [each.get("account") for each in told]
