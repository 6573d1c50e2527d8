"""The payload of POST /schedule: bytes to a request, or every bad field."""

from __future__ import annotations

import gc
import ipaddress
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from api.fields import FIELDS
from api.findings import details_of
from api.masks import MASK
from api.payload import _fine_at_once, _with_every_finding, parse_change, parse_request
from api.rules import Rules
from scheduler.destinations import Destinations
from scheduler.errors import InvalidRequest
from scheduler.models import Delivery, Request
from scheduler.times import format_iso8601

NOW_MS = 1_795_161_600_000  # 2026-11-20T08:00:00Z
HOUR_MS = 3_600_000
RULES = Rules(Destinations(), max_horizon_days=1830)
URL = "https://example.com/hook"
AT = "2026-11-20T09:00:00Z"


def parse(data: bytes | dict[str, Any]) -> Request:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return parse_request(raw, RULES, NOW_MS)


def payload(**fields: Any) -> dict[str, Any]:
    return {"targetUrl": URL, "triggerAt": AT, **fields}


def bad_fields(data: bytes | dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidRequest) as caught:
        parse(data)
    assert all(
        detail.message.endswith(".") or detail.field == "targetUrl"
        for detail in caught.value.details
    )
    return [detail.field for detail in caught.value.details]


@contextmanager
def holding_less_than(most_bytes: int) -> Iterator[None]:
    """Asserts that the calls leave little in memory."""
    tracemalloc.start()
    try:
        yield
        gc.collect()
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < most_bytes


def test_the_least_payload_is_a_get_without_headers_or_body() -> None:
    assert parse(payload()) == Request(NOW_MS + HOUR_MS, "GET", URL, method_given=False)


def test_a_full_payload_is_taken_as_it_is() -> None:
    request = parse(
        payload(
            targetMethod="put",
            targetHeaders={"X-Order": "12 34", "Authorization": "Bearer é"},
            targetBody={"a": 1},
            delivery="at-most-once",
            expiresAt="2026-11-20T09:00:00.001Z",
        )
    )
    assert request == Request(
        NOW_MS + HOUR_MS,
        "PUT",
        URL,
        {"X-Order": "12 34", "Authorization": "Bearer é"},
        b'{"a": 1}',
        Delivery.AT_MOST_ONCE,
        NOW_MS + HOUR_MS + 1,
    )


def test_null_is_as_good_as_absent_for_what_is_optional() -> None:
    names = ("targetMethod", "targetHeaders", "targetBody", "delivery", "expiresAt")
    assert parse(payload(**dict.fromkeys(names))) == parse(payload())


NO_TEXTS = (5, 5.5, True, [], {})
NO_TIMES = (
    "",
    "soon",
    "2026-11-20",
    "2026-02-30T00:00:00Z",
    "9999-12-31T23:59:59.9999Z",
    "9" * 5000,
)
BAD_VALUES: dict[str, tuple[object, ...]] = {
    "targetUrl": (
        *(None, *NO_TEXTS, "", "/hook", "example.com/hook", "ftp://example.com/", "http:///hook"),
        *("http://", "http://user:pw@example.com/", "http://user@example.com/"),
        *("http://exa mple.com/", "http://example.com/a b", "http://example.com/a\tb"),
        *("http://example.com/a\r\nHost: b", "http://example.com\\@evil.example/"),
        *("http://example.com:0/", "http://example.com:65536/", URL.ljust(8193, "a")),
    ),
    "triggerAt": (None, *NO_TEXTS, *NO_TIMES),
    # Where it is one, it must be after triggerAt.
    "expiresAt": (*NO_TEXTS, *NO_TIMES, AT, "2026-11-20T08:59:59.999Z", "0001-01-01T00:00:00Z"),
    "targetMethod": (*NO_TEXTS, "", "BREW", "CONNECT", "TRACE", "GET ", "GET\r\n", "OPT\u0131ONS"),
    "delivery": NO_TEXTS,
    "targetBody": (1, "text", True, [], [{}]),
    "targetHeaders": (1, "X-Foo: a", True, [], [["X-Foo", "a"]]),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD_VALUES.items() for value in values]
)
def test_a_value_that_breaks_a_rule_is_named(name: str, value: object) -> None:
    assert bad_fields(payload(**{name: value})) == [name]


