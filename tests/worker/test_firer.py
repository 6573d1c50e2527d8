"""The firer where there is no answer to be had, over TLS, and when something goes wrong in it."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import resource
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
import trustme

from scheduler.models import Invocation, Outcome, Status
from tests.worker.firing import (
    OK,
    Fired,
    all_fired,
    always,
    fired,
    firer_for_tests,
    firing_at,
    invocation_of,
    server_context,
)
from tests.worker.scripted import Line, Target, answer, answering, playing, silent, until
from worker.connector import system_ssl_context
from worker.fire import NOT_SENT
from worker.guard import Resolve


def unused_port() -> int:
    with socket.socket() as plug:
        plug.bind(("127.0.0.1", 0))
        return int(plug.getsockname()[1])


async def no_such_name(name: str) -> list[str]:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.mark.parametrize(
    ("resolve", "message"),
    [
        (no_such_name, "Could not resolve host"),
        (always(["127.0.0.1"]), "Connection refused"),
        (always(["127.0.0.9", "127.0.0.1"]), "Connection refused"),
    ],
)
async def test_a_target_that_is_not_there(resolve: Resolve, message: str) -> None:
    async with firer_for_tests(resolve=resolve) as firer:
        for _ in range(2):  # the second from memory
            result = await fired(firer, invocation_of(f"http://hooks.example:{unused_port()}/"))
            assert result.brief == ("failed", 0, message)
            assert result.sent_at_s == NOT_SENT


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1/",
        "http://[::ffff:10.0.0.1]/",
        "http://2130706433/",
        "http://inner.example/",
        "http://8.8.8.8:22/",
    ],
)
async def test_a_destination_that_is_not_allowed(url: str) -> None:
    async with firer_for_tests(resolve=always(["93.184.216.34", "10.0.0.1"])) as firer:
        result = await fired(firer, invocation_of(url))
        assert result.brief == ("failed", 0, "Destination not allowed")


@pytest.mark.parametrize(
    ("url", "resolve"),
    [
        ("http://inner.example/", always(["10.0.0.1"])),
        ("http://inner.example:22/", always(["93.184.216.34"])),
        ("http://10.0.0.1/", no_such_name),
        ("http://2130706433/", no_such_name),
        ("http://nowhere.example/", no_such_name),
    ],
)
async def test_a_customer_does_not_learn_which_names_there_are_inside(
    url: str, resolve: Resolve
) -> None:
    async with firer_for_tests(destination_errors="same", resolve=resolve) as firer:
        for _ in range(2):  # the second from memory
            result = await fired(firer, invocation_of(url))
            assert result.brief == ("failed", 0, "Host not found, or destination not allowed")


async def test_a_name_is_connected_to_at_its_judged_address_and_named_in_host() -> None:
    async with playing(answering(answer(), answer())) as target:
        async with firer_for_tests(resolve=always(["127.0.0.1"])) as firer:
            for _ in range(2):
                result = await fired(firer, invocation_of(target.url(host="hooks.example")))
                assert result.brief == OK
        assert target.accepted == 1
        assert f"\r\nHost: hooks.example:{target.port}\r\n".encode() in target.requests[0]


@pytest.mark.parametrize("first", ["127.0.0.9", "::1"])
async def test_the_next_address_is_tried_when_the_first_refuses(first: str) -> None:
    resolve = always([first, "127.0.0.1"])
    async with firing_at(answering(answer()), resolve=resolve) as (target, firer):
        result = await fired(firer, invocation_of(target.url(host="two.example")))
        assert result.brief == OK


async def never(name: str) -> list[str]:
    await asyncio.Event().wait()
    return []


async def test_a_resolver_that_hangs_is_bounded_by_the_limit() -> None:
    async with firer_for_tests(limit_ms=300, resolve=never) as firer:
        late = await all_fired(firer, [invocation_of("http://slow.example/") for _ in range(50)])
        assert {each.brief for each in late} == {("failed", 0, "Timeout after 0.3 seconds")}
        assert {each.sent_at_s for each in late} == {NOT_SENT}


async def test_a_name_with_a_hundred_addresses_that_say_nothing_costs_two_sockets() -> None:
    most: list[int] = []

    async def mute(line: Line) -> None:
        most.append(line.target.accepted - line.target.ended)
        await line.until_closed()

    options: dict[str, Any] = {"resolve": always([f"127.0.1.{n}" for n in range(1, 121)])}
    async with firing_at(mute, host="0.0.0.0", limit_ms=600, **options) as (target, firer):
        url = target.url(host="many.example", scheme="https")
        result = await fired(firer, invocation_of(url))
        assert result.brief == ("failed", 0, "Timeout after 0.6 seconds")
        assert 2 <= target.accepted <= 8
        # One that was given up is still the target's for a moment, until it has read of its end.
        assert max(most) <= 4


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


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["127.0.0.1", "127.0.0.2"]])
async def test_that_this_process_has_no_more_files_is_nobodys_outcome(addresses: list[str]) -> None:
    put_off: list[Invocation] = []
    options: dict[str, Any] = {"unsure": put_off.append, "resolve": always(addresses)}
    async with firing_at(answering(answer()), **options) as (target, firer):
        invocation = invocation_of(target.url(host="hooks.example"))
        ended: list[Any] = []
        with no_more_files():
            firer.fire(invocation, lambda *args: ended.append(args))
            await until(lambda: firer.in_flight == 0)
        assert (put_off, ended, target.requests) == ([invocation], [], [])
        assert (await fired(firer, invocation)).brief == OK


async def test_an_accounts_thousands_of_names_that_never_answer_fail_no_neighbours_fire() -> None:
    freed = asyncio.Event()

    async def hang(name: str) -> list[str]:
        if name.startswith("slow"):
            await freed.wait()
            raise OSError("there is no such name")
        return ["127.0.0.1"]

    async with firing_at(answering(answer()), resolve=hang) as (target, firer):
        for number in range(3000):
            slow = invocation_of(target.url(host=f"slow{number}.example"))
            firer.fire(slow, lambda *ended: None)
        url = target.url(host="quick.example")
        result = await fired(firer, invocation_of(url, account_id="acc_00_b"))
        assert result.brief == OK
        freed.set()
        await until(lambda: firer.in_flight == 0)


async def fire_tls(
    certificate: trustme.LeafCert, options: dict[str, Any], times: int = 1
) -> tuple[Fired, Target, list[str]]:
    tls = server_context(certificate)
    names: list[str] = []
    tls.sni_callback = lambda plug, name, context: names.append(name)
    async with firing_at(answering(*[answer()] * times), tls=tls, **options) as (target, firer):
        for _ in range(times):
            url = target.url(host="hooks.example", scheme="https")
            result = await fired(firer, invocation_of(url))
    return result, target, names


async def test_tls_with_a_good_certificate_is_kept_open(
    authority: trustme.CA, options: dict[str, Any]
) -> None:
    certificate = authority.issue_cert("hooks.example")
    result, target, names = await fire_tls(certificate, options, times=3)
    assert result.brief == OK
    assert (target.accepted, names) == (1, ["hooks.example"])


async def test_tls_with_bad_certificates(authority: trustme.CA, options: dict[str, Any]) -> None:
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    for certificate in (
        authority.issue_cert("hooks.example", not_after=past),
        authority.issue_cert("other.example"),
        trustme.CA().issue_cert("hooks.example"),
    ):
        result, target, _ = await fire_tls(certificate, options)
        assert result.brief == ("failed", 0, "TLS certificate is not valid")
        assert result.sent_at_s == NOT_SENT
        assert target.requests == []


def test_the_systems_trust_store_verifies_names() -> None:
    context = system_ssl_context()
    assert context.check_hostname
    assert context.verify_mode == ssl.CERT_REQUIRED


async def test_a_done_that_raises_harms_nothing() -> None:
    async with firing_at(answering(answer(), answer())) as (target, firer):
        called: list[Outcome] = []

        def raising(invocation: Invocation, outcome: Outcome, sent_at_s: float) -> None:
            called.append(outcome)
            raise RuntimeError

        firer.fire(invocation_of(target.url()), raising)
        await until(lambda: firer.in_flight == 0)
        assert len(called) == 1
        assert (await fired(firer, invocation_of(target.url()))).brief == OK
        assert target.accepted == 1


async def test_an_unexpected_exception_ends_the_one_fire() -> None:
    def broken(invocation: Invocation) -> Outcome | None:
        raise RuntimeError

    async with playing(answering(answer())) as target:
        async with firer_for_tests(unsent=broken) as firer:
            result = await fired(firer, invocation_of(target.url()))
            assert result.brief == ("failed", 0, "Internal error")
        await until(lambda: target.ended == target.accepted)


async def test_an_exception_in_the_guard_ends_the_one_fire() -> None:
    async def broken(name: str) -> list[str]:
        raise RuntimeError

    async with firer_for_tests(resolve=broken) as firer:
        result = await fired(firer, invocation_of("http://hooks.example/"))
        assert result.brief == ("failed", 0, "Internal error")


async def test_what_cannot_be_sent_as_stored_is_not_sent() -> None:
    async with firing_at(answering(answer())) as (target, firer):
        smuggled = invocation_of(target.url(), headers={"X": "a\r\nY: b"})
        result = await fired(firer, smuggled)
        assert result.brief == ("failed", 0, "Request cannot be sent as stored")
        assert (result.sent_at_s, target.requests) == (NOT_SENT, [])


async def test_closing_cuts_off_what_is_in_flight_without_an_outcome() -> None:
    async with firing_at(silent) as (target, firer):
        ended: list[Any] = []
        firer.fire(invocation_of(target.url()), lambda *args: ended.append(args))
        await until(lambda: len(target.requests) == 1)
        await firer.aclose()
        await until(lambda: target.ended == 1)
        assert (firer.in_flight, ended) == (0, [])


@pytest.mark.usefixtures("one_opening")
async def test_a_line_moves_on_when_connections_are_refused() -> None:
    url = f"http://127.0.0.1:{unused_port()}/"
    async with firer_for_tests() as firer:
        results = await all_fired(firer, [invocation_of(url) for _ in range(20)])
        assert {each.brief for each in results} == {("failed", 0, "Connection refused")}


@pytest.mark.usefixtures("one_opening")
async def test_a_long_line_that_is_no_longer_wanted_ends_without_a_request() -> None:
    gone = Outcome(Status.FAILED, 0, 0, "Expired before execution")
    asked: list[Invocation] = []

    def first_only(invocation: Invocation) -> Outcome | None:
        asked.append(invocation)
        return gone if len(asked) > 1 else None

    async with firing_at(answering(answer()), unsent=first_only) as (target, firer):
        results = await all_fired(firer, [invocation_of(target.url()) for _ in range(1000)])
        assert [each.brief for each in results].count(OK) == 1
        expired = [each for each in results if each.outcome == gone]
        assert (len(expired), {each.sent_at_s for each in expired}) == (999, {NOT_SENT})
        assert len(target.requests) == 1
