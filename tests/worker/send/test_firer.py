"""The firer where there is no answer to be had, over TLS, and when something goes wrong in it."""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import trustme

from scheduler.models import Invocation, Outcome
from tests.support.waiting import refusing_port
from tests.worker.scripted import Line, answer, answering, playing, silent, until
from tests.worker.send.firing import (
    OK,
    always,
    fired,
    firer_for_tests,
    firing_at,
    invocation_of,
    server_context,
)
from worker.send.connector import system_ssl_context
from worker.send.fire import NOT_SENT


async def no_such_name(name: str) -> list[str]:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


REFUSED, NOT_ALLOWED = "Connection refused", "Destination not allowed"
HIDDEN = "Host not found, or destination not allowed"
BOTH = ["127.0.0.1", "127.0.0.9"]


REFUSING, INSIDE = "hooks.example:REFUSING", always(["10.0.0.1"])
# By what it shows: the host, its addresses, what customers are told of destinations, the message.
ABSENT = {
    "an unknown name": (REFUSING, no_such_name, "exact", "Could not resolve host"),
    "an address that refuses": (REFUSING, always(BOTH[:1]), "exact", REFUSED),
    "two that refuse": (REFUSING, always(BOTH[::-1]), "exact", REFUSED),
    "an address inside": ("[::ffff:10.0.0.1]", no_such_name, "exact", NOT_ALLOWED),
    "an address as a number": ("2130706433", no_such_name, "exact", NOT_ALLOWED),
    "a name inside": ("a.example", always(["93.184.216.34", "10.0.0.1"]), "exact", NOT_ALLOWED),
    "a port of no web server": ("8.8.8.8:22", no_such_name, "exact", NOT_ALLOWED),
    # A customer does not learn which names there are inside.
    "a name inside, hidden": ("inner.example", INSIDE, "same", HIDDEN),
    "an address inside, hidden": ("10.0.0.1", no_such_name, "same", HIDDEN),
    "an unknown name, hidden": ("nowhere.example", no_such_name, "same", HIDDEN),
}


@pytest.mark.parametrize("how", ABSENT)
async def test_a_target_that_is_not_there_or_not_allowed(how: str) -> None:
    host, resolve, errors, message = ABSENT[how]
    url = f"http://{host.replace('REFUSING', str(refusing_port()))}/"
    async with firer_for_tests(resolve=resolve, destination_errors=errors) as firer:
        for _ in range(2):  # the second from memory
            result = await fired(firer, invocation_of(url))
            assert (result.brief, result.sent_at_s) == (("failed", 0, message), NOT_SENT)


async def test_a_name_is_connected_to_at_its_judged_address_and_named_in_host() -> None:
    async with playing(answering(answer(), answer())) as target:
        async with firer_for_tests(resolve=always(["127.0.0.1"])) as firer:
            for _ in range(2):
                result = await fired(firer, invocation_of(target.url(host="hooks.example")))
                assert result.brief == OK
        assert target.accepted == 1
        assert f"\r\nHost: hooks.example:{target.port}\r\n".encode() in target.requests[0]


async def test_the_next_address_is_tried_when_the_first_refuses() -> None:
    async with firing_at(answering(answer()), resolve=always(BOTH[::-1])) as (target, firer):
        result = await fired(firer, invocation_of(target.url(host="two.example")))
        assert result.brief == OK


