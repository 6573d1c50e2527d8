"""Workers tend the rules of their own shards, and one that fails holds up no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from structlog.testing import capture_logs

from tests.worker.desk import AWAY, LEASE_MS, ScriptedStore
from worker.leases import Touch
from worker.occurrences.tending import Tends
from worker.presence import Presence


class Tended:
    """Three shards, of which a worker has two to itself."""

    def __init__(self) -> None:
        self.store = ScriptedStore({0: 0, 1: 0, 2: 0})
        self.recurring = self.store.recurring
        self.touch = Touch(LEASE_MS, LEASE_MS)
        self.presence = SimpleNamespace(shards=frozenset({0, 1}))
        self.tends = Tends(self.store.as_store, cast("Presence", self.presence), self.touch)
        self.recurring.overdue_in.update({0: 1, 1: 1, 2: 1})


@pytest.fixture
def tended() -> Tended:
    return Tended()


async def test_overdue_rules_of_own_shards_are_tended(tended: Tended) -> None:
    await tended.tends.step()
    assert tended.recurring.overdue_in == {0: 0, 1: 0, 2: 1}
    assert tended.tends.tended == 2
    # Of a worker that was lost, once its shard is another's.
    tended.presence.shards = frozenset({1, 2})
    await tended.tends.step()
    assert tended.recurring.overdue_in[2] == 0


async def test_where_nothing_is_overdue_or_all_is_on_hold_no_rule_is_asked_for(
    tended: Tended,
) -> None:
    tended.store.claims.on_hold.add(0)
    tended.recurring.overdue_in[1] = 0
    await tended.tends.step()
    assert tended.recurring.tended == []


async def test_a_flood_of_one_shard_leaves_a_turn_to_the_next(tended: Tended) -> None:
    tended.recurring.overdue_in.update({0: 5_000, 1: 5})
    await tended.tends.step()
    assert tended.recurring.overdue_in == {0: 4_001, 1: 0, 2: 1}


async def test_a_shard_that_is_away_is_lost_and_the_next_is_tended(tended: Tended) -> None:
    tended.store.claims.away.add(0)
    await tended.tends.step()
    assert (tended.touch.lost, tended.recurring.tended) == ({0}, [1, 1])
    tended.store.claims.away.clear()
    await tended.tends.step()  # it is left alone until it is regained
    assert tended.recurring.overdue_in[0] == 1
    tended.touch.regain(0)
    tended.recurring.raised = [AWAY]
    await tended.tends.step()
    assert tended.touch.lost == {0}


async def test_an_unforeseen_error_of_one_shard_keeps_the_next_from_nothing(tended: Tended) -> None:
    tended.recurring.raised = [ZeroDivisionError("a rule")]
    with capture_logs() as told:
        await tended.tends.step()
    assert (tended.touch.lost, tended.recurring.overdue_in[1]) == (set(), 0)
    assert [each["shard"] for each in told] == [0]


async def test_each_own_shard_is_renewed_and_one_that_is_away_spoils_no_other(
    tended: Tended,
) -> None:
    tended.store.claims.away.add(0)
    with capture_logs() as told:
        await tended.tends.renew()
    assert (tended.touch.lost, tended.recurring.renewed) == ({0}, [1])
    assert [each["rules"] for each in told if "renewed" in each["event"]] == [1]


async def test_where_no_tzdata_is_newer_nothing_is_said(tended: Tended) -> None:
    tended.recurring.older_tzdata = 0
    with capture_logs() as told:
        await tended.tends.renew()
    assert tended.recurring.renewed == [0, 1]
    assert not any("renewed" in each["event"] for each in told)


async def test_after_the_clock_was_set_back_rules_of_all_shards_are_brought_back_once(
    tended: Tended,
) -> None:
    """It may have been while no worker ran, so that the first walk is at the start."""
    tended.recurring.older_tzdata = 0
    await tended.tends.renew()
    await tended.tends.renew()
    assert tended.recurring.brought_back == [0, 1, 2]
    tended.store.clock.steps_back += 1
    tended.store.claims.away.add(1)
    await tended.tends.renew()
    assert tended.recurring.brought_back == [0, 1, 2, 0, 2]
    tended.store.claims.away.clear()
    tended.touch.regain(1)
    with capture_logs() as told:
        await tended.tends.renew()
        await tended.tends.renew()
    assert tended.recurring.brought_back == [0, 1, 2, 0, 2, 0, 1, 2]
    assert [each["rules"] for each in told] == [3]
