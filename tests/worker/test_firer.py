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

from scheduler.models import Delivery, Invocation, Outcome, Status
from tests.worker.firing import (
    OK,
    Fired,
    always,
    fired,
    firer_for_tests,
    invocation_of,
    server_context,
)
from tests.worker.scripted import Line, answer, answering, playing, until
from worker.connector import system_ssl_context
from worker.fire import NOT_SENT
from worker.guard import Resolve
from worker.pool import IDLE_LIMIT_S


def unused_port() -> int:
    with socket.socket() as plug:
        plug.bind(("127.0.0.1", 0))
        return int(plug.getsockname()[1])


async def no_such_name(name: str) -> list[str]:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


async def test_a_refused_connection() -> None:
    async with firer_for_tests() as firer:
        result = await fired(firer, invocation_of(f"http://127.0.0.1:{unused_port()}/"))
        assert result.brief == ("failed", 0, "Connection refused")
        assert result.sent_at_s == NOT_SENT


async def test_an_unknown_host() -> None:
    async with firer_for_tests(resolve=no_such_name) as firer:
        for _ in range(2):  # the second from memory
            result = await fired(firer, invocation_of("http://nowhere.example/"))
            assert result.brief == ("failed", 0, "Could not resolve host")
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
    async with playing(answering(answer())) as target, firer_for_tests(resolve=resolve) as firer:
        result = await fired(firer, invocation_of(target.url(host="two.example")))
        assert result.brief == OK


async def test_all_addresses_refusing_is_a_refusal() -> None:
    async with firer_for_tests(resolve=always(["127.0.0.9", "127.0.0.1"])) as firer:
        result = await fired(firer, invocation_of(f"http://two.example:{unused_port()}/"))
        assert result.brief == ("failed", 0, "Connection refused")


async def never(name: str) -> list[str]:
    await asyncio.Event().wait()
    return []


async def test_a_resolver_that_hangs_is_bounded_by_the_limit() -> None:
    async with firer_for_tests(limit_ms=300, resolve=never) as firer:
        slow = (fired(firer, invocation_of("http://slow.example/")) for _ in range(50))
        late = await asyncio.gather(*slow)
        assert {each.brief for each in late} == {("failed", 0, "Timeout after 0.3 seconds")}
        assert {each.sent_at_s for each in late} == {NOT_SENT}


async def test_a_resolver_that_hangs_delays_nobody() -> None:
    freed = asyncio.Event()

    async def hang(name: str) -> list[str]:
        if name == "slow.example":
            await freed.wait()
        return ["127.0.0.1"]

    async with playing(answering(answer())) as target, firer_for_tests(resolve=hang) as firer:
        late: list[Fired] = []
        for _ in range(50):
            slow = invocation_of(target.url(host="slow.example"))
            firer.fire(slow, lambda *ended: late.append(Fired(*ended)))
        quick = await fired(firer, invocation_of(target.url(host="quick.example")))
        assert (quick.brief, late) == (OK, [])
        freed.set()
        await until(lambda: len(late) == 50)


async def test_a_name_with_a_hundred_addresses_that_say_nothing_costs_two_sockets() -> None:
    most: list[int] = []

    async def silent(line: Line) -> None:
        most.append(line.target.accepted - line.target.ended)
        await line.until_closed()

    many = [f"127.0.1.{n}" for n in range(1, 121)]
    async with (
        playing(silent, host="0.0.0.0") as target,
        firer_for_tests(limit_ms=1500, resolve=always(many)) as firer,
    ):
        url = target.url(host="many.example", scheme="https")
        result = await fired(firer, invocation_of(url))
        assert result.brief == ("failed", 0, "Timeout after 1.5 seconds")
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
    async with playing(answering(answer())) as target, firer_for_tests(**options) as firer:
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

    async with playing(answering(answer())) as target, firer_for_tests(resolve=hang) as firer:
        for number in range(3000):
            slow = invocation_of(target.url(host=f"slow{number}.example"))
            firer.fire(slow, lambda *ended: None)
        url = target.url(host="quick.example")
        result = await fired(firer, invocation_of(url, account_id="acc_00_b"))
        assert result.brief == OK
        freed.set()
        await until(lambda: firer.in_flight == 0)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def fire_tls(certificate: trustme.LeafCert, trusting: ssl.SSLContext, times: int = 1) -> Any:
    tls = server_context(certificate)
    names: list[str] = []
    tls.sni_callback = lambda plug, name, context: names.append(name)
    async with playing(answering(*[answer()] * times), tls=tls) as target:
        async with firer_for_tests(resolve=always(["127.0.0.1"]), ssl_context=trusting) as firer:
            for _ in range(times):
                url = target.url(host="hooks.example", scheme="https")
                result = await fired(firer, invocation_of(url))
        return result, target, names


