"""Each field of a payload: what it makes of a request, how that is shown again, in which words a
bad value is refused, and what a change or a replay makes of it. Pure."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest

from api.schema.fields import FIELDS
from api.schema.payload import parse_change, parse_create
from api.schema.rules import NO_DURATION
from scheduler.callbacks import NO_URL, Callback, CallbackOn
from scheduler.durations import DAY_MS
from scheduler.errors import FieldError, InvalidRequest
from scheduler.masks import MASK
from scheduler.models import BodyKind, Delivery, Occurrence, Request, Schedule, Status
from scheduler.schema import MOST_RAW_BODY_BYTES
from scheduler.times import parse_iso8601
from tests.api.schema.test_payload import AT, NOW_MS, RULES, URL, parse, payload

THERE, LATER = f"{URL}-too", "2026-11-20T12:00:00Z"
BODIES = ("targetBody", "targetBodyText", "targetBodyBase64")


def shown(request: Request) -> dict[str, Any]:
    """What a GET shows of it."""
    fields = {name: f.shown_in(request) for name, f in FIELDS.items() if f.show is not None}
    return dict(msgspec.json.decode(msgspec.json.encode(fields)))


def timeout(given: Any, seconds: int) -> tuple[dict[str, Any], ...]:
    return {"timeout": given}, {"timeout_s": seconds}, {"timeout": f"{seconds}s"}


def retries(
    given: dict[str, Any], count: int, delays: list[str] | None
) -> tuple[dict[str, Any], ...]:
    return given, {}, {"retries": count, "retryDelays": delays}


def delay(given: Any, ms: int) -> tuple[dict[str, Any], ...]:
    return {"delay": given, "triggerAt": None}, {"trigger_at_ms": NOW_MS + ms}, {}


def body(field: str, value: Any, content: bytes, kind: BodyKind) -> tuple[dict[str, Any], ...]:
    others = {name: None for name in BODIES if name != field}
    made = {"body": content, "body_kind": kind, "method": "POST"}
    return {field: value} | others, made, {field: value} | others


def callback(
    given: dict[str, Any], made: Callback | None, url: str | None, on: str | None
) -> tuple[dict[str, Any], ...]:
    return given, {"callback": made}, {"callbackUrl": url, "callbackOn": on}


BOTH = {"callbackUrl": URL, "callbackOn": "failed"}
HERE_IF_FAILED, THERE_IF_FAILED = (Callback(url, CallbackOn.FAILED) for url in (URL, THERE))
ON_FAILED = Callback(None, CallbackOn.FAILED)
FAILURES, RESPONSE = {"failureCallbackUrl": THERE}, {"callbackInclude": "response"}
NO_URL_BUT_RESPONSE = RESPONSE | {"callbackUrl": None}
FAILURES_ALONE = Callback(None, None, THERE)
ALL = Callback(URL, CallbackOn.FAILED, THERE, with_response=True)
ALL_BUT_RESPONSE = Callback(URL, CallbackOn.FAILED, THERE)
ALL_BUT_FAILURES = Callback(URL, CallbackOn.FAILED, with_response=True)
HUSH, MASKED = (f"{URL}?job=7&token={each}" for each in ("hush", MASK))
# Fields of a payload, the attributes that the request gets from them, and the fields shown.
TAKEN = [
    *(timeout(each, 5) for each in ("5s", 5, 5.0)),
    *(timeout(*each) for each in (("1s", 1), ("0.5m", 30), ("2000ms", 2), (None, 30))),
    *(delay(*each) for each in ((0, 0), ("0s", 0), (-0.0, 0), (90, 90_000), (90.0, 90_000))),
    *(delay(*each) for each in (("250ms", 250), ("1h30m", 5_400_000), ("1830d", 1830 * DAY_MS))),
    retries({"retries": None, "retryDelays": None}, 0, None),
    retries({"retries": 0, "retryDelays": ["1s"]}, 0, ["1s"]),
    retries({"retries": 3.0}, 3, ["10s", "1m", "10m", "1h", "6h"]),
    retries({"retries": 1, "retryDelays": ["1s"]}, 1, ["1s"]),
    retries({"retries": 20, "retryDelays": [90, "1500ms", 2.0]}, 20, ["1m30s", "1s500ms", "2s"]),
    retries({"retries": 2, "retryDelays": ["10s"] * 20}, 2, ["10s"] * 20),
    body("targetBodyText", "für später\n", "für später\n".encode(), BodyKind.TEXT),
    body("targetBodyText", "", b"", BodyKind.TEXT),
    body("targetBodyBase64", "AAEC/w==", b"\x00\x01\x02\xff", BodyKind.BINARY),
    body("targetBody", {"a": 1}, b'{"a": 1}', BodyKind.JSON),
    callback({}, None, "default", None),
    callback({"callbackUrl": "default", "callbackOn": None}, None, "default", None),
    callback({"callbackUrl": "default", "callbackOn": "failed"}, ON_FAILED, "default", "failed"),
    callback({"callbackUrl": HUSH}, Callback(HUSH), MASKED, "executed"),
    ({"targetUrl": HUSH}, {"url": HUSH}, {"targetUrl": MASKED}),
    (
        {"targetHeaders": {"Authorization": "hush", "X-TOKEN": "hush", "X-Order": "12"}},
        {},
        {"targetHeaders": {"Authorization": MASK, "X-TOKEN": MASK, "X-Order": "12"}},
    ),
    callback({"callbackUrl": None}, Callback(NO_URL), None, None),
    callback({"callbackUrl": URL}, Callback(URL), URL, "executed"),
    callback({"callbackOn": "failed"}, ON_FAILED, "default", "failed"),
    callback(BOTH, HERE_IF_FAILED, URL, "failed"),
    callback(FAILURES, FAILURES_ALONE, "default", None),
    callback(FAILURES | {"callbackUrl": None}, Callback(NO_URL, failure_url=THERE), None, None),
    callback(BOTH | FAILURES | RESPONSE, ALL, URL, "failed"),
    (FAILURES | RESPONSE, {}, FAILURES | RESPONSE),
    (RESPONSE, {"callback": Callback(None, None, None, True)}, {"failureCallbackUrl": None}),
    (
        RESPONSE | {"callbackUrl": None},
        {"callback": Callback(NO_URL, with_response=True)},
        RESPONSE,
    ),
    (
        {"failureCallbackUrl": HUSH},
        {"callback": Callback(None, None, HUSH)},
        {"failureCallbackUrl": MASKED, "callbackInclude": None},
    ),
    ({"failureCallbackUrl": None, "callbackInclude": None}, {"callback": None}, {}),
]


@pytest.mark.parametrize(("given", "made", "seen"), TAKEN, ids=lambda value: f"{value!r:.50}")
def test_a_value_is_read_and_shown_again(
    given: dict[str, Any], made: dict[str, Any], seen: dict[str, Any]
) -> None:
    request = parse(payload(**given))
    assert {name: getattr(request, name) for name in made} == made
    assert shown(request) == shown(request) | seen


def test_the_largest_bodies_are_taken() -> None:
    body = b"\xff" * MOST_RAW_BODY_BYTES
    assert parse(payload(targetBodyBase64=b64encode(body).decode())).body == body
    assert parse(payload(targetBodyText="x" * len(body))).body == b"x" * len(body)


NO_BASE64 = "It must be base64 (RFC 4648) with padding, and without line breaks."
TOO_LARGE = "It may have at most 196,608 bytes."
NO_LANE = (
    "It must have 1 to 64 letters, digits, dots, underscores, colons and hyphens, and begin with a"
    " letter or digit."
)
NO_REFERENCE = "It must have 1 to 128 visible ASCII characters, no space, and no * at its end."
TOO_LARGE_BASE64 = b64encode(b"x" * (MOST_RAW_BODY_BYTES + 1)).decode()
TOO_LARGE_TEXT = "ü" * (MOST_RAW_BODY_BYTES // 2 + 1)
ONE_WAY = {"reference": "a", "onExisting": "replace"}
# What else is given with a field.
BESIDE: dict[str, dict[str, Any]] = {
    "delay": {"triggerAt": None},
    "retryDelays": {"retries": 1},
    "onExisting": {"reference": "a"},
    "maxWait": ONE_WAY,
}
# By a field and the sentence that refuses them.
REFUSED: dict[tuple[str, str], tuple[Any, ...]] = {
    ("delay", NO_DURATION): ("10", "-1s", "1" * 5000 + "s", -1, 1.5, True, [], {}),
    ("delay", "It may be at most 1,830 days."): ("1830d1ms", 1830 * 86_400 + 1),
    ("timeout", NO_DURATION): ("", "5", -1, 1.5, True, ["5s"], 10**15),
    ("timeout", "It must be whole seconds from 1s to 30s."): (
        *(0, 31, "31s", "30s1ms", "1500ms", "1d", 10**14),
    ),
    ("retries", "It must be from 0 to 20."): (-1, 21),
    ("retries", "It must be a whole number."): (1.5, "5", True),
    ("retryDelays", "It must be an array of durations."): ("10s", 10, [1.5], [None]),
    ("retryDelays", "It must have from 1 to 20 durations."): ([], ["10s"] * 21),
    ("retryDelays", "Each must be from 1s to 7d."): (
        *(["10s", each] for each in ("7d1ms", 0, 7 * 86_400 + 1)),
    ),
    ("retryDelays", NO_DURATION): (["10s", "soon"],),
    ("targetBodyText", "It must be a string."): (5,),
    ("targetBodyText", TOO_LARGE): (TOO_LARGE_TEXT,),
    # The third has bits left over that are not zero.
    ("targetBodyBase64", NO_BASE64): ("AAA", "AAE=\n", "AAF=", "__8="),
    ("targetBodyBase64", TOO_LARGE): (TOO_LARGE_BASE64,),
    ("callbackUrl", "It may have at most 8,192 characters."): (URL.ljust(8193, "x"),),
    ("lane", NO_LANE): ("", "-a", "_", "a b", "a/b", "a*", "\u00e9", "a\n", "a" * 65),
    ("reference", NO_REFERENCE): ("", " ", "a b", "a*", "*", "é", "\x7f", "a\n", "a" * 129),
    ("onExisting", "It must be keep or replace."): ("drop",),
    ("onExisting", "It must be a string."): (1,),
    ("maxWait", "It may be at most 1,830 days."): ("9999d",),
}
NEEDS_REFERENCE, NEEDS_REPLACE = "It needs a reference.", "It needs onExisting to be replace."
NEEDS_RETRIES = "It needs retries, which is 0 unless you ask for more."
# Fields that do not go together, and those that are named.
MISFITS: list[tuple[dict[str, Any], str, tuple[str, ...]]] = [
    ({"delay": "1s"}, "Only one of triggerAt and delay may be given.", ("triggerAt", "delay")),
    (
        {"targetBody": {}, "targetBodyText": "a", "targetBodyBase64": "AA=="},
        f"Only one of {' and '.join(BODIES)} may be given.",
        BODIES,
    ),
    ({"retryDelays": ["10s"]}, NEEDS_RETRIES, ("retryDelays",)),
    ({"onExisting": "keep"}, NEEDS_REFERENCE, ("onExisting",)),
    ({"onExisting": "keep", "reference": None}, NEEDS_REFERENCE, ("onExisting",)),
    (ONE_WAY | {"onExisting": "keep", "maxWait": "1h"}, NEEDS_REPLACE, ("maxWait",)),
    ({"reference": "a", "maxWait": "1h"}, NEEDS_REPLACE, ("maxWait",)),
]


@pytest.mark.parametrize(
    ("given", "says", "names"),
    [
        *(
            (BESIDE.get(name, {}) | {name: value}, says, (name,))
            for (name, says), values in REFUSED.items()
            for value in values
        ),
        *MISFITS,
    ],
    ids=lambda value: f"{value!r:.50}",
)
def test_a_bad_value_is_refused_in_a_sentence(
    given: dict[str, Any], says: str, names: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_create(json.dumps(payload(**given)).encode(), RULES, NOW_MS)
    assert caught.value.details == [FieldError(name, says) for name in names]


SECRETS = {"Authorization": "Bearer x", "X-Order": "12", "X-Auth": "y"}
BEFORE: dict[str, Any] = {
    "targetMethod": "POST",
    "targetHeaders": {"X-Order": "12", "Authorization": "Bearer x"},
    "targetBody": {"a": 1},
    "delivery": "at-most-once",
    "expiresAt": LATER,
    "timeout": "5s",
}
JSON_BEFORE, METHOD = {"targetBody": {"a": 1}}, {"targetMethod": "GET"}
NO_CALLBACK: dict[str, Any] = {"callbackUrl": None}
TEXT = {"body": b"b", "body_kind": BodyKind.TEXT}
NO_BODY = {"body": None, "body_kind": BodyKind.JSON, "method": "GET"}
POST_BY_DEFAULT = {"method": "POST", "method_given": False}
SAME_ORIGIN = ("https://EXAMPLE.com:443/other", "https://example.com./x?y")
ORIGINS = ("https://other.example/", "http://example.com/hook", "https://example.com:8443/hook")
# A schedule's fields, those of a change, and what of the request is another one then.
CHANGES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (BEFORE, {"targetUrl": THERE}, {"url": THERE}),
    (BEFORE, {"triggerAt": AT[:-1] + ".5Z"}, {"trigger_at_ms": parse_iso8601(AT) + 500}),
    (BEFORE, {"delay": "2h"}, {"trigger_at_ms": NOW_MS + 7_200_000}),
    (BEFORE, {"targetMethod": None}, {"method_given": False}),
    (BEFORE, {"targetHeaders": {"X-New": "1"}}, {"headers": {"X-New": "1"}}),
    (BEFORE, {"targetHeaders": None}, {"headers": {}}),
    (BEFORE, {"targetBody": {"b": [2]}}, {"body": b'{"b": [2]}'}),
    (BEFORE, {"delivery": None}, {"delivery": Delivery.AT_LEAST_ONCE}),
    (BEFORE, {"expiresAt": None}, {"expires_at_ms": None}),
    (BEFORE, {"retries": 1}, {"retries": 1}),
    (BEFORE, {"timeout": 7}, {"timeout_s": 7}),
    (BEFORE, {"timeout": None}, {"timeout_s": 30}),
    # A default method follows the body, and a given one stays.
    ({}, {"targetBody": {"a": 1}}, {"method": "POST", "body": b'{"a": 1}'}),
    (JSON_BEFORE, {"targetBody": None}, {"method": "GET", "body": None}),
    (METHOD, {"targetBody": {"a": 1}}, {"body": b'{"a": 1}'}),
    (METHOD, {"targetBody": {}, "targetMethod": None}, {"body": b"{}"} | POST_BY_DEFAULT),
    # One body takes the place of another; without one there is no kind of it to be kept.
    (JSON_BEFORE, {"targetBodyText": "b"}, TEXT),
    (JSON_BEFORE, {"targetBodyBase64": "AA=="}, {"body": b"\0", "body_kind": BodyKind.BINARY}),
    (JSON_BEFORE, {"targetBody": None, "targetBodyText": "b"}, TEXT),
    (JSON_BEFORE, {"targetBodyText": None}, {"body": None, "method": "GET"}),
    ({}, {"targetBodyText": "b"}, TEXT | POST_BY_DEFAULT),
    ({}, {"targetBodyText": None}, {}),
    ({"targetBodyText": "b"}, {"targetBodyText": None}, NO_BODY),
    # The same origin keeps secrets, and another one the rest.
    *(({"targetHeaders": SECRETS}, {"targetUrl": url}, {"url": url}) for url in SAME_ORIGIN),
    ({"targetHeaders": {"X-Order": "12"}}, {"targetUrl": ORIGINS[0]}, {"url": ORIGINS[0]}),
    (
        {"targetHeaders": SECRETS},
        {"targetUrl": ORIGINS[0], "targetHeaders": {"Authorization": "z"}},
        {"url": ORIGINS[0], "headers": {"Authorization": "z"}},
    ),
    # A change of one field of a callback keeps the other.
    ({"callbackUrl": URL}, {"callbackUrl": THERE}, {"callback": Callback(THERE)}),
    ({"callbackUrl": URL}, {"callbackOn": "failed"}, {"callback": HERE_IF_FAILED}),
    ({"callbackUrl": URL}, {"callbackUrl": None}, {"callback": Callback(NO_URL)}),
    # The account's says which ends are reported, too, unless that is given or was given for it.
    (BOTH, {"callbackUrl": "default"}, {"callback": None}),
    (BOTH, {"callbackUrl": "default", "callbackOn": "failed"}, {"callback": ON_FAILED}),
    (NO_CALLBACK, {"callbackUrl": "default"}, {"callback": None}),
    ({"callbackOn": "failed"}, {"callbackUrl": "default"}, {"callback": ON_FAILED}),
    (BOTH, {"callbackOn": None}, {"callback": Callback(URL)}),
    (BOTH, {"callbackUrl": THERE}, {"callback": THERE_IF_FAILED}),
    (BOTH, {"retries": 1}, {"retries": 1}),
    ({"callbackOn": "failed"}, {"callbackUrl": URL}, {"callback": HERE_IF_FAILED}),
    ({"callbackOn": "failed"}, {"callbackOn": None}, {"callback": None}),
    (NO_CALLBACK, {"callbackUrl": URL, "callbackOn": "executed"}, {"callback": Callback(URL)}),
    ({}, {"callbackOn": "failed"}, {"callback": ON_FAILED}),
    (BOTH | FAILURES | RESPONSE, {"callbackUrl": URL}, {}),
    (BOTH | FAILURES, RESPONSE, {"callback": ALL}),
    (BOTH | RESPONSE, FAILURES, {"callback": ALL}),
    (BOTH | FAILURES | RESPONSE, {"callbackInclude": None}, {"callback": ALL_BUT_RESPONSE}),
    (
        BOTH | FAILURES | RESPONSE,
        {"failureCallbackUrl": None},
        {"callback": ALL_BUT_FAILURES},
    ),
    (BOTH | FAILURES, {"callbackUrl": "default"}, {"callback": FAILURES_ALONE}),
    (BOTH | FAILURES, {"callbackUrl": None}, {"callback": Callback(NO_URL, failure_url=THERE)}),
    (FAILURES, {"failureCallbackUrl": None}, {"callback": None}),
    (RESPONSE, {"callbackInclude": None}, {"callback": None}),
    (FAILURES, {"callbackUrl": URL}, {"callback": Callback(URL, failure_url=THERE)}),
    ({"lane": "one"}, {"lane": "b"}, {"lane": "b"}),
    ({"lane": "one"}, {"lane": None}, {"lane": None}),
]


@pytest.mark.parametrize(("before", "given", "others"), CHANGES, ids=lambda each: f"{each!r:.50}")
def test_a_change_and_a_replay_keep_what_they_do_not_name(
    before: dict[str, Any], given: dict[str, Any], others: dict[str, Any]
) -> None:
    asked = parse(payload(**before))
    change = parse_change(json.dumps(given).encode(), RULES, NOW_MS)
    after = msgspec.structs.replace(asked, **others)
    assert change.of(asked) == after
    due_ms = others.get("trigger_at_ms", NOW_MS)
    replay = change.of_replay(Schedule("sch_1", 0, asked, Status.FAILED), NOW_MS)
    assert replay == msgspec.structs.replace(after, trigger_at_ms=due_ms, replay_of="sch_1")


AS_SHOWN = [
    *(given for given, *_ in TAKEN),
    *(given for given, *_ in CHANGES),
    {"targetHeaders": SECRETS, "targetUrl": HUSH, "callbackUrl": HUSH, "callbackOn": "failed"},
    {"retries": 0, "retryDelays": ["7s"]},
    {"retries": 1, "retryDelays": ["10s", "1m", "10m", "1h", "6h"]},
]


@pytest.mark.parametrize("given", AS_SHOWN, ids=lambda each: f"{each!r:.60}")
def test_a_change_to_what_is_shown_changes_nothing(given: dict[str, Any]) -> None:
    """A week later, too, when the times have passed."""
    asked = parse(payload(**given))
    fields = {name: f.shown_in(asked) for name, f in FIELDS.items() if f.show is not None}
    week_ms = NOW_MS + 7 * DAY_MS
    assert parse_change(msgspec.json.encode(fields), RULES, week_ms).of(asked) == asked
    for name, value in shown(asked).items():
        alone = parse_change(json.dumps({name: value}).encode(), RULES, week_ms)
        assert name.startswith("targetBody") or alone.of(asked) == asked


def test_a_method_that_comes_back_follows_the_body_on() -> None:
    """Also beside another body, unless it is not what follows from that."""
    asked = parse(payload(targetBody={"a": 1}))
    for given, method in (
        ({"targetBody": {"a": 2}, "targetMethod": "POST"}, "GET"),
        ({"targetBody": None, "targetMethod": "POST"}, "POST"),
    ):
        after = parse_change(json.dumps(given).encode(), RULES, NOW_MS).of(asked)
        assert after.method == "POST"
        assert parse_change(b'{"targetBody": null}', RULES, NOW_MS).of(after).method == method


def test_a_move_of_an_occurrence_moves_its_end() -> None:
    asked = parse(payload(expiresAt="2026-11-20T09:10:00Z"))
    asked = msgspec.structs.replace(asked, recurring=Occurrence("rec_1", asked.trigger_at_ms))
    for given, lasts_ms in (
        ({"triggerAt": LATER}, 600_000),
        ({"triggerAt": LATER, "expiresAt": "2026-11-20T12:00:01Z"}, 1000),
    ):
        moved = parse_change(json.dumps(given).encode(), RULES, NOW_MS).of(asked)
        assert moved.expires_at_ms == moved.trigger_at_ms + lasts_ms
    ended = parse_change(b'{"expiresAt": null}', RULES, NOW_MS).of(asked)
    assert ended == msgspec.structs.replace(asked, expires_at_ms=None)


HIDDEN = {"Authorization": MASK, "X-Auth": MASK}
AUTHORIZATION, AUTH = "targetHeaders.Authorization", "targetHeaders.X-Auth"


@pytest.mark.parametrize(
    ("before", "given", "names"),
    [
        (BEFORE, {}, ["body"]),
        (BEFORE, [], ["body"]),
        (BEFORE, {"targetUrl": None, "triggerAt": None}, ["targetUrl", "triggerAt"]),
        (BEFORE, {"delay": "1h", "triggerAt": AT}, ["triggerAt", "delay"]),
        (BEFORE, {"triggerAt": "2001-01-01T00:00:00Z"}, ["triggerAt"]),
        (BEFORE, {"triggerAt": "2026-11-20T13:00:00Z"}, ["triggerAt"]),  # beyond expiresAt
        (BEFORE, {"expiresAt": "2020-01-01T00:00:00Z"}, ["expiresAt"]),
        (BEFORE, {"targetHeaders": {"Authorization": MASK}}, [AUTHORIZATION]),
        ({}, {"targetHeaders": {"Authorization": MASK}}, [AUTHORIZATION]),
        *(
            (given, {name: value, "lane": "b"}, [fault])
            for given, name, value, fault in (
                (
                    {"targetHeaders": SECRETS},
                    "targetHeaders",
                    {"Authorization": MASK},
                    AUTHORIZATION,
                ),
                ({"targetUrl": HUSH}, "targetUrl", f"{MASKED}&a=1", "targetUrl"),
                *(
                    ({name: HUSH}, name, f"{THERE}?token={MASK}", name)
                    for name in ("callbackUrl", "failureCallbackUrl")
                ),
            )
        ),
        ({"targetUrl": HUSH}, {"targetUrl": MASKED, "lane": "-"}, ["lane", "targetUrl"]),
        (
            {"targetHeaders": SECRETS},
            {"targetUrl": ORIGINS[0], "targetHeaders": SECRETS | HIDDEN},
            [AUTHORIZATION, AUTH],
        ),
        (BEFORE, {"onExisting": "keep"}, ["onExisting"]),
        *(({"targetHeaders": SECRETS}, {"targetUrl": u}, [AUTHORIZATION, AUTH]) for u in ORIGINS),
        (NO_CALLBACK, {"callbackOn": "failed"}, ["callbackOn"]),
        (NO_CALLBACK | FAILURES, {"callbackOn": "failed"}, ["callbackOn"]),
        (FAILURES, {"failureCallbackUrl": "default"}, ["failureCallbackUrl"]),
    ],
)
def test_a_bad_change_is_refused_with_all_that_is_wrong(
    before: dict[str, Any], given: Any, names: list[str]
) -> None:
    asked = parse(payload(**before))
    with pytest.raises(InvalidRequest) as caught:
        parse_change(json.dumps(given).encode(), RULES, NOW_MS).of(asked)
    assert [detail.field for detail in caught.value.details] == names