def test_what_is_missing_is_named() -> None:
    assert bad_fields({}) == ["targetUrl", "triggerAt", "delay"]


def test_every_bad_field_is_named_at_once() -> None:
    headers = {"X-Foo": 5, "Host": "a", "X-Good": "b", "X Bad": "c"}
    body = {
        "targetUrl": "ftp://example.com", "triggerAt": "tomorrow", "targetMethod": "BREW",
        "targetHeaders": headers, "targetBody": [1], "delivery": "twice", "expiresAt": 7,
        "color": "red",
    }  # fmt: skip
    bad_headers = {f"targetHeaders.{name}" for name in headers if name != "X-Good"}
    assert set(bad_fields(body)) == {*body, *bad_headers} - {"targetHeaders"}


def test_unknown_fields_are_named_each() -> None:
    assert bad_fields(payload(targeturl=URL, headers={})) == ["targeturl", "headers"]


def headers_of(count: int) -> dict[str, Any]:
    return {f"X {n}": "a space is in the name" for n in range(count)}


@pytest.mark.parametrize(
    ("fields", "listed", "rest"),
    [
        ({f"f{n}": n for n in range(5)}, 5, None),
        ({f"f{n}": n for n in range(6)}, 5, "and 1 more"),
        ({f"f{n}": n for n in range(5000)}, 5, "and 4,995 more"),
        ({"targetHeaders": headers_of(20)}, 20, None),
        ({"targetHeaders": headers_of(64)}, 20, "and 44 more"),
        ({"targetHeaders": headers_of(18), "targetMethod": 5, "color": 1}, 20, None),
        ({"targetHeaders": headers_of(18)} | {f"f{n}": n for n in range(9)}, 20, "and 7 more"),
    ],
)
def test_a_flood_of_faults_is_counted_not_repeated(
    fields: dict[str, Any], listed: int, rest: str | None
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(payload(**fields))
    details = details_of(caught.value)
    assert [detail.message for detail in details[listed:]] == ([] if rest is None else [rest])
    assert len({detail.field for detail in details}) == len(details)
    assert len(str(caught.value)) < 300


def test_a_long_name_is_not_said_back_whole() -> None:
    assert bad_fields(payload(**{"x" * 5000: 1})) == ["x" * 100 + "…"]


HOSTS = """127.0.0.1 10.0.0.1 169.254.169.254 [::1] [fe80::1] [::ffff:127.0.0.1]
2130706433 0x7f000001 127.1 0177.0.0.1"""


@pytest.mark.parametrize("host", HOSTS.split())
def test_a_destination_that_is_not_allowed_is_the_whole_sentence(host: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^Destination not allowed$") as caught:
        parse(payload(targetUrl=f"http://{host}/"))
    assert [detail.field for detail in caught.value.details] == ["targetUrl"]


def test_an_allowed_network_may_be_reached() -> None:
    rules = Rules(Destinations([ipaddress.ip_network("127.0.0.0/8")]), 1830)
    body = json.dumps(payload(targetUrl="http://127.0.0.1:9000/")).encode()
    assert parse_request(body, rules, NOW_MS).url == "http://127.0.0.1:9000/"


def test_a_url_of_exactly_8192_characters_is_taken() -> None:
    url = URL.ljust(8192, "a")
    assert parse(payload(targetUrl=url)).url == url


@pytest.mark.parametrize(
    ("moment_ms", "accepted"),
    [
        (NOW_MS - 24 * HOUR_MS, True),
        (NOW_MS - 24 * HOUR_MS - 1, False),
        (NOW_MS, True),
        (NOW_MS + 1830 * 24 * HOUR_MS, True),
        (NOW_MS + 1830 * 24 * HOUR_MS + 1, False),
    ],
)
def test_trigger_at_has_bounds_to_the_millisecond(moment_ms: int, accepted: bool) -> None:
    body = payload(triggerAt=format_iso8601(moment_ms))
    if accepted:
        assert parse(body).trigger_at_ms == moment_ms
    else:
        assert bad_fields(body) == ["triggerAt"]


def test_an_expiry_that_has_passed_is_taken_if_it_is_after_the_trigger() -> None:
    body = payload(triggerAt="2026-11-20T07:00:00Z", expiresAt="2026-11-20T07:30:00Z")
    assert parse(body).expires_at_ms == NOW_MS - HOUR_MS // 2


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
def test_a_method_is_taken_in_any_letter_case(method: str) -> None:
    for text in (method, method.lower(), method.title()):
        assert parse(payload(targetMethod=text)).method == method


def test_the_default_method_is_post_with_a_body() -> None:
    assert parse(payload(targetBody={})).method == "POST"


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"n":1.0,"m":1e400,"k":100000000000000000000001,"z":-0.0}',
        '{ "a" :\t[ 1 , 2 ]\n}',
        '{"a":"\\u00e9é","b":1,"b":2}',
        '{"a":"\\/"}',
    ],
)
def test_a_body_is_kept_as_the_very_text(text: str) -> None:
    data = f'{{"targetUrl":"{URL}", "targetBody":  {text}  ,"triggerAt":"{AT}"}}'.encode()
    assert parse(data).body == text.encode()


