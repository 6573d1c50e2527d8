"""Requests that the firer does not send because their lease may have ended."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.models import Invocation
from tests.worker.scripted import answer, answering, dying, playing, until
from tests.worker.send.firing import (
    OK,
    Fired,
    fired,
    firer_for_tests,
    firing_at,
    invocation_of,
    leased,
)


@pytest.mark.parametrize("lease_s", [-10.0, 0.0, 0.2])
async def test_a_lease_that_may_have_ended_is_not_sent(lease_s: float) -> None:
    """Nor one that ends before a request sent now arrives."""
    unsure: list[Invocation] = []
    ended: list[Fired] = []
    async with playing(answering(answer())) as target:
        async with firer_for_tests(unsure=unsure.append) as firer:
            invocation = leased(target.url(), lease_s)
            firer.fire(invocation, lambda *end: ended.append(Fired(*end)))
            await until(lambda: unsure == [invocation])
            assert (firer.in_flight, firer.pool.idle_count) == (0, 0)
        await until(lambda: target.ended == target.accepted)
    assert (target.requests, ended) == ([], [])


async def test_the_connection_that_it_was_to_have_stays_for_the_next() -> None:
    unsure: list[Invocation] = []
    async with firing_at(answering(answer(), answer()), unsure=unsure.append) as (target, firer):
        await fired(firer, invocation_of(target.url()))
        firer.fire(leased(target.url(), 0), lambda *_: pytest.fail("it was not sent"))
        assert len(unsure) == 1
        await until(lambda: firer.pool.idle_count == 1)
        assert (await fired(firer, invocation_of(target.url()))).brief == OK
    assert (target.accepted, len(target.requests)) == (1, 2)


async def test_what_was_sent_once_ends_instead_of_being_sent_again_under_an_ended_lease() -> None:
    """The first attempt may have done its work; the lease ended before the second."""

    def ends(invocation: Invocation) -> None:
        invocation.lease_until_s = 0.0

    unsure: list[Invocation] = []
    hooks: dict[str, Any] = {"unsure": unsure.append, "resent": ends}
    async with firing_at(dying, answering(answer()), **hooks) as (target, firer):
        await fired(firer, invocation_of(target.url()))
        second = await fired(firer, invocation_of(target.url()))
    assert second.brief == ("failed", 0, "Connection closed before an answer")
    assert (unsure, len(target.requests)) == ([], 2)
