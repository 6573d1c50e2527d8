"""`verify`: what a target asks of a request before it believes it."""

from __future__ import annotations

import contextlib
import hmac
import json
import random
import time
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from postdate import ScheduleEnded, VerificationFailed, verify
from tests.support.processes import ROOT

# The tests of the TypeScript client read the same table.
SHARED = json.loads((ROOT / "clients/webhooks.json").read_text())
SECRET, OTHER, NOW_S = SHARED["secret"], SHARED["other"], SHARED["now"]
BODIES = [each.encode() for each in SHARED["bodies"]]
BODY = BODIES[0]


def signed(
    body: bytes = BODY, secret: str = SECRET, at_s: int = NOW_S, webhook_id: str = "inv_1"
) -> dict[str, str]:
    """Headers as the package of the standard makes them."""
    moment = datetime.fromtimestamp(at_s, UTC)
    signature = Webhook(secret).sign(webhook_id, moment, body.decode())
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": signature,
    }


def repeated(value: Any) -> Any:
    """The table has a long text as a shorter one and a number of repeats."""
    if not isinstance(value, dict):
        return value
    [(text, times)] = value.items()
    return text * times


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("name", [str.lower, str.upper, str.title])
def test_what_was_signed_is_believed(body: bytes, name: Callable[[str], str]) -> None:
    headers = {name(key): value for key, value in signed(body).items()}
    verify({"Host": "x", **headers}, body, SECRET, now=NOW_S)
    verify(headers, body, SECRET.removeprefix("whsec_"), now=NOW_S + 300)


def test_now_is_now_unless_it_is_said() -> None:
    verify(signed(at_s=int(time.time())), BODY, SECRET)
    for given in ({}, {"now": float("nan")}):
        with pytest.raises(VerificationFailed, match="five minutes"):
            verify(signed(at_s=NOW_S - 10**7), BODY, SECRET, **given)


def signatures(text: str) -> str:
    good = signed()["webhook-signature"].removeprefix("v1,")
    return text.replace("{good}", good).replace("{bad}", b64encode(b"x" * 32).decode())


@pytest.mark.parametrize(("name", "value", "says"), SHARED["refused"])
def test_what_was_not_signed_so_is_not_believed(name: str, value: Any, says: str) -> None:
    given = repeated(value)
    given = signatures(given) if isinstance(given, str) else given
    with pytest.raises(VerificationFailed, match=f"^{says}$"):
        verify({**signed(), name: given}, BODY, SECRET, now=NOW_S)


@pytest.mark.parametrize("value", SHARED["accepted"])
def test_one_signature_of_several_is_enough(value: str) -> None:
    verify({**signed(), "webhook-signature": signatures(value)}, BODY, SECRET, now=NOW_S)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_are_as_good_as_text(kind: Callable[[bytes], Any]) -> None:
    headers = {name.encode(): value.encode() for name, value in signed().items()}
    verify(headers, kind(BODY), SECRET, now=NOW_S)
    verify({name: [value] for name, value in signed().items()}, BODY, SECRET, now=NOW_S)  # type: ignore[arg-type]


# Of what a stranger may send as the value of a header, however it is passed on.
ODD: list[Any] = [*map(repeated, SHARED["odd"]), b"", b"v1,\xe9", ("a", b"b")]


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_whatever_a_stranger_sends_is_not_believed(name: str, value: Any) -> None:
    good: dict[Any, Any] = {**signed()}
    without = {each: good[each] for each in good if each != name}
    once_more = {name.title(): value}
    sent: list[dict[Any, Any]] = [without | once_more, good | once_more]
    sent += [{each.encode(): text for each, text in headers.items()} for headers in sent]
    if value in (None, []):
        sent = [without, *sent[::2]]  # with none of it, a good one is the only one
    for headers in sent:
        with pytest.raises(VerificationFailed):
            verify(headers, BODY, SECRET, now=NOW_S)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_of_two_headers_none_is_believed(name: str) -> None:
    """The receiver may use the other one: as the id by which it drops repeats."""
    for value in (signed()[name], "inv_0"):
        for headers in ({name.title(): value, **signed()}, {**signed(), name.title(): value}):
            with pytest.raises(VerificationFailed, match=f"more than one header {name}"):
                verify(headers, BODY, SECRET, now=NOW_S)