@contextlib.contextmanager
def no_more_files() -> Iterator[None]:
    """As if the process had all the files open that it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as first_free:
        number = first_free.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_that_this_process_has_no_more_files_is_nobodys_outcome() -> None:
    put_off: list[Invocation] = []
    async with firing_at(answering(answer()), unsure=put_off.append) as (target, firer):
        invocation = invocation_of(target.url())
        ended: list[Any] = []
        with no_more_files():
            firer.fire(invocation, lambda *args: ended.append(args))
            await until(lambda: firer.in_flight == 0)
        assert (put_off, ended, target.requests) == ([invocation], [], [])
        assert (await fired(firer, invocation)).brief == OK


@pytest.mark.parametrize("speaks_first", [True, False])
async def test_a_target_that_does_not_speak_tls(
    speaks_first: bool, options: dict[str, Any]
) -> None:
    async def script(line: Line) -> None:
        if not speaks_first:
            await line.reader.read(1)
        await line.say(b"220 smtp.example ESMTP\r\n")
        await line.until_closed()

    async with firing_at(script, **options) as (target, firer):
        url = target.url(host="hooks.example", scheme="https")
        result = await fired(firer, invocation_of(url))
    assert result.brief == ("failed", 0, "TLS handshake failed: the target does not speak TLS")


@pytest.mark.parametrize("other", ["refused", "hangs"])
@pytest.mark.parametrize("comes_first", [True, False])
async def test_of_two_addresses_a_failed_handshake_tells_most(
    other: str, comes_first: bool, trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.send.addresses.happy_eyeballs._MOST_BEHIND_TLS_S", 0.05)
    strange = server_context(trustme.CA().issue_cert("hooks.example"))

    async def script(line: Line) -> None:
        if line.writer.get_extra_info("sockname")[0] == "127.0.0.1":
            with contextlib.suppress(ssl.SSLError):
                await line.writer.start_tls(strange)
        else:
            await line.until_closed()

    options = {"resolve": always(BOTH if comes_first else BOTH[::-1]), "ssl_context": trusting}
    host = "127.0.0.1" if other == "refused" else "0.0.0.0"
    async with firing_at(script, host=host, **options) as (target, firer):
        url = target.url(host="hooks.example", scheme="https")
        result = await fired(firer, invocation_of(url))
    assert result.outcome.error_message.startswith("TLS certificate is not valid: its issuer")


@pytest.mark.parametrize(
    ("addresses", "host", "message"),
    [
        (BOTH, "127.0.0.9", REFUSED),
        (BOTH[::-1], "127.0.0.9", REFUSED),
        (BOTH, "0.0.0.0", "Timeout after 0.6 seconds"),
    ],
)
async def test_of_two_addresses_one_that_refuses_tells_more_than_one_that_hangs(
    addresses: list[str], host: str, message: str, trusting: ssl.SSLContext
) -> None:
    options = {"resolve": always(addresses), "ssl_context": trusting, "limit_ms": 600}
    async with firing_at(Line.until_closed, host=host, **options) as (target, firer):
        url = target.url(host="hooks.example", scheme="https")
        result = await fired(firer, invocation_of(url))
    assert result.brief == ("failed", 0, message)


def test_the_systems_trust_store_verifies_names() -> None:
    context = system_ssl_context()
    assert context.check_hostname
    assert context.verify_mode == ssl.CERT_REQUIRED


async def test_an_unexpected_exception_ends_the_one_fire() -> None:
    def broken(invocation: Invocation) -> Outcome | None:
        raise RuntimeError

    async with playing(answering(answer())) as target:
        async with firer_for_tests(unsent=broken) as firer:
            result = await fired(firer, invocation_of(target.url()))
            assert result.brief == ("failed", 0, "Internal error")
        await until(lambda: target.ended == target.accepted)


async def test_what_cannot_be_sent_as_stored_is_not_sent() -> None:
    async with firing_at(answering(answer())) as (target, firer):
        smuggled = invocation_of(target.url(), headers={"X": "a\r\nY: b"})
        result = await fired(firer, smuggled)
        assert result.brief == ("failed", 0, "Request cannot be sent as stored")
        assert (result.sent_at_s, target.requests) == (NOT_SENT, [])


async def test_a_schedules_own_limit_ends_its_attempt_first_though_it_came_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[tuple[str, int]] = []
    ahead_s = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead_s)
    monkeypatch.setattr("worker.send.deadlines.time", clock)
    async with firing_at(silent) as (target, firer):
        for timeout_s in (30, 1):
            firer.fire(
                invocation_of(target.url(), timeout_s=timeout_s),
                lambda _, end, sent_at_s: ended.append((end.error_message, end.response_time_ms)),
            )
        await until(lambda: len(target.requests) == 2)
        ahead_s = 2.0
        await until(lambda: len(ended) == 1)
        assert (ended, firer.in_flight) == ([("Timeout after 1 second", 1000)], 1)
        ahead_s = 32.0
        await until(lambda: len(ended) == 2)
        assert ended[1] == ("Timeout after 30 seconds", 30_000)


async def test_closing_cuts_off_what_is_in_flight_without_an_outcome() -> None:
    async with firing_at(silent) as (target, firer):
        ended: list[Any] = []
        firer.fire(invocation_of(target.url()), lambda *args: ended.append(args))
        await until(lambda: len(target.requests) == 1)
        await firer.aclose()
        await until(lambda: target.ended == 1)
        assert (firer.in_flight, ended) == (0, [])
