"""`postdate listen`: what it prints of what arrives."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator

import httpx
import pytest

from cli.customer.listen import arrival_of, line_of
from tests.cli.running import Running
from tests.support.servers import PostdateProcess, postdate_json, until
from tests.support.waiting import DEADLINE_S

DUE = "2026-11-20T08:00:00.000Z"
DUE_NS = 1_795_161_600_000 * 1_000_000


class Listener(Running):
    """`postdate listen` as it runs."""

    def __init__(self, *arguments: str) -> None:
        super().__init__("listen", "--port", "0", *arguments)
        until(lambda: self.lines, "the listener")

    @property
    def url(self) -> str:
        [url] = re.findall(r"http://[\d.:]+", self.lines[0])
        return str(url)

    def request(self, method: str, path: str, body: bytes | None = None) -> int:
        return httpx.request(method, self.url + path, content=body, timeout=DEADLINE_S).status_code


@pytest.fixture
def listener() -> Iterator[Listener]:
    running = Listener()
    yield running
    assert running.end() == (0, "")


def test_every_request_is_a_line_whatever_it_is(listener: Listener) -> None:
    assert listener.request("GET", "/a") == 200
    assert listener.request("HEAD", "/b") == 200
    assert listener.request("POST", "/c", b"\x1b[2J\xff\n" + b"x" * 3_000_000) == 200
    until(lambda: len(listener.lines) == 4, "the requests")
    shown = [line.partition("  ")[2] for line in listener.lines[1:]]
    assert shown[:2] == ["GET /a\n", "HEAD /b\n"]
    assert re.fullmatch(r"POST /c  \\x1b\[2J�\\nx+…\n", shown[2])


def test_it_answers_as_it_is_told_and_prints_json(postdate_up: PostdateProcess) -> None:
    listener = Listener("--status", "500", "--json")
    settings = {"url": postdate_up.base_url, "api_key": postdate_up.api_key}
    try:
        assert json.loads(listener.lines[0]) == {"listening": listener.url}
        words = (listener.url + "/x?y=%20", "--in", "0s", "--body", '{"n": 1}')
        made = postdate_json("schedule", *words, **settings)
        until(lambda: len(listener.lines) == 2, "the request")
        arrival = json.loads(listener.lines[1])
        assert arrival.pop("receivedAt")
        assert arrival.pop("latenessMs") >= 0
        headers = arrival.pop("headers")
        assert headers["webhook-id"] == headers["postdate-invocation-id"] == made["invocationId"]
        assert arrival == {
            "method": "POST",
            "path": "/x?y=%20",
            "body": '{"n": 1}',
            "scheduleId": made["scheduleId"],
            "attempt": 1,
        }
        assert listener.request("GET", "/x") == 500
    finally:
        assert listener.end(signal.SIGTERM) == (0, "")


def test_lateness_is_arrival_less_the_time_that_the_request_carries() -> None:
    headers = ((b"postdate-trigger-at", DUE.encode()), (b"postdate-attempt", b"2"))
    scope = {"method": "POST", "raw_path": b"/hook", "query_string": b"", "headers": headers}
    arrival = arrival_of(scope, b"{}", DUE_NS + 2_340_000)
    assert line_of(arrival) == "2026-11-20T08:00:00.002Z  POST /hook  {}  2.3 ms late  attempt 2"
