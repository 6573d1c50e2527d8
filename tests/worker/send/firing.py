"""What the firing tests share: an invocation to fire, a firer that may reach loopback."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import ssl
from collections.abc import AsyncIterator, Iterable
from typing import Any, NamedTuple

import trustme

from scheduler.models import Delivery, Invocation, Outcome, Request
from scheduler.runtime.elapsed import elapsed_s
from scheduler.runtime.settings import Settings
from tests.support.waiting import DEADLINE_S
from tests.worker.scripted import Script, Target, playing
from worker.send.addresses.guard import Resolve
from worker.send.firer import Firer

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
OK = ("completed", 200, "")
SCHEDULE_ID = "sch_01jd3m0000e0080000000000a0"


def always(addresses: list[str]) -> Resolve:
    """A resolver that has these for any name."""

    async def resolve(name: str) -> list[str]:
        return addresses

    return resolve


def server_context(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


class Fired(NamedTuple):
    """What `done` was called with."""

    invocation: Invocation
    outcome: Outcome
    sent_at_s: float

    @property
    def brief(self) -> tuple[str, int, str]:
        return self.outcome.status.value, self.outcome.status_code, self.outcome.error_message


def invocation_of(
    url: str,
    method: str = "POST",
    body: bytes | None = b'{"n":1}',
    headers: dict[str, str] | None = None,
    delivery: Delivery = Delivery.AT_LEAST_ONCE,
    expires_at_ms: int | None = None,
    account_id: str = "acc_00_a",
    timeout_s: int = 30,
) -> Invocation:
    request = Request(
        0, method, url, headers or {}, body, delivery, expires_at_ms, timeout_s=timeout_s
    )
    return Invocation(0, account_id, SCHEDULE_ID, "1", 1, math.inf, request, 0)


@contextlib.asynccontextmanager
async def firer_for_tests(
    limit_ms: int = 60_000,
    ceiling: int = 256,
    destination_errors: str = "exact",
    keep_answer_bytes: int = 1024,
    callback_body_bytes: int = 1024,
    **options: Any,
) -> AsyncIterator[Firer]:
    """A firer whose every fire is known to have ended when the test does."""
    settings = Settings(
        allow_targets=LOOPBACK,
        destination_errors=destination_errors,
        fire_timeout_ms=limit_ms,
        max_response_bytes=100_000,
        keep_answer_bytes=keep_answer_bytes,
        callback_body_bytes=callback_body_bytes,
        max_connections_per_origin=ceiling,
    )
    hooks = {
        "sign": lambda _: b"",
        "unsent": lambda _: None,
        "resent": lambda _: None,
        "unsure": lambda _: None,
    }
    firer = Firer(settings, **(hooks | options))
    yield firer
    assert firer.in_flight == 0
    await firer.aclose()


@contextlib.asynccontextmanager
async def firing_at(
    *scripts: Script, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", **options: Any
) -> AsyncIterator[tuple[Target, Firer]]:
    """A target that plays these scripts, and a firer."""
    async with playing(*scripts, tls=tls, host=host) as target, firer_for_tests(**options) as firer:
        yield target, firer


async def fired(firer: Firer, invocation: Invocation) -> Fired:
    """Fire it and wait for its outcome; `done` must be called once."""
    over: asyncio.Future[Fired] = asyncio.get_running_loop().create_future()
    firer.fire(invocation, lambda *ended: over.set_result(Fired(*ended)))
    result = await asyncio.wait_for(over, DEADLINE_S)
    await asyncio.sleep(0)  # a second call would raise InvalidStateError in here
    return result


async def all_fired(firer: Firer, invocations: Iterable[Invocation]) -> list[Fired]:
    """Fire them all at once and wait for their outcomes."""
    return await asyncio.gather(*(fired(firer, each) for each in invocations))


def leased(url: str, lease_s: float) -> Invocation:
    """An invocation whose lease surely lasts for so long from now."""
    invocation = invocation_of(url)
    invocation.lease_until_s = elapsed_s() + lease_s
    return invocation