def test_chance_finds_no_other_error() -> None:
    luck = random.Random(37)
    good = signed()
    pieces = ["", "v1,", "v1a,", ",", " ", "\n", "\udcff", "\xff", "9" * 20, *good.values()]
    for _ in range(3000):
        headers: dict[Any, Any] = {}
        for name in luck.sample([*good, *map(str.upper, good), "host"], luck.randrange(7)):
            text = "".join(luck.choices(pieces, k=luck.randrange(4)))
            value: Any = text
            if luck.random() < 0.2:
                value = text.encode("utf-8", "surrogateescape")
            headers[name] = [value] * luck.randrange(3) if luck.random() < 0.2 else value
        body = luck.choice([BODY, b"", luck.randbytes(9)])
        with contextlib.suppress(VerificationFailed):
            verify(headers, body, SECRET, now=NOW_S)
            kept = {name.lower(): value for name, value in headers.items()}
            assert (body, {name: kept[name] for name in good}) == (BODY, good)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"headers": None}, "headers must be a mapping, not None"),
        ({"headers": [("webhook-id", "inv_1")]}, "headers must be a mapping, not list"),
        ({"headers": {1: "a"}}, "A name in headers must be a str or bytes, not int"),
        (
            {"headers": {"Webhook-Id": 1}},
            r"headers\['Webhook-Id'\] must be a str or bytes, not int",
        ),
        ({"body": "text"}, "body must be bytes-like, not str"),
        ({"body": {"n": 1}}, "body must be bytes-like, not dict"),
        ({"body": None}, "body must be bytes-like, not None"),
        ({"secret": b"whsec_"}, "secret must be a str or several, not bytes"),
        ({"secret": None}, "secret must be a str or several, not None"),
        ({"secret": [SECRET, None]}, r"secret\[1\] must be a str, not None"),
        ({"now": "soon"}, "now must be a number, not str"),
    ],
)
@pytest.mark.parametrize("headers", [signed(), {}])
def test_a_wrong_argument_is_named_whatever_was_sent(
    headers: dict[str, str], given: dict[str, Any], says: str
) -> None:
    arguments: dict[str, Any] = {"headers": headers, "body": BODY, "secret": SECRET}
    with pytest.raises(TypeError, match=f"^{says}"):
        verify(**arguments | given)


def test_during_a_rotation_one_that_fits_is_enough() -> None:
    new = signed()
    verify(new, BODY, [OTHER, SECRET], now=NOW_S)
    for secrets in (OTHER, [OTHER], []):
        with pytest.raises(VerificationFailed):
            verify(new, BODY, secrets, now=NOW_S)


@pytest.mark.parametrize("secret", ["", "whsec_!", "pd_00_key"])
def test_what_is_no_secret_is_the_receivers_own_mistake(secret: Any) -> None:
    with pytest.raises(ValueError, match="looks like whsec_") as caught:
        verify(signed(), BODY, secret, now=NOW_S)
    assert not isinstance(caught.value, VerificationFailed)


ENDED_AT = datetime(2026, 11, 23, 12, tzinfo=UTC)
REPORT = SHARED["report"]
DATA = REPORT["data"]


def test_a_callback_is_read_and_a_schedules_own_request_is_not() -> None:
    body = json.dumps(REPORT | {"data": DATA | {"lane": "a", "later": 1}, "version": 2}).encode()
    assert verify(signed(body), body, SECRET, now=NOW_S) is None
    assert verify(signed(body, webhook_id="cbk_1"), body, SECRET, now=NOW_S) == ScheduleEnded(
        "cbk_1", "schedule.failed", ENDED_AT, "sch_1", "inv_1", "https://example.com/hook", "POST",
        ENDED_AT, ENDED_AT, "failed", 503, 41, "Service Unavailable", 6, lane="a",
    )  # fmt: skip


@pytest.mark.parametrize(("fields", "content"), SHARED["answers"])
def test_a_report_has_the_targets_answer(fields: dict[str, Any], content: str | None) -> None:
    body = json.dumps(REPORT | {"data": DATA | fields}).encode()
    ended = verify(signed(body, webhook_id="cbk_1"), body, SECRET, now=NOW_S)
    assert ended is not None
    assert ended.response_content == (None if content is None else bytes.fromhex(content))
    assert ended.response_headers == fields.get("responseHeaders")
    assert ended.response_cut == fields.get("responseCut", False)
    assert ended.response_dropped == fields.get("responseDropped", False)


NO_REPORTS = [
    *(repeated(each).encode() for each in SHARED["noReports"]),
    b"\xff",
    json.dumps({**REPORT, "data": {"lane": "a"}}).encode(),
]


@pytest.mark.parametrize("body", NO_REPORTS, ids=lambda body: repr(body[:20]))
def test_a_signed_body_may_be_anything_and_is_a_report_only_if_it_reads_as_one(body: bytes) -> None:
    for webhook_id in ("cbk_1", "inv_1"):
        content = b".".join([webhook_id.encode(), b"%d" % NOW_S, body])
        signature = b64encode(hmac.digest(b"s" * 32, content, "sha256")).decode()
        headers = {"webhook-id": webhook_id, "webhook-timestamp": str(NOW_S)}
        headers["webhook-signature"] = f"v1,{signature}"
        if webhook_id == "inv_1":
            assert verify(headers, body, SECRET, now=NOW_S) is None
        else:
            with pytest.raises(VerificationFailed, match="no report"):
                verify(headers, body, SECRET, now=NOW_S)


def test_a_forged_callback_is_not_believed() -> None:
    body = json.dumps(REPORT).encode()
    for forged in (
        signed(body, OTHER, webhook_id="cbk_1"),
        signed(b"{}", webhook_id="cbk_1"),
        signed(body) | {"webhook-id": "cbk_1"},
        signed(body, webhook_id="cbk_1") | {"webhook-signature": "v1,"},
    ):
        with pytest.raises(VerificationFailed, match="No signature fits"):
            verify(forged, body, SECRET, now=NOW_S)
