"""The payload of POST /schedule: bytes to a request, or every bad field."""

from __future__ import annotations

import ipaddress
import json
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from api.schema.fields import FIELDS
from api.schema.findings import details_of
from api.schema.headers import _known_to_be_fine
from api.schema.payload import _fine_at_once, _with_every_finding, parse_change, parse_request
from api.schema.rules import Rules
from scheduler.callbacks import NO_URL, Callback, CallbackOn
from scheduler.errors import InvalidRequest
from scheduler.masks import MASK
from scheduler.models import Delivery, Request
from scheduler.target.destinations import Destinations
from scheduler.target.targets import _remembered
from scheduler.times import format_iso8601

NOW_MS = 1_795_161_600_000  # 2026-11-20T08:00:00Z
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
RULES = Rules(Destinations(), max_horizon_days=1830)
URL = "https://example.com/hook"
AT = "2026-11-20T09:00:00Z"
HEADERS_64 = {f"X-{n}": "v" for n in range(64)}


def parse(data: bytes | dict[str, Any]) -> Request:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return parse_request(raw, RULES, NOW_MS)


def payload(**fields: Any) -> dict[str, Any]:
    return {"targetUrl": URL, "triggerAt": AT, **fields}


def bad_fields(data: bytes | dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidRequest) as caught:
        parse(data)
    assert all(
        detail.message.endswith(".") or detail.field.lower().endswith("url")
        for detail in caught.value.details
    )
    return [detail.field for detail in caught.value.details]


TAKEN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    (dict.fromkeys(("targetMethod", "targetHeaders", "targetBody", "delivery", "expiresAt")), {}),
    ({"targetUrl": URL.ljust(8192, "a")}, {"url": URL.ljust(8192, "a")}),
    ({"targetBody": {}}, {"method": "POST", "body": b"{}"}),
    ({"delivery": "at-most-once"}, {"delivery": Delivery.AT_MOST_ONCE}),
    ({"expiresAt": "2026-11-20T09:00:00.001Z"}, {"expires_at_ms": NOW_MS + HOUR_MS + 1}),
    (
        {"triggerAt": "2026-11-20T07:00:00Z", "expiresAt": "2026-11-20T07:30:00Z"},
        {"trigger_at_ms": NOW_MS - HOUR_MS, "expires_at_ms": NOW_MS - HOUR_MS // 2},
    ),
    *(
        ({"triggerAt": format_iso8601(ms)}, {"trigger_at_ms": ms})
        for ms in (NOW_MS - DAY_MS, NOW_MS, NOW_MS + 1830 * DAY_MS)
    ),
    *(
        ({"targetMethod": method.title()}, {"method": method, "method_given": True})
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
    ),
    *(
        ({"targetHeaders": {"X-Foo": value}}, {"headers": {"X-Foo": value}})
        for value in ("", "é ÿ \xa0", "a: b, c; d", "v" * (16 * 1024 - 5))
    ),
    ({"targetHeaders": HEADERS_64}, {"headers": HEADERS_64}),
    ({"callbackUrl": None}, {"callback": Callback(NO_URL)}),
    ({"callbackUrl": None, "callbackOn": None}, {"callback": Callback(NO_URL)}),
    ({"callbackOn": None}, {}),
    ({"callbackOn": "failed"}, {"callback": Callback(None, CallbackOn.FAILED)}),
    ({"callbackUrl": URL}, {"callback": Callback(URL)}),
    ({"callbackUrl": URL, "callbackOn": "failed"}, {"callback": Callback(URL, CallbackOn.FAILED)}),
]