OURS = """Host content-length Transfer-Encoding Connection Keep-Alive TE Trailer Upgrade EXPECT
Proxy-Authorization proxy-connection Postdate-Attempt postdate-anything webhook-id
Webhook-Signature WEBHOOK-x"""
NO_TOKENS = ["", "X Foo", "X:Foo", "X\nFoo", "Xé", "(x)", "X\0", "ﬁ", "\u212a"]


@pytest.mark.parametrize("name", [*OURS.split(), *NO_TOKENS])
def test_headers_of_ours_and_names_that_are_no_tokens_are_refused(name: str) -> None:
    headers = {name: "x", "X-Webhook": "1"}
    assert bad_fields(payload(targetHeaders=headers)) == [f"targetHeaders.{name}"]


def test_a_line_break_in_a_name_makes_no_two_names_of_it() -> None:
    headers = {"X-A\nX-B": "1", "X-A": "2"}
    assert bad_fields(payload(targetHeaders=headers)) == ["targetHeaders.X-A\nX-B"]


NO_LATIN_1 = ["a\r\nb", "a\nb", "\0", "\x7f", "\x1f", "a\tb", "\x85", "€", "日"]


@pytest.mark.parametrize("value", [None, 1, True, [], {}, *NO_LATIN_1])
def test_a_header_value_must_be_printable_latin_1(value: object) -> None:
    headers = {"X-Good": "a", "X-Foo": value}
    assert bad_fields(payload(targetHeaders=headers)) == ["targetHeaders.X-Foo"]


@pytest.mark.parametrize("value", ["", " ", "plain", '!"#~', "é ÿ \xa0", "a: b, c; d"])
def test_a_header_value_may_be_any_printable_latin_1(value: str) -> None:
    assert parse(payload(targetHeaders={"X-Foo": value})).headers == {"X-Foo": value}


def test_a_header_may_not_come_twice_in_another_case() -> None:
    headers = {"X-Foo": "a", "x-foo": "b"}
    assert bad_fields(payload(targetHeaders=headers)) == ["targetHeaders.x-foo"]


def test_64_headers_are_taken_and_65_are_not() -> None:
    headers = {f"X-{n}": "v" for n in range(64)}
    assert parse(payload(targetHeaders=headers)).headers == headers
    assert bad_fields(payload(targetHeaders=headers | {"X-64": "v"})) == ["targetHeaders"]


def test_16_kib_of_headers_are_taken_and_a_byte_more_is_not() -> None:
    headers = {"X-A": "v" * (16 * 1024 - 3)}
    assert parse(payload(targetHeaders=headers)).headers == headers
    headers["X-A"] += "v"
    assert bad_fields(payload(targetHeaders=headers)) == ["targetHeaders"]


