"""How long each part of an exchange took: kept with the schedule, and nowhere else."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.models import Phases
from scheduler.store.queries.listing import Selection
from scheduler.store.stored import pack_outcome
from tests.scheduler.scene import COMPLETED, FAILED, Scene

pytestmark = pytest.mark.sound
TOLD = Phases(3, 20, 31, 40, 1)


async def test_they_are_those_of_the_last_attempt(scene: Scene) -> None:
    first = msgspec.structs.replace(FAILED, phases=Phases(None, 30_000))
    schedule_id = await scene.create()
    await scene.retry([await scene.claim_one()], 0, first)
    waiting = await scene.get(schedule_id)
    assert waiting.retry.outcome.phases == first.phases
    listed = await scene.store.unended.page(scene.account_id, Selection())
    assert listed.schedules == [waiting]
    again = await scene.claim_one()
    await scene.ack([again], msgspec.structs.replace(COMPLETED, phases=TOLD))
    ended = await scene.get(schedule_id)
    assert ended.outcome.phases == TOLD
    assert all("phases" not in entry.__struct_fields__ for entry in await scene.log())


async def test_a_stop_between_two_attempts_keeps_them(scene: Scene) -> None:
    schedule_id = await scene.create()
    await scene.retry(
        [await scene.claim_one()], 60_000, msgspec.structs.replace(FAILED, phases=TOLD)
    )
    await scene.cancel(schedule_id)
    outcome = (await scene.get(schedule_id)).outcome
    assert outcome.phases == TOLD


def test_what_has_none_is_stored_in_the_same_bytes() -> None:
    assert msgspec.msgpack.decode(pack_outcome(COMPLETED, 3)) == [1, 200, 12, "", 3]
    assert msgspec.msgpack.decode(pack_outcome(FAILED, 3, 2, 1)) == [
        2, 503, 30, "Service Unavailable", 3, 2, None, 1
    ]  # fmt: skip
    assert len(
        pack_outcome(msgspec.structs.replace(COMPLETED, phases=Phases(0, 1, 2, 3, 4)), 3)
    ) <= (len(pack_outcome(COMPLETED, 3)) + 8)