async def test_tls_with_a_good_certificate_is_kept_open(
    authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    certificate = authority.issue_cert("hooks.example")
    result, target, names = await fire_tls(certificate, trusting, times=3)
    assert result.brief == OK
    assert (target.accepted, names) == (1, ["hooks.example"])


async def test_tls_with_bad_certificates(authority: trustme.CA, trusting: ssl.SSLContext) -> None:
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    for certificate in (
        authority.issue_cert("hooks.example", not_after=past),
        authority.issue_cert("other.example"),
        trustme.CA().issue_cert("hooks.example"),
    ):
        result, target, _ = await fire_tls(certificate, trusting)
        assert result.brief == ("failed", 0, "TLS certificate is not valid")
        assert result.sent_at_s == NOT_SENT
        assert target.requests == []


async def test_tls_to_a_target_without_tls(trusting: ssl.SSLContext) -> None:
    async def plain(line: Line) -> None:
        await line.reader.read(1)
        await line.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await line.until_closed()

    async with playing(plain) as target, firer_for_tests(ssl_context=trusting) as firer:
        result = await fired(firer, invocation_of(target.url(scheme="https")))
        assert result.brief == ("failed", 0, "TLS handshake failed")


async def test_a_large_body_over_tls(authority: trustme.CA, trusting: ssl.SSLContext) -> None:
    tls = server_context(authority.issue_cert("127.0.0.1"))
    body = b"x" * (1024 * 1024)
    async with playing(answering(answer()), tls=tls) as target:
        async with firer_for_tests(ssl_context=trusting) as firer:
            result = await fired(firer, invocation_of(target.url(scheme="https"), body=body))
            assert result.brief == OK
        assert target.requests[0].endswith(body)


def test_the_systems_trust_store_verifies_names() -> None:
    context = system_ssl_context()
    assert context.check_hostname
    assert context.verify_mode == ssl.CERT_REQUIRED


async def test_a_done_that_raises_harms_nothing() -> None:
    async with playing(answering(answer(), answer())) as target, firer_for_tests() as firer:
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
    async with playing(answering(answer())) as target, firer_for_tests() as firer:
        smuggled = invocation_of(target.url(), headers={"X": "a\r\nY: b"})
        result = await fired(firer, smuggled)
        assert result.brief == ("failed", 0, "Request cannot be sent as stored")
        assert (result.sent_at_s, target.requests) == (NOT_SENT, [])


async def test_closing_cuts_off_what_is_in_flight_without_an_outcome() -> None:
    async def silent(line: Line) -> None:
        await line.request()
        await line.until_closed()

    async with playing(silent) as target, firer_for_tests() as firer:
        ended: list[Any] = []
        firer.fire(invocation_of(target.url()), lambda *args: ended.append(args))
        await until(lambda: len(target.requests) == 1)
        await firer.aclose()
        await until(lambda: target.ended == 1)
        assert (firer.in_flight, ended) == (0, [])


async def test_idle_connections_are_closed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    assert IDLE_LIMIT_S < 5
    monkeypatch.setattr("worker.pool.IDLE_LIMIT_S", 0.0)
    monkeypatch.setattr("worker.pool.SWEEP_S", 0.01)
    async with playing(answering(answer())) as target, firer_for_tests() as firer:
        await fired(firer, invocation_of(target.url()))
        await until(lambda: target.ended == 1)
        assert firer.pool.idle_count == 0


async def test_a_handshake_that_hangs_times_out_and_so_does_who_waits_in_line(
    monkeypatch: pytest.MonkeyPatch, trusting: ssl.SSLContext
) -> None:
    monkeypatch.setattr("worker.connection_slots.MAX_OPENINGS", 1)

    async def silent(line: Line) -> None:
        await line.until_closed()

    async with (
        playing(silent) as target,
        firer_for_tests(limit_ms=150, ssl_context=trusting) as firer,
    ):
        url = target.url(scheme="https")
        results = await asyncio.gather(*(fired(firer, invocation_of(url)) for _ in range(3)))
        assert {each.brief for each in results} == {("failed", 0, "Timeout after 0.15 seconds")}
        assert {each.sent_at_s for each in results} == {NOT_SENT}
        await until(lambda: target.ended == target.accepted)


async def test_who_waits_in_line_is_served_by_connections_that_come_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.connection_slots.MAX_OPENINGS", 1)
    async with playing(answering(*[answer()] * 100)) as target, firer_for_tests() as firer:
        results = await asyncio.gather(
            *(fired(firer, invocation_of(target.url())) for _ in range(50))
        )
        assert {each.brief for each in results} == {OK}
        assert {each.invocation.attempt for each in results} == {1}
        assert target.accepted < 50


async def test_at_most_once_in_line_waits_for_a_connection_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.connection_slots.MAX_OPENINGS", 1)
    async with playing(answering(answer(), answer())) as target, firer_for_tests() as firer:
        once = [invocation_of(target.url(), delivery=Delivery.AT_MOST_ONCE) for _ in range(5)]
        results = await asyncio.gather(*(fired(firer, each) for each in once))
        assert {each.brief for each in results} == {OK}
        assert (target.accepted, firer.pool.idle_count) == (5, 0)


async def test_a_line_moves_on_when_connections_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.connection_slots.MAX_OPENINGS", 1)
    url = f"http://127.0.0.1:{unused_port()}/"
    async with firer_for_tests() as firer:
        results = await asyncio.gather(*(fired(firer, invocation_of(url)) for _ in range(20)))
        assert {each.brief for each in results} == {("failed", 0, "Connection refused")}


async def test_a_long_line_that_is_no_longer_wanted_ends_without_a_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.connection_slots.MAX_OPENINGS", 1)
    gone = Outcome(Status.FAILED, 0, 0, "Expired before execution")
    asked: list[Invocation] = []

    def first_only(invocation: Invocation) -> Outcome | None:
        asked.append(invocation)
        return gone if len(asked) > 1 else None

    async with (
        playing(answering(answer())) as target,
        firer_for_tests(unsent=first_only) as firer,
    ):
        results = await asyncio.gather(
            *(fired(firer, invocation_of(target.url())) for _ in range(2000))
        )
        assert [each.brief for each in results].count(OK) == 1
        assert [each.outcome for each in results].count(gone) == 1999
        assert len(target.requests) == 1
