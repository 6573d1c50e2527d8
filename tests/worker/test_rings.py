"""No outcome leaves anything to the garbage collector, which may take long to find it."""

from __future__ import annotations

import asyncio

import pytest
import trustme

from scheduler.models import Delivery
from tests.rings import counting_rings
from tests.worker.firing import fired, firing_at, invocation_of, server_context
from tests.worker.scripted import Line, Script, answer, answering, dying, silent, until

HUGE = b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000
NO = answer(b"no", "503 No")
HOST = "hooks.example"


async def closing(line: Line) -> None:
    await line.reader.read(1)


async def resetting(line: Line) -> None:
    await line.reader.read(1)
    line.reset()


async def plain(line: Line) -> None:
    await line.reader.read(1)
    await line.say(answer(b"", "400 Bad Request"))


KINDS = {
    "completed": (answering(answer(), answer()), "http", "", ""),
    "failed": (answering(NO, NO), "http", "", "No"),
    "a kept connection died": (dying, "http", "", ""),
    "not HTTP": (answering(b"220 smtp ESMTP\r\n"), "http", "", "Answer is not valid HTTP"),
    "a huge head": (answering(HUGE), "http", "", "Answer headers are too large"),
    "reset": (resetting, "http", "", "Connection reset"),
    "silence": (silent, "http", "", "Timeout after 0.1 seconds"),
    "TLS: completed": (answering(answer(), answer()), "https", HOST, ""),
    "TLS: another name": (closing, "https", "other.example", "TLS certificate is not valid"),
    "TLS: plain HTTP": (plain, "https", "", "TLS handshake failed"),
    "TLS: closed": (closing, "https", "", "Connection reset"),
    "TLS: reset": (resetting, "https", "", "Connection reset"),
    "TLS: silence": (silent, "https", "", "Timeout after 0.1 seconds"),
}


@pytest.mark.parametrize(("script", "scheme", "name", "message"), KINDS.values(), ids=KINDS)
async def test_no_outcome_leaves_a_ring(
    authority: trustme.CA,
    options: dict[str, object],
    script: Script,
    scheme: str,
    name: str,
    message: str,
) -> None:
    tls = server_context(authority.issue_cert(name)) if name else None
    limit_ms = 100 if message.startswith("Timeout") else 60_000
    async with firing_at(script, tls=tls, limit_ms=limit_ms, **options) as (target, firer):
        url = target.url(host=HOST, scheme=scheme)
        with counting_rings() as found:
            for delivery in (Delivery.AT_LEAST_ONCE, *Delivery):
                result = await fired(firer, invocation_of(url, delivery=delivery))
            firer.pool.drop_all()
            await until(lambda: firer.connector.sockets == 0)
            await asyncio.sleep(0)
    assert result.outcome.error_message == message
    assert [each for each in found if each.startswith("worker.")] == []
