"""What both clients make of real connections that fail."""

from __future__ import annotations

import pytest
import trustme

from postdate import Cancelled, ConnectionFailed, PostdateError
from tests.client.both import CREATED, KEY, Client
from tests.client.line import CREDITS, Fault, Line, Step, answer
from tests.support.waiting import refusing_port, until
from tests.worker.send.firing import server_context

ACCEPTED = answer(201, CREATED)
CANCELLED = answer(200, {"scheduleId": "sch_1", "creditsRemaining": 7})
UNKNOWN_HOST = "http://postdate.invalid"


def why(mode: str, url: str) -> str:
    """The sentence for a service that cannot be reached, after its URL."""
    with (
        Client(mode, url, KEY, retry_for=0.0, timeout=20.0) as client,
        pytest.raises(ConnectionFailed) as caught,
    ):
        client.schedule("https://example.com", in_=5)
    assert not caught.value.maybe_done
    before, _, reason = str(caught.value).partition(" cannot be reached: ")
    assert before == url
    return reason


@pytest.mark.parametrize(
    "lost",
    [Fault.CUT, Fault.SILENT, ACCEPTED[:-10], ACCEPTED[:20], b"SSH-2.0-OpenSSH_9.2\r\n"],
    ids=["cut", "silent", "half a body", "half a head", "no HTTP"],
)
def test_a_lost_answer_may_have_been_carried_out(mode: str, lost: Step) -> None:
    with Line(CREDITS, lost) as line, Client(mode, line.url, KEY, retry_for=0.0) as client:
        client.credits()  # the connection is a kept one
        with pytest.raises(ConnectionFailed, match="did not answer: ") as caught:
            client.with_options(timeout=0.3).schedule("https://example.com", in_=5)
        until(lambda: len(line.requests) == 2)
    assert caught.value.maybe_done
    assert caught.value.idempotency_key


def test_nothing_below_repeats_a_lost_cancel_unseen(mode: str) -> None:
    with Line(CREDITS, Fault.CUT, CANCELLED) as line, Client(mode, line.url, KEY) as client:
        client.credits()
        assert client.cancel("sch_1") == Cancelled("sch_1", 7)
    assert [each.split()[0] for each in line.requests] == ["GET", "DELETE", "DELETE"]


def test_a_redirect_is_not_followed(mode: str) -> None:
    with (
        Line(answer(302, {"error": "Elsewhere"}, "Location: /x\r\n")) as line,
        Client(mode, line.url, KEY) as client,
        pytest.raises(PostdateError, match="Elsewhere"),
    ):
        client.credits()
    assert len(line.requests) == 1


def test_the_reason_is_told(mode: str) -> None:
    assert why(mode, f"http://127.0.0.1:{refusing_port()}") == "Connection refused"
    assert why(mode, UNKNOWN_HOST).startswith("Could not resolve host (")
    with Line(CREDITS) as line:
        assert why(mode, line.url.replace("http:", "https:")).startswith("TLS failed (")
    with Line(CREDITS, tls=server_context(trustme.CA().issue_cert("127.0.0.1"))) as line:
        assert why(mode, line.url).startswith("TLS certificate is not valid (")
    assert line.requests == []


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_the_environments_proxy_is_used_but_for_this_machine_and_no_proxy(
    mode: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Line(CREDITS) as proxy, Line(CREDITS) as line:
        monkeypatch.setenv(variable, proxy.url)
        for url in (UNKNOWN_HOST, line.url):
            with Client(mode, url, KEY) as client:
                assert client.credits() == 7
        monkeypatch.setenv("NO_PROXY", "postdate.invalid")
        assert why(mode, UNKNOWN_HOST).startswith("Could not resolve host (")
    assert proxy.requests == [f"GET {UNKNOWN_HOST}/stats/remaining-credits HTTP/1.1"]
