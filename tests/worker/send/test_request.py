"""The bytes of a request."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.models import BodyKind, Delivery, Request
from scheduler.target.short_texts import short_headers
from scheduler.target.targets import parse_target
from worker.send.request import render

SCHEDULE_ID = "sch_01jd3m0000e0080000000000a0"
TRIGGER_AT_MS = 1_795_161_600_005


def rendered(
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
    url: str = "http://e.example:81/a?b=ü#c",
    attempt: int = 1,
    body_kind: BodyKind = BodyKind.JSON,
    delivery: Delivery = Delivery.AT_LEAST_ONCE,
) -> tuple[str, list[str], bytes]:
    """Request line, header lines, body."""
    request = Request(
        TRIGGER_AT_MS, method, url, headers or {}, body, delivery, body_kind=body_kind
    )
    data = render(parse_target(url), request, SCHEDULE_ID, attempt)
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    return first, lines, rest


def test_a_request_whole() -> None:
    first, lines, body = rendered("POST", {"X-A": "1"}, b'{"n":1}', attempt=3)
    assert first == "POST /a?b=%C3%BC HTTP/1.1"
    [agent] = [line for line in lines if line.lower().startswith("user-agent:")]
    assert agent.startswith("User-Agent: Postdate")
    assert [line for line in lines if line != agent] == [
        "Host: e.example:81",
        "X-A: 1",
        "Content-Type: application/json",
        "Accept: */*",
        "Content-Length: 7",
        f"Postdate-Schedule-Id: {SCHEDULE_ID}",
        f"Postdate-Invocation-Id: inv_{SCHEDULE_ID[4:]}",
        "Postdate-Attempt: 3",
        "Postdate-Trigger-At: 2026-11-20T08:00:00.005Z",
    ]
    assert body == b'{"n":1}'


def test_a_reference_goes_with_it() -> None:
    request = Request(TRIGGER_AT_MS, "GET", "http://e.example", reference="order-1")
    data = render(parse_target(request.url), request, SCHEDULE_ID, 1)
    assert data.endswith(b"\r\nPostdate-Reference: order-1\r\n\r\n")
    stored_otherwise = msgspec.structs.replace(request, reference="a\r\nb: c")
    with pytest.raises(ValueError, match="end its line"):
        render(parse_target(request.url), stored_otherwise, SCHEDULE_ID, 1)


@pytest.mark.parametrize("delivery", Delivery)
def test_the_target_learns_when_no_request_follows_on_its_connection(delivery: Delivery) -> None:
    _, lines, _ = rendered("POST", delivery=delivery)
    assert lines.count("Connection: close") == (delivery is Delivery.AT_MOST_ONCE)


@pytest.mark.parametrize(
    ("method", "body", "lines"),
    [
        ("GET", None, []),
        ("POST", None, ["Content-Length: 0"]),
        ("PATCH", None, ["Content-Length: 0"]),
        ("GET", b"{}", ["Content-Length: 2"]),
        ("POST", b"", ["Content-Length: 0"]),
    ],
)
def test_content_length_is_ours(method: str, body: bytes | None, lines: list[str]) -> None:
    _, found, sent = rendered(method, body=body)
    assert [line for line in found if line.startswith("Content-Length")] == lines
    assert sent == (body or b"")


def test_the_callers_headers_replace_the_defaults_in_any_case() -> None:
    own = {"content-TYPE": "text/x", "USER-agent": "mine", "accept": "text/y"}
    _, lines, _ = rendered("POST", own, b"{}")
    names = [line.split(":")[0].lower() for line in lines]
    assert len(names) == len(set(names))
    assert {"content-TYPE: text/x", "USER-agent: mine", "accept: text/y"} <= set(lines)


def test_short_headers_go_out_as_they_were_spelt() -> None:
    own = {"content-type": "application/json", "X-A": "text/plain", "Accept": "*/*"}
    assert rendered("POST", short_headers(own), b"{}") == rendered("POST", own, b"{}")


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        (BodyKind.JSON, "application/json"),
        (BodyKind.TEXT, "text/plain; charset=utf-8"),
        (BodyKind.BINARY, "application/octet-stream"),
    ],
)
def test_each_kind_of_body_has_its_type_unless_the_caller_says_another(
    kind: BodyKind, content_type: str
) -> None:
    _, lines, sent = rendered("POST", body=b"\x00\xff", body_kind=kind)
    assert sent == b"\x00\xff"
    assert [line for line in lines if "-Type" in line] == [f"Content-Type: {content_type}"]
    _, lines, _ = rendered("POST", {"content-type": "a/b"}, b"\x00\xff", body_kind=kind)
    told = [line for line in lines if "ontent-" in line]
    assert told == ["content-type: a/b", "Content-Length: 2"]


def test_values_are_latin_1_or_utf_8() -> None:
    _, lines, _ = rendered(headers={"X-A": "café", "X-B": "日本"})
    assert {"X-A: café", "X-B: 日本".encode().decode("latin-1")} <= set(lines)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("X", "a\r\nY: b"), ("X", "a\rY: b"), ("X", "a\0"), ("X\r\nY", "a"), ("X Y", "a")),
        *(("Content-length", "1"), ("transfer-encoding", "chunked"), ("HOST", "other.example")),
    ],
)
def test_what_could_smuggle_a_second_request_is_not_rendered(name: str, value: str) -> None:
    with pytest.raises(ValueError):
        rendered(headers={name: value})


@pytest.mark.parametrize("method", ["get", "CONNECT", "GET / HTTP/1.1\r\nX:"])
def test_only_the_known_methods_are_rendered(method: str) -> None:
    with pytest.raises(ValueError):
        rendered(method)
