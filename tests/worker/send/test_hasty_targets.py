"""Targets that answer before they have read a whole request, and take its rest for the next one."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest
import trustme

from tests.worker.scripted import Line, answer
from tests.worker.send.firing import OK, fired, firing_at, invocation_of, server_context

SECRET = "Bearer of-the-victim"
PREFIX = b"POST /of-the-attacker HTTP/1.1\r\nX-Rest: "
WHOLE = b"GET /of-the-attacker HTTP/1.1\r\n\r\n"


async def hasty(line: Line) -> None:
    """Answers each head that it reads, and never reads a body as one. An answer to what came in
    a body is 410, and is late: it comes when there is more to read."""
    while True:
        head = await line.reader.readuntil(b"\r\n\r\n")
        line.target.requests.append(head)
        if b"/of-the-attacker HTTP" in head.split(b"\r\n")[0]:
            await line.reader.readuntil(b"\r\n\r\n")
            await line.say(answer(b"", "410 Gone"))
        else:
            await line.say(answer())


@pytest.fixture(params=["http", "https"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tls(scheme: str, authority: trustme.CA) -> ssl.SSLContext | None:
    return server_context(authority.issue_cert("hooks.example")) if scheme == "https" else None


@pytest.mark.parametrize("body", [PREFIX, WHOLE], ids=["swallows the request", "answers it"])
@pytest.mark.parametrize("ceiling", [256, 1], ids=["kept", "in line"])
async def test_an_unread_body_never_reaches_another_account(
    scheme: str, tls: ssl.SSLContext | None, options: dict[str, Any], body: bytes, ceiling: int
) -> None:
    async with firing_at(hasty, tls=tls, ceiling=ceiling, **options) as (target, firer):
        url = target.url(host="hooks.example", scheme=scheme)
        attack = invocation_of(url, "GET", body, account_id="acc_00_attacker")
        attacking = asyncio.create_task(fired(firer, attack))
        if ceiling > 1:
            await attacking
        victims = invocation_of(url, headers={"Authorization": SECRET}, account_id="acc_00_victim")
        result = await fired(firer, victims)
        assert (await attacking).brief == OK
    assert (result.brief, result.invocation.attempt) == (OK, 1)
    [with_secret] = [each for each in target.requests if SECRET.encode() in each]
    assert with_secret.startswith(b"POST /hook HTTP/1.1\r\n")
    assert target.accepted == 2