@pytest.mark.parametrize(("fields", "expected"), TAKEN)
def test_what_keeps_the_rules_is_taken(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    least = Request(NOW_MS + HOUR_MS, "GET", URL, method_given=False)
    assert parse(payload(**fields)) == msgspec.structs.replace(least, **expected)


NO_TEXTS = (5, [])
NO_TIMES = ("soon", "2026-11-20", "9999-12-31T23:59:59.9999Z", "9" * 5000)
FAR = [format_iso8601(ms) for ms in (NOW_MS - DAY_MS - 1, NOW_MS + 1830 * DAY_MS + 1)]
BAD_VALUES: dict[str, tuple[object, ...]] = {
    "targetUrl": (
        *(None, *NO_TEXTS, "/hook", "ftp://example.com/", "http:///hook", URL.ljust(8193, "a")),
        *("http://user@example.com/", "http://example.com/a b", "http://example.com:65536/"),
        *("http://example.com/a\r\nHost: b", "http://example.com\\@evil.example/"),
    ),
    "callbackUrl": (*NO_TEXTS, "", "/hook", "ftp://example.com/", "http://example.com:22/"),
    "callbackOn": (*NO_TEXTS, "always"),
    "failureCallbackUrl": (*NO_TEXTS, "", "default", "http://10.0.0.1/", URL.ljust(8193, "a")),
    "callbackInclude": (*NO_TEXTS, "", "body"),
    "triggerAt": (None, *NO_TEXTS, *NO_TIMES, *FAR),
    # Where it is one, it must be after triggerAt.
    "expiresAt": (*NO_TEXTS, *NO_TIMES, AT, "2026-11-20T08:59:59.999Z", "0001-01-01T00:00:00Z"),
    "targetMethod": (*NO_TEXTS, "CONNECT", "GET\r\n", "OPT\u0131ONS"),
    "delivery": (*NO_TEXTS, "twice"),
    "targetBody": ("text", [{}]),
    "targetHeaders": (
        *([["X-Foo", "a"]], HEADERS_64 | {"X-64": "v"}, {"X-Foo": "v" * (16 * 1024 - 4)}),
    ),
}
OURS = """Host content-length Transfer-Encoding Connection Keep-Alive TE Trailer Upgrade EXPECT
Proxy-Authorization proxy-connection Postdate-Attempt postdate-anything webhook-id
Webhook-Signature WEBHOOK-x"""
NO_TOKENS = ("", "X Foo", "X:Foo", "X\nFoo", "Xé", "\u212a")
NO_LATIN_1 = ("a\r\nb", "\0", "\x7f", "a\tb", "\x85", "€")
BAD: list[tuple[dict[str, Any], list[str]]] = [
    *(({name: value}, [name]) for name, values in BAD_VALUES.items() for value in values),
    *(
        ({"targetHeaders": {name: "x", "X-Webhook": "1"}}, [f"targetHeaders.{name}"])
        for name in (*OURS.split(), *NO_TOKENS)
    ),
    *(
        ({"targetHeaders": {"X-Good": "a", "X-Foo": value}}, ["targetHeaders.X-Foo"])
        for value in (None, 1, *NO_LATIN_1)
    ),
    ({"targetHeaders": {"X-A\nX-B": "1", "X-A": "2"}}, ["targetHeaders.X-A\nX-B"]),
    ({"targetHeaders": {"X-Foo": "a", "x-foo": "b"}}, ["targetHeaders.x-foo"]),
    ({"callbackUrl": None, "callbackOn": "failed"}, ["callbackOn"]),
    ({"targeturl": URL, "headers": {}}, ["targeturl", "headers"]),
    ({"x" * 5000: 1}, ["x" * 100 + "…"]),
]


@pytest.mark.parametrize(("fields", "names"), BAD, ids=lambda value: f"{value!r:.60}")
def test_what_breaks_a_rule_is_named(fields: dict[str, Any], names: list[str]) -> None:
    assert bad_fields(payload(**fields)) == names


def test_what_is_missing_is_named() -> None:
    assert bad_fields({}) == ["targetUrl", "triggerAt", "delay"]


def test_every_bad_field_is_named_at_once() -> None:
    headers = {"X-Foo": 5, "Host": "a", "X-Good": "b", "X Bad": "c"}
    body = dict.fromkeys(BAD_VALUES, 5) | {"targetHeaders": headers, "color": "red"}
    bad_headers = {f"targetHeaders.{name}" for name in headers if name != "X-Good"}
    assert set(bad_fields(body)) == {*body, *bad_headers} - {"targetHeaders"}


def headers_of(count: int) -> dict[str, Any]:
    return {f"X {n}": "a space is in the name" for n in range(count)}


@pytest.mark.parametrize(
    ("fields", "listed", "rest"),
    [
        ({f"f{n}": n for n in range(5)}, 5, None),
        ({f"f{n}": n for n in range(6)}, 5, "and 1 more"),
        ({"targetHeaders": headers_of(64)}, 20, "and 44 more"),
        ({f"f{n}": n for n in range(5000)}, 5, "and 4,995 more"),
        ({"targetHeaders": headers_of(20)}, 20, None),
        ({"targetHeaders": headers_of(18)} | {f"f{n}": n for n in range(9)}, 20, "and 7 more"),
    ],
)
def test_a_flood_of_faults_is_counted(
    fields: dict[str, Any], listed: int, rest: str | None
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(payload(**fields))
    details = details_of(caught.value)
    assert [detail.message for detail in details[listed:]] == ([] if rest is None else [rest])
    assert len({detail.field for detail in details}) == len(details)
    assert len(str(caught.value)) < 300


def test_no_cache_keeps_a_long_text() -> None:
    parse(payload(targetUrl=URL, targetHeaders={"X-A": "a"}))
    before = [each.cache_info().currsize for each in (_remembered, _known_to_be_fine)]
    parse(payload(targetUrl=f"{URL}/".ljust(300, "x"), targetHeaders={"X" * 300: "a"}))
    assert [each.cache_info().currsize for each in (_remembered, _known_to_be_fine)] == before


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:127.0.0.1]", "0177.0.0.1"])
@pytest.mark.parametrize(("field", "named"), [("targetUrl", ""), ("callbackUrl", "callbackUrl: ")])
def test_a_destination_that_is_not_allowed_is_the_whole_sentence(
    host: str, field: str, named: str
) -> None:
    with pytest.raises(InvalidRequest, match=rf"^{named}Destination not allowed$") as caught:
        parse(payload(**{field: f"http://{host}/"}))
    assert [detail.field for detail in caught.value.details] == [field]


def test_an_allowed_network_may_be_reached() -> None:
    rules = Rules(Destinations([ipaddress.ip_network("127.0.0.0/8")]), 1830)
    body = json.dumps(payload(targetUrl="http://127.0.0.1:9000/")).encode()
    assert parse_request(body, rules, NOW_MS).url == "http://127.0.0.1:9000/"


@pytest.mark.parametrize(
    "text", ['{"m":1e400,"k":100000000000000000000001}', '{ "a" :\t[ 1 ]\n}', '{"b":"\\u00e9é\\/"}']
)
def test_a_body_is_kept_as_the_very_text(text: str) -> None:
    data = f'{{"targetUrl":"{URL}", "targetBody":  {text}  ,"triggerAt":"{AT}"}}'.encode()
    assert parse(data).body == text.encode()


NO_JSON = [
    b"", b"null", b"[]", b"{}}", b"{'a':1}", b"\xef\xbb\xbf{}", b"targetUrl=http://example.com",
    *(b'{"targetBody":%b}' % each for each in (b"NaN", b'{"a":01}', b'{"a":"\xff"}')),
    *(b'{"targetBody":{"a":%b}}' % each for each in (b'"\\ud8"', b'"\\ud800', b"\\ud800")),
    b'{"targetUrl":"\xed\xa0\x80"}', b'{"\xff":1}', b'{"unknown":1,"targetBody":{"a":NaN}}',
    b"[" * 100_000, b'{"unknown":1,"targetBody":' + b'{"a":' * 9_000 + b"1" + b"}" * 9_001,
    b'{"targetHeaders":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
]  # fmt: skip


@pytest.mark.parametrize("data", NO_JSON, ids=lambda data: repr(data[:40]))
def test_what_is_no_json_object_is_one_bad_body(data: bytes) -> None:
    assert bad_fields(data) == ["body"]


@pytest.mark.parametrize(
    "text",
    [
        '{"a":"x\\uDC00\\ud83dy"}',
        '{"a":"\\\\ud800 \\\\\\ud800 \\\\\\\\"}',
        '{"\\udfff":"\\ud800\\uD7FF\x7f\\n"}',
    ],
)
def test_half_a_surrogate_pair_goes_out_as_it_came(text: str) -> None:
    """JavaScript writes such escapes, and RFC 8259 has them."""
    data = f'{{"targetUrl":"{URL}","targetBody": {text},"triggerAt":"{AT}"}}'.encode()
    assert parse(data).body == text.encode()
    assert parse_change(data, RULES, NOW_MS).values["body"] == text.encode()


HALF = '"\\ud800"'
NUMBERS = ("9" * 5000, "1e400")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("targetHeaders", text) for text in (f'{{"X-A":{HALF}}}', f'{{{HALF}:"a"}}')),
        *((name, number) for name in FIELDS for number in NUMBERS),
        ("targetUrl", '"https://example.com/\\ud800"'),
        ("a\\ud800", "1"),  # a name that can be said back
    ],
    ids=lambda value: value[:30],
)
def test_half_a_surrogate_pair_or_a_huge_number_is_a_bad_field(name: str, text: str) -> None:
    least = payload() | ({"retries": 1} if name == "retryDelays" else {})
    if name == "delay":
        del least["triggerAt"]
    assert bad_fields(json.dumps(least).encode()[:-1] + f',"{name}":{text}}}'.encode()) == [name]