NO_JSON = [
    b"", b" ", b"{", b"null", b"[]", b'"text"', b"5", b"{}}", b"{} {}", b"{'a':1}", b"{a:1}",
    *(b'{"targetBody":%b}' % each for each in (b"NaN", b"Infinity")),
    *(
        b'{"targetBody":{"a":%b}}' % each
        for each in (
            b"-Infinity", b"01", b"1.", b"+1", b'"\x01"', b'"\\x"', b'"\\ud8"', b'"\\ud80g"',
            b'"\\ud800', b"\\ud800", b"1,", b'"\xff"',
        )
    ),
    b'{"targetUrl":"\xff"}', b'{"targetUrl":"\xed\xa0\x80"}', b'{"\xff":1}', b"\xef\xbb\xbf{}",
    b"\xff\xfe{\0}\0", b"{\0}", b'{"unknown":1,"targetBody":{"a":NaN}}', b"[" * 100_000,
    b'{"targetBody":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
    b'{"unknown":1,"targetBody":' + b'{"a":' * 9_000 + b"1" + b"}" * 9_001,
    b'{"targetHeaders":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
    b'{"unknown":' + b"[" * 50_000 + b"]" * 50_000 + b"}", b"targetUrl=http://example.com",
]  # fmt: skip


@pytest.mark.parametrize("data", NO_JSON, ids=lambda data: repr(data[:40]))
def test_what_is_no_json_object_is_one_bad_body(data: bytes) -> None:
    assert bad_fields(data) == ["body"]


@pytest.mark.parametrize(
    "text",
    [
        '{"a":"\\ud800"}',
        '{"a":"x\\uDC00\\ud83dy"}',
        '{"\\udfff":1}',
        '{"a":"\\ud83d\\ude00 \\ud83d\\u0041"}',
        '{"a":"\\\\ud800 \\\\\\ud800 \\\\\\\\"}',
        '{"a":"\\ud800\\uD7FF\x7f\\n"}',
        '{"n": 1.50, "a" : "\\udc00", "b":"\\\\" }',
    ],
)
def test_half_a_surrogate_pair_goes_out_as_it_came(text: str) -> None:
    """JavaScript writes such escapes, and RFC 8259 has them."""
    data = f'{{"targetUrl":"{URL}","targetBody": {text},"triggerAt":"{AT}"}}'.encode()
    assert parse(data).body == text.encode()
    assert parse_change(data, RULES, NOW_MS).values["body"] == text.encode()


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("targetUrl", '"https://example.com/\\ud800"'),
        ("triggerAt", '"\\ud800"'),
        ("targetMethod", '"\\ud800"'),
        ("targetHeaders", '{"X-A":"\\ud800"}'),
        ("targetHeaders", '{"\\ud800":"a"}'),
        ("delivery", '"\\udc00"'),
        ("expiresAt", '"\\ud83d"'),
    ],
)
def test_half_a_surrogate_pair_is_in_no_other_field(field: str, text: str) -> None:
    data = json.dumps(payload()).encode()[:-1] + f',"{field}":{text}}}'.encode()
    assert bad_fields(data) == [field]


def test_a_name_with_half_a_surrogate_pair_can_be_said_back() -> None:
    assert bad_fields(json.dumps(payload()).encode()[:-1] + b',"a\\ud800":1}') == ["a\\ud800"]


@given(st.text(alphabet='\\ud8Cf0"x\x7f\n', max_size=40))
def test_what_is_stored_of_a_body_is_json_and_what_came(inner: str) -> None:
    text = f'{{"a":"{inner}"}}'
    try:
        request = parse(f'{{"targetUrl":"{URL}","triggerAt":"{AT}","targetBody":{text}}}'.encode())
    except InvalidRequest:
        with pytest.raises(ValueError):
            json.loads(text)
    else:
        assert request.body == text.encode()
        json.loads(text)


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("number", ["9" * 5000, "-1e999999", "1e400", "0." + "1" * 9000])
def test_an_absurdly_large_number_is_a_bad_field(name: str, number: str) -> None:
    least = payload()
    if name == "delay":
        del least["triggerAt"]
    if name == "retryDelays":
        least["retries"] = 1
    data = json.dumps(least).encode()[:-1] + f',"{name}":{number}}}'.encode()
    assert bad_fields(data) == [name]


