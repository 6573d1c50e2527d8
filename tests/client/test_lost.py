"""What both clients make of real connections that fail."""

from __future__ import annotations

import gzip
import ssl
from pathlib import Path

import pytest
import trustme

from postdate import Cancelled, Conflict, ConnectionFailed, PostdateError
from tests.client.both import KEY, Client
from tests.client.line import Fault, Line, Step, answer
from tests.servers import free_port

CREDITS = answer(200, {"creditsRemaining": 7})
CREATED = answer(201, {"scheduleId": "sch_1", "invocationId": "inv_1", "message": "Scheduled"})
CANCELLED = answer(409, {"error": "It is cancelled already", "status": "cancelled"})


def server_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def why(mode: str, url: str) -> str:
    """The sentence for a service that cannot be reached."""
    with (
        Client(mode, url, KEY, retry_for=0.0, timeout=20.0) as client,
        pytest.raises(ConnectionFailed) as caught,
    ):
        client.schedule("https://example.com", in_=5)
    assert not caught.value.maybe_done
    return str(caught.value)


@pytest.mark.parametrize(
    "lost",
    [
        Fault.CUT,
        Fault.SILENT,
        CREATED[:-10],
        CREATED[:20],
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
    ids=["cut", "silent", "half a body", "half a head", "no HTTP"],
)
def test_a_lost_answer_may_have_been_carried_out(mode: str, lost: Step) -> None:
    with (
        Line(CREDITS, lost) as line,
        Client(mode, line.url, KEY, retry_for=0.0, timeout=2.0) as client,
    ):
        client.credits()  # the connection is a kept one
        with pytest.raises(ConnectionFailed, match="did not answer: ") as caught:
            client.schedule("https://example.com", in_=5)
    assert caught.value.maybe_done
    assert caught.value.idempotency_key
    assert len(line.requests) == 2


def test_a_lost_create_is_repeated(mode: str) -> None:
    with Line(Fault.CUT, CREATED) as line, Client(mode, line.url, KEY) as client:
        assert client.schedule("https://example.com", in_=5).schedule_id == "sch_1"


def test_nothing_below_repeats_a_lost_cancel_unseen(mode: str) -> None:
    with (
        Line(CREDITS, Fault.CUT, CANCELLED, CREDITS) as line,
        Client(mode, line.url, KEY) as client,
    ):
        client.credits()
        assert client.cancel("sch_1") == Cancelled("sch_1", 7, "Cancelled before execution")
    assert [each.split()[0] for each in line.requests] == ["GET", "DELETE", "DELETE", "GET"]


def test_a_compressed_answer_is_read(mode: str) -> None:
    packed = answer(200, gzip.compress(b'{"creditsRemaining": 7}'), "Content-Encoding: gzip\r\n")
    with Line(packed) as line, Client(mode, line.url, KEY) as client:
        assert client.credits() == 7


def test_a_redirect_is_not_followed(mode: str) -> None:
    with (
        Line(answer(302, {"error": "Elsewhere"}, "Location: /x\r\n")) as line,
        Client(mode, line.url, KEY) as client,
        pytest.raises(PostdateError, match="Elsewhere"),
    ):
        client.credits()
    assert len(line.requests) == 1


def test_an_id_stays_one_segment_of_the_path(mode: str) -> None:
    with (
        Line(CANCELLED) as line,
        Client(mode, line.url, KEY) as client,
        pytest.raises(Conflict),
    ):
        client.get("../stats?x")
    assert line.requests == ["GET /schedule/..%2Fstats%3Fx HTTP/1.1"]


def test_a_refused_connection_is_told(mode: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert why(mode, url) == f"{url} cannot be reached: Connection refused"


def test_a_name_that_is_none_is_told(mode: str) -> None:
    told = why(mode, "http://postdate.invalid")
    assert told.startswith("http://postdate.invalid cannot be reached: Could not resolve host (")


def test_a_certificate_of_a_stranger_is_told(mode: str) -> None:
    with Line(CREDITS, tls=server_context(trustme.CA())) as line:
        told = why(mode, line.url)
    assert told.startswith(f"{line.url} cannot be reached: TLS certificate is not valid (")
    assert line.requests == []


def test_a_server_without_tls_is_told(mode: str) -> None:
    with Line(CREDITS) as line:
        told = why(mode, line.url.replace("http:", "https:"))
    assert "cannot be reached: TLS failed (" in told


def test_the_environment_names_whom_to_trust(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with (
        Line(CREDITS, tls=server_context(authority)) as line,
        Client(mode, line.url, KEY) as client,
    ):
        assert client.credits() == 7


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_the_environments_proxy_is_used(
    mode: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Line(CREDITS) as proxy:
        monkeypatch.setenv(variable, proxy.url)
        with Client(mode, "http://postdate.invalid", KEY) as client:
            assert client.credits() == 7
    [request] = proxy.requests
    assert request == "GET http://postdate.invalid/stats/remaining-credits HTTP/1.1"


def test_this_machine_is_reached_without_the_proxy(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    with Line(CREDITS) as line, Client(mode, line.url, KEY) as client:
        assert client.credits() == 7


def test_no_proxy_is_heeded(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("NO_PROXY", "postdate.invalid")
    assert "Could not resolve host" in why(mode, "http://postdate.invalid")