def test_of_a_large_payload_with_unknown_fields_one_is_named() -> None:
    many = b",".join(b'"f%d":{"a":1}' % n for n in range(20_000))
    assert bad_fields(json.dumps(payload()).encode()[:-1] + b"," + many + b"}") == ["f0"]


@pytest.mark.parametrize("mask", [MASK, quote(MASK), quote(MASK).lower()])
@pytest.mark.parametrize("field", ["targetUrl", "callbackUrl"])
def test_a_mask_that_is_sent_back_in_a_url_is_refused(mask: str, field: str) -> None:
    with pytest.raises(InvalidRequest, match="mask") as caught:
        parse(payload(**{field: f"{URL}?a=1&token={mask}"}))
    assert [detail.field for detail in caught.value.details] == [field]


def test_of_a_key_given_twice_the_last_counts() -> None:
    first = b'{"targetUrl":5,"targetMethod":"GET",'
    request = parse(first + json.dumps(payload(targetMethod="PUT")).encode()[1:])
    assert (request.url, request.method) == (URL, "PUT")


_SOME_VALUES: dict[str, list[Any]] = {
    "targetUrl": [URL, "http://10.0.0.1/", None, 1],
    "triggerAt": [AT, "soon", None],
    "delay": ["1h", "1 h", 60, -1, None],
    "targetMethod": ["put", "PUSH", None],
    "targetHeaders": [{}, {"X-A": "1"}, {"Host": "a"}, {"X-A": 1}, None],
    "targetBody": [{"a": 1}, [], None],
    "targetBodyText": ["a", None, 1],
    "targetBodyBase64": ["YQ==", "YQ", None],
    "delivery": ["at-most-once", "once", None],
    "expiresAt": ["2026-11-20T10:00:00Z", "2026-11-20T09:00:00Z", None],
    "retries": [0, 3, 3.0, 3.5, 99, None],
    "retryDelays": [["1s"], [], ["1"], [1], None, "1s"],
    "timeout": ["5s", 5, "1500ms", 31, None],
    "callbackUrl": [URL, "http://10.0.0.1/", None, 1],
    "callbackOn": ["executed", "failed", "never", None],
    "failureCallbackUrl": [URL, "http://10.0.0.1/", None, 1],
    "callbackInclude": ["response", "all", None],
    "lane": ["a", "-", None],
    "tragetUrl": [URL],
}
_MOSTLY_REQUIRED = {"targetUrl": st.sampled_from([URL] * 5 + _SOME_VALUES.pop("targetUrl"))}
_OPTIONAL = {name: st.sampled_from(values) for name, values in _SOME_VALUES.items()}


@given(st.fixed_dictionaries(_MOSTLY_REQUIRED, optional=_OPTIONAL))
@example(payload(delay=None, targetBodyText=None, targetBody={"a": 1}))
@example(payload(retries=3, retryDelays=["1s"], expiresAt="2026-11-20T10:00:00Z"))
def test_reading_all_at_once_finds_what_a_close_look_does(body: dict[str, Any]) -> None:
    data = json.dumps(body).encode()
    at_once = _fine_at_once(data, RULES, NOW_MS)
    try:
        closely = _with_every_finding(data, RULES, NOW_MS)
    except InvalidRequest:
        assert at_once is None
    else:
        assert at_once is None or at_once == closely
        named_twice = len(body) > len({FIELDS[name].of for name in body})
        assert (at_once is not None) or named_twice
