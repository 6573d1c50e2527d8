"""How long each part of an exchange took: which phases are reported, and their clock."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import trustme

from scheduler.models import Phases
from tests.worker.scripted import Line, answer, answering, silent, until
from tests.worker.send.firing import fired, firing_at, invocation_of, server_context
from tests.worker.send.test_loose_http import are_heard
from worker.send.fire import Marks, phases_of

PAUSE_S = 0.05


SECURE = {"resolve_s": 5.0, "connect_s": 5.0102, "tls_s": 5.0304, "wait_s": 5.0606}


@pytest.mark.parametrize(
    ("begun", "heard_s", "whole", "phases"),
    [
        (SECURE, None, True, Phases(10, 20, 31, 39, 0)),
        (SECURE, 5.0706, True, Phases(10, 20, 31, 10, 29)),
        (SECURE, 5.0706, False, Phases(10, 20, 31, 10, 29)),
        (SECURE, None, False, Phases(10, 20, 31, 39, None)),
        ({"resolve_s": 5.0}, None, False, Phases(100)),
        ({"connect_s": 5.0}, None, False, Phases(None, 100)),
        ({"connect_s": 5.0, "tls_s": 5.04}, None, False, Phases(None, 40, 60)),
        ({"connect_s": 5.0, "wait_s": 5.04}, None, True, Phases(None, 40, None, 60, 0)),
        ({"connect_s": 5.0, "wait_s": 5.3}, None, True, Phases(None, 100, None, 0, 0)),
        ({}, None, False, None),
    ],
    ids=[
        "whole", "pieces", "broken midway", "no answer", "unresolved", "no connection",
        "no handshake", "an address", "after the limit", "nothing begun",
    ],
)  # fmt: skip
def test_each_part_lasts_until_the_next_and_together_they_are_the_whole(
    begun: dict[str, float], heard_s: float | None, whole: bool, phases: Phases | None
) -> None:
    found = phases_of(Marks(**begun), heard_s, 100, whole)
    assert found == phases
    if found is not None:
        lengths = (getattr(found, name) for name in found.__struct_fields__)
        assert sum(each or 0 for each in lengths) == 100
        assert not found.reused


def test_over_a_connection_that_was_there_there_is_no_way_to_it() -> None:
    found = phases_of(Marks(wait_s=5.0), 5.04, 100, whole=True)
    assert found == Phases(None, None, None, 40, 60)
    assert found.reused


async def test_a_quick_answer_on_a_kept_connection_is_not_told_of() -> None:
    script = answering(answer(), answer(), answer(b"no", "500 Oh"))
    async with firing_at(script) as (target, firer):
        outcomes = [(await fired(firer, invocation_of(target.url()))).outcome for _ in range(3)]
        first, kept, bad = (each.phases for each in outcomes)
        assert first is not None
        assert (first.resolve_ms, first.tls_ms, first.reused) == (None, None, False)
        assert first.connect_ms is not None
        assert kept is None
        assert bad == Phases(None, None, None, outcomes[2].response_time_ms, 0)
        assert target.accepted == 1


async def test_a_name_a_handshake_and_an_answer_in_pieces_are_told_apart(
    authority: trustme.CA, options: dict[str, Any]
) -> None:
    async def slow_to_begin_and_to_end(line: Line) -> None:
        await line.request()
        await asyncio.sleep(PAUSE_S)
        await line.say(b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nn")
        await until(lambda: all(are_heard(firer)))
        await asyncio.sleep(2 * PAUSE_S)
        await line.say(b"o")
        await line.until_closed()

    tls = server_context(authority.issue_cert("hooks.example"))
    async with firing_at(slow_to_begin_and_to_end, tls=tls, **options) as (target, firer):
        url = target.url(host="hooks.example", scheme="https")
        outcome = (await fired(firer, invocation_of(url))).outcome
    told = outcome.phases
    assert told is not None
    lengths = [getattr(told, name) for name in told.__struct_fields__]
    assert sum(lengths) == outcome.response_time_ms
    least_ms = int(1000 * PAUSE_S) - 2
    assert (told.first_byte_ms or 0) >= least_ms
    assert (told.last_byte_ms or 0) >= 2 * least_ms


async def test_a_timeout_says_what_it_was_spent_on() -> None:
    async def unknown(name: str) -> list[str]:
        await asyncio.sleep(60)
        return []

    async with firing_at(silent, limit_ms=200, resolve=unknown) as (target, firer):
        waited = (await fired(firer, invocation_of(target.url()))).outcome.phases
        assert waited is not None
        assert waited.last_byte_ms is None
        assert (waited.connect_ms or 0) + (waited.first_byte_ms or 0) == 200
        url = target.url(host="slow.example.com")
        assert (await fired(firer, invocation_of(url))).outcome.phases == Phases(200)


async def test_of_a_request_that_was_sent_twice_the_second_attempt_is_told_of() -> None:
    """The time until its connection died is not a phase of the second."""
    dead_after_s = 10 * PAUSE_S

    async def dying(line: Line) -> None:
        await line.request()
        await line.say(answer())
        await line.request()
        await asyncio.sleep(dead_after_s)
        line.reset()

    async with firing_at(dying, answering(answer(b"no", "500 Oh"))) as (target, firer):
        await fired(firer, invocation_of(target.url()))
        result = await fired(firer, invocation_of(target.url()))
    assert result.invocation.attempt == 2
    phases = result.outcome.phases
    assert phases is not None
    lengths = (getattr(phases, name) or 0 for name in phases.__struct_fields__)
    # Two moments are rounded to the millisecond.
    assert sum(lengths) <= result.outcome.response_time_ms - dead_after_s * 1000 + 2