def test_of_a_large_payload_with_unknown_fields_one_is_named() -> None:
    many = b",".join(b'"f%d":{"a":1}' % n for n in range(20_000))
    assert bad_fields(json.dumps(payload()).encode()[:-1] + b"," + many + b"}") == ["f0"]


def test_of_headers_that_are_too_large_only_that_is_said() -> None:
    for headers in (
        {f"X {n}": "\0" for n in range(5000)},
        {f"X {n}": 5 for n in range(5000)},
        {"X " * 50_000: "\0"},
        {"X-A": "\0" * 50_000},
        {"X-A": "\0" * 50_000, "X-B": 5},
    ):
        found = bad_fields(payload(targetHeaders=headers))
        assert [name for name in found if name != "targetHeaders.X-B"] == ["targetHeaders"]


def test_nothing_is_kept_of_refused_headers() -> None:
    bad_fields(payload(targetHeaders={"X Y": "a"}))
    with holding_less_than(200_000):
        for n in range(20):
            bad_fields(payload(targetHeaders={f"{n}" + "x" * 100_000: "a"}))
            bad_fields(payload(targetHeaders={f"{n} " * 3000: "a"}))


def test_little_is_kept_of_long_urls() -> None:
    parse(payload(targetUrl=URL))
    with holding_less_than(500_000):
        for n in range(100):
            parse(payload(targetUrl=f"{URL}/{n}/".ljust(8000, "é")))


@pytest.mark.parametrize("mask", [MASK, quote(MASK), quote(MASK).lower()])
def test_a_mask_that_is_sent_back_in_a_url_is_refused(mask: str) -> None:
    with pytest.raises(InvalidRequest, match="mask") as caught:
        parse(payload(targetUrl=f"{URL}?a=1&token={mask}"))
    assert [detail.field for detail in caught.value.details] == ["targetUrl"]


def test_of_a_key_given_twice_the_last_counts() -> None:
    first = b'{"targetUrl":5,"targetMethod":"GET",'
    request = parse(first + json.dumps(payload(targetMethod="PUT")).encode()[1:])
    assert (request.url, request.method) == (URL, "PUT")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
field_names = st.sampled_from(list(FIELDS))


changes = st.dictionaries(field_names | st.text(), json_values, max_size=6)


@given(changes)
@example({"targetUrl": "http://[", "triggerAt": "2026-11-20T08:00:00+99:99"})
@example({"targetUrl": "http://\ud800", "triggerAt": "\ud800"})
def test_any_json_is_a_request_or_an_invalid_request(body: dict[str, Any]) -> None:
    parse_or_refuse(json.dumps(payload() | body).encode())
    parse_or_refuse(json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_an_invalid_request(data: bytes) -> None:
    parse_or_refuse(data)
    parse_or_refuse(b'{"targetUrl":"' + data + b'"}')
    parse_or_refuse(b'{"targetBody":{"a":' + data + b'},"targetHeaders":' + data + b"}")


def parse_or_refuse(data: bytes) -> None:
    try:
        request = parse(data)
    except InvalidRequest as refused:
        refusal = refused
    else:
        assert isinstance(request, Request)
        return
    assert refusal.details
    assert str(refusal)


_SOME_VALUES: dict[str, list[Any]] = {
    "targetUrl": [URL, "http://10.0.0.1/", None, 1],
    "triggerAt": [AT, "soon", None],
    "delay": ["1h", "1 h", None],
    "targetMethod": ["put", "PUSH", None],
    "targetHeaders": [{}, {"X-A": "1"}, {"Host": "a"}, {"X-A": 1}, None],
    "targetBody": [{"a": 1}, [], None],
    "targetBodyText": ["a", None, 1],
    "targetBodyBase64": ["YQ==", "YQ", None],
    "delivery": ["at-most-once", "once", None],
    "expiresAt": ["2026-11-20T10:00:00Z", "2026-11-20T09:00:00Z", None],
    "retries": [0, 3, 3.0, 3.5, 99, None],
    "retryDelays": [["1s"], [], ["1"], None, "1s"],
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
