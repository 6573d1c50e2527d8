"""TLS: its arithmetic comes in small portions, and what a handshake ends in reaches its wire."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections import Counter
from typing import Any

import pytest
import trustme

from tests.support.waiting import DEADLINE_S
from tests.worker.scripted import Line, answer, answering, playing, until
from tests.worker.send.firing import (
    OK,
    all_fired,
    always,
    fired,
    firer_for_tests,
    firing_at,
    invocation_of,
    server_context,
)
from worker.send.handshakes import Handshakes

FIRES = 40
ACCOUNT = invocation_of("http://example.com/").account_id


def counting(authority: trustme.CA) -> tuple[ssl.SSLContext, Counter[int]]:
    """A client's context that counts its steps in each round of the loop."""
    loop, rounds, steps = asyncio.get_running_loop(), [0], Counter[int]()

    def tick() -> None:
        rounds[0] += 1
        loop.call_soon(tick)

    class Counted(ssl.SSLObject):
        def do_handshake(self) -> None:
            steps[rounds[0]] += 1
            super().do_handshake()

    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.sslobject_class = Counted
    tick()
    return context, steps


async def test_handshakes_that_come_together_take_a_few_steps_in_a_round(
    authority: trustme.CA,
) -> None:
    """The targets all keep their answers back, and give them at the same moment."""
    context, steps = counting(authority)
    tls = server_context(authority.issue_cert("hooks.example"))
    options: dict[str, Any] = {"resolve": always(["127.0.0.1"]), "ssl_context": context}
    async with firing_at(answering(*[answer()] * FIRES), tls=tls, **options) as (target, firer):
        url = target.url(host="hooks.example", scheme="https")
        results = await all_fired(firer, [invocation_of(url) for _ in range(FIRES)])
    assert {each.brief for each in results} == {OK}
    assert sum(steps.values()) >= FIRES
    assert max(steps.values()) <= FIRES // 2  # a few for each of the last rounds' turns


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: it says what has come")
async def test_a_certificate_larger_than_any_honest_one_is_refused_unread(
    authority: trustme.CA,
) -> None:
    context, steps = counting(authority)
    names = [f"another-host-{n:04}.example" for n in range(2000)]
    tls = server_context(authority.issue_cert(*names, "hooks.example"))
    options: dict[str, Any] = {"resolve": always(["127.0.0.1"]), "ssl_context": context}
    async with firing_at(answering(answer()), tls=tls, **options) as (target, firer):
        url = target.url(host="hooks.example", scheme="https")
        result = await fired(firer, invocation_of(url))
        why = "its certificates are too large"
        assert result.brief == ("failed", 0, f"TLS handshake failed: {why}")
        assert target.requests == []
    assert sum(steps.values()) <= 2


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: it says what has arrived")
async def test_large_certificates_are_kept_up_to_a_bound_and_the_others_wait_for_room(
    authority: trustme.CA, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And those of other accounts, and usual ones, do not."""
    large = authority.issue_cert("large.example", *(f"name-{n}.example" for n in range(600)))
    unusual = 13 * 1024  # of each, beyond the usual
    monkeypatch.setattr("worker.send.handshakes._MOST_UNUSUAL_BYTES", 5 * unusual)
    told = asyncio.Event()

    async def slow(line: Line) -> None:
        await line.request()
        await told.wait()
        await line.say(answer(b"ok", "200 OK", "Connection: close"))

    usual = server_context(authority.issue_cert("usual.example"))
    async with (
        playing(*[slow] * (FIRES + 1), tls=server_context(large)) as heavy,
        playing(answering(answer()), tls=usual) as light,
        firer_for_tests(**options) as firer,
    ):
        url = heavy.url(host="large.example", scheme="https")
        fires = [asyncio.create_task(fired(firer, invocation_of(url))) for _ in range(FIRES)]
        crowded = firer.connector.handshakes._crowded_out._queues
        await until(lambda: crowded and len(heavy.requests) + len(crowded[ACCOUNT]) == FIRES)
        kept = len(heavy.requests)
        assert 3 <= kept <= 8
        url = light.url(host="usual.example", scheme="https")
        assert (await fired(firer, invocation_of(url))).brief == OK
        other = invocation_of(heavy.url(host="large.example", scheme="https"))
        other.account_id = "acc_00_neighbour"
        fires.append(asyncio.create_task(fired(firer, other)))
        await until(lambda: len(heavy.requests) > kept)
        told.set()
        assert {(await each).brief for each in fires} == {OK}
        handshakes = firer.connector.handshakes
        await until(lambda: handshakes._unusual.free == 5 * unusual)
        assert handshakes._crowded_out._queues == {}


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: it says what has arrived")
async def test_a_large_certificate_that_is_not_trusted_leaves_no_weight_behind(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    large = trustme.CA().issue_cert("large.example", *(f"name-{n}.example" for n in range(600)))
    room = 30 * 1024
    monkeypatch.setattr("worker.send.handshakes._MOST_UNUSUAL_BYTES", room)
    taken = list[int]()
    weigh = Handshakes._weigh

    async def noted(self: Handshakes, account_id: str, weight: int) -> None:
        taken.append(weight)
        await weigh(self, account_id, weight)

    monkeypatch.setattr(Handshakes, "_weigh", noted)
    async with firing_at(answering(answer()), tls=server_context(large), **options) as (
        target,
        firer,
    ):
        url = target.url(host="large.example", scheme="https")
        for _ in range(3):
            result = await fired(firer, invocation_of(url))
            assert result.brief[:2] == ("failed", 0)
        assert len(taken) == 3
        assert firer.connector.handshakes._unusual.free == room


async def test_a_target_that_speaks_before_it_is_spoken_to_is_not_believed(
    authority: trustme.CA, options: dict[str, Any]
) -> None:
    """Its answer, which comes with the end of the handshake, belongs to no request. In TLS 1.2 the
    target's is the last word of a handshake."""
    context = server_context(authority.issue_cert("hooks.example"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    async def eager(line: Line) -> None:
        came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        secured = context.wrap_bio(came, goes, server_side=True)
        while True:
            try:
                secured.do_handshake()
                break
            except ssl.SSLWantReadError:
                await line.say(goes.read())
                came.write(await line.reader.read(65536))
        secured.write(answer(b"", "410 Gone"))
        await line.say(goes.read())
        await line.until_closed()

    async with firing_at(eager, **options) as (target, firer):
        result = await fired(firer, invocation_of(target.url(host="hooks.example", scheme="https")))
    assert result.brief == ("failed", 0, "Connection reset")


async def test_who_is_given_up_with_room_at_last_leaves_it_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.send.handshakes._MOST_UNUSUAL_BYTES", 100)
    handshakes = Handshakes(asyncio.get_running_loop())
    await handshakes._weigh(ACCOUNT, 100)
    given_up, following = [asyncio.create_task(handshakes._weigh(ACCOUNT, 50)) for _ in range(2)]
    await until(lambda: len(handshakes._crowded_out._queues.get(ACCOUNT, ())) == 2)
    handshakes.give_back(ACCOUNT, 100)
    given_up.cancel()
    async with asyncio.timeout(DEADLINE_S):
        await following
    assert given_up.cancelled()
