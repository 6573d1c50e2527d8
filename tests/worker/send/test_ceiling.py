"""Firing at a target that more fires want than may have a connection to it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.models import Delivery, Invocation
from tests.worker.scripted import Line, Script, answer, answering, dying, playing, until
from tests.worker.send.firing import OK, all_fired, fired, firer_for_tests, firing_at, invocation_of
from worker.send.fire import NOT_SENT


def slow(delay_s: float, answers: int = 1000) -> Script:
    async def script(line: Line) -> None:
        for _ in range(answers):
            await line.request()
            await asyncio.sleep(delay_s)
            await line.say(answer())

    return script


def once(url: str) -> Invocation:
    return invocation_of(url, delivery=Delivery.AT_MOST_ONCE)


async def test_there_are_never_more_connections_than_the_ceiling() -> None:
    most: list[int] = []

    async def counting(line: Line) -> None:
        most.append(line.target.accepted - line.target.ended)
        await slow(0.005)(line)

    async with firing_at(counting, ceiling=4) as (target, firer):
        results = await all_fired(firer, [invocation_of(target.url()) for _ in range(100)])
        assert {(each.brief, each.invocation.attempt) for each in results} == {(OK, 1)}
        assert max(most) == 4


async def test_who_waits_in_line_is_not_charged_for_it() -> None:
    """All of them together wait for longer than the limit, and each for a thirtieth of it."""
    async with firing_at(slow(0.02), limit_ms=600, ceiling=1) as (target, firer):
        results = await all_fired(firer, [invocation_of(target.url()) for _ in range(35)])
        assert [each.brief for each in results] == [OK] * 35
        sent = [each.sent_at_s for each in results]
        assert sent == sorted(sent)
        assert sent[-1] - sent[0] > 0.6


async def test_the_line_moves_on_when_connections_die() -> None:
    async with firing_at(dying, ceiling=2) as (target, firer):
        results = await all_fired(firer, [invocation_of(target.url()) for _ in range(30)])
        assert {each.brief for each in results} == {OK}


async def test_a_ceiling_does_not_hold_up_another_origin() -> None:
    async with (
        playing(slow(5)) as stuck,
        playing(answering(answer())) as other,
        firer_for_tests(ceiling=1) as firer,
    ):
        for _ in range(10):
            firer.fire(invocation_of(stuck.url()), lambda *ended: None)
        assert (await fired(firer, invocation_of(other.url()))).brief == OK
        assert firer.in_flight == 10
        firer.give_up_unbegun()
        assert firer.in_flight == 1
        await firer.aclose()


async def test_who_waits_for_a_target_that_gives_nobody_a_connection_is_out_of_time_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.send.connection_slots.MAX_OPENINGS", 2)
    async with firing_at(answering(), limit_ms=200) as (target, firer):  # no handshake
        url = target.url(scheme="https")
        results = await all_fired(firer, [invocation_of(url) for _ in range(100)])
        assert {each.brief for each in results} == {("failed", 0, "Timeout after 0.2 seconds")}
        assert {each.sent_at_s for each in results} == {NOT_SENT}
        assert target.accepted <= 6, "not fifty time limits, one after the other"
        await until(lambda: target.ended == target.accepted)


async def test_a_neighbour_does_not_wait_behind_an_accounts_thousands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.send.origin_queue.TURN_S", 0.0)
    async with firing_at(slow(0.001), ceiling=1) as (target, firer):
        ended: list[Any] = []
        for _ in range(100):
            firer.fire(invocation_of(target.url()), lambda *outcome: ended.append(outcome))
        await fired(firer, invocation_of(target.url(), account_id="acc_00_b"))
        assert len(ended) < 50
        await until(lambda: len(ended) == 100)


async def test_at_most_once_in_line_gets_no_used_connection_and_is_sent_once() -> None:
    async with firing_at(dying, ceiling=1) as (target, firer):
        results = await all_fired(firer, [invocation_of(target.url()), once(target.url())])
        assert [(each.brief, each.invocation.attempt) for each in results] == [(OK, 1)] * 2
        assert (target.accepted, len(target.requests)) == (2, 2)


async def test_idle_connections_make_room_for_another_accounts_second_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Long before they would be closed anyway."""
    monkeypatch.setattr("worker.send.pool.IDLE_LIMIT_S", 1000.0)

    async def in_pairs(line: Line) -> None:
        """Answers when another request is there: two at a time need two connections."""
        while True:
            await line.request()
            await until(lambda: len(line.target.requests) % 2 == 0)
            await line.say(answer())

    async with firing_at(in_pairs, limit_ms=10_000, ceiling=2) as (target, firer):
        for account_id, before in (("acc_00_a", 0), ("acc_00_b", 2)):
            one, two = (invocation_of(target.url(), account_id=account_id) for _ in "ab")
            first = asyncio.create_task(fired(firer, one))
            await until(lambda: len(target.requests) > before)  # noqa: B023
            assert [(await fired(firer, two)).brief, (await first).brief] == [OK] * 2
        assert target.accepted == 4
