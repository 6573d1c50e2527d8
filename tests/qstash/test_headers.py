"""The headers of a publish: what each comes to, and the name of each that is wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from api.qstash.calls import QStashCall, Refused
from api.qstash.headers import Published, published
from api.reading import BodyTooLarge
from api.schema.rules import Rules
from api.service import RequestMetrics
from scheduler.callbacks import NO_URL, Callback
from scheduler.durations import DAY_MS
from scheduler.errors import InvalidRequest
from scheduler.lane_settings import LaneSettings
from scheduler.models import BodyKind, Request, RetryOn
from scheduler.qstash.carried import CallbackWay, opened
from scheduler.runtime.settings import Settings

NOW_MS, URL = 1_800_000_000_000, "https://example.com/hook?a=1&b=2"
TALLY = RequestMetrics()


def call() -> QStashCall:
    settings = Settings(qstash="on")
    service = SimpleNamespace(settings=settings, rules=Rules.of(settings), tally=TALLY)
    store = SimpleNamespace(clock=SimpleNamespace(now_ms=lambda: NOW_MS))
    scope = {"client": ("192.0.2.7", 4711), "headers": []}
    return QStashCall(*cast("Any", (service, store, "", "", scope, (), b"")))


def made(
    *lines: tuple[str, str], url: str = URL, body: bytes | None = None, queue: str = "", **own: str
) -> Published:
    """Each `a_b` is `Upstash-A-B`."""
    headers = [(f"upstash-{name.replace('_', '-')}", text) for name, text in own.items()]
    return published(call(), url, [*headers, *lines], body, queue=queue)


def request(*lines: tuple[str, str], body: bytes | None = None, **own: str) -> Request:
    return made(*lines, body=body, **own).request


def test_without_headers_it_is_as_qstash_has_it() -> None:
    found = made()
    assert (found.delay_ms, found.limits, found.once) == (None, None, None)
    wanted = found.request
    assert (wanted.trigger_at_ms, wanted.method, wanted.url) == (NOW_MS, "POST", URL)
    assert wanted.headers == {"user-agent": "Upstash-QStash"}
    assert (wanted.body, wanted.lane, wanted.callback, wanted.labels) == (None, None, None, ())
    assert (wanted.retries, wanted.retry_on, wanted.timeout_s) == (3, RetryOn.ANY, 30)
    assert wanted.retry_delays_ms == (12_183, 148_414, 1_808_043)
    carried = opened(wanted.door)
    assert carried is not None
    assert carried.caller_ip == "192.0.2.7"


@pytest.mark.parametrize(
    ("own", "fields"),
    [
        ({"method": "get"}, {"method": "GET"}),
        ({"delay": "10s"}, {"trigger_at_ms": NOW_MS + 10_000}),
        ({"delay": "1h30m"}, {"trigger_at_ms": NOW_MS + 5_400_000}),
        ({"delay": "7"}, {"trigger_at_ms": NOW_MS + 7000}),
        ({"not_before": "1800000005"}, {"trigger_at_ms": NOW_MS + 5000}),
        ({"not_before": "1700000000"}, {"trigger_at_ms": NOW_MS}),
        ({"not_before": "1800000005", "delay": "1h"}, {"trigger_at_ms": NOW_MS + 5000}),
        ({"retries": "0"}, {"retries": 0, "retry_delays_ms": None}),
        ({"retries": "1"}, {"retries": 1, "retry_delays_ms": (12_183,)}),
        ({"retries": "20"}, {"retries": 20}),
        (
            {"retries": "7"},
            {"retry_delays_ms": (12_183, 148_414, 1_808_043, 22_026_466, DAY_MS)},
        ),
        ({"retry_delay": "5000 * retried"}, {"retry_delays_ms": (1000, 5000, 10_000)}),
        ({"retry_delay": "5000", "retries": "0"}, {"retry_delays_ms": None}),
        ({"timeout": "5"}, {"timeout_s": 5}),
        ({"timeout": "30s"}, {"timeout_s": 30}),
        ({"label": "a, b"}, {"labels": ("a", "b")}),
        ({"label": ""}, {"labels": ()}),
        ({"queue_name": "mail"}, {"lane": "queue:mail"}),
        ({"flow_control_key": "mail"}, {"lane": "flow:mail"}),
        ({"telemetry_sdk": "", "telemetry_runtime": "node"}, {}),
        ({"schedule_id": "x"}, {}),
    ],
)
def test_a_header_comes_to_a_field(own: dict[str, str], fields: dict[str, Any]) -> None:
    wanted = request(**own)
    assert {name: getattr(wanted, name) for name in fields} == fields


TOO_LONG = "It must be whole seconds from 1s to 30s."


@pytest.mark.parametrize(
    ("own", "field", "message"),
    [
        ({"method": "BREW"}, "Upstash-Method", "one of"),
        ({"delay": "soon"}, "Upstash-Delay", "duration"),
        ({"delay": ""}, "Upstash-Delay", "duration"),
        ({"delay": "-5s"}, "Upstash-Delay", "duration"),
        ({"delay": "99999d"}, "Upstash-Delay", "at most 1,830 days"),
        ({"not_before": "tomorrow"}, "Upstash-Not-Before", "Unix time"),
        ({"not_before": "99999999999"}, "Upstash-Not-Before", "at most 1,830 days"),
        ({"not_before": "٣"}, "Upstash-Not-Before", "Unix time"),
        ({"retries": "21"}, "Upstash-Retries", "from 0 to 20"),
        ({"retries": "-1"}, "Upstash-Retries", "from 0 to 20"),
        ({"retries": "²"}, "Upstash-Retries", "from 0 to 20"),
        ({"retry_delay": "1 +"}, "Upstash-Retry-Delay", "Character 4"),
        ({"retry_delay": "1 +", "retries": "0"}, "Upstash-Retry-Delay", "Character 4"),
        ({"timeout": "31"}, "Upstash-Timeout", TOO_LONG),
        ({"timeout": "90s"}, "Upstash-Timeout", TOO_LONG),
        ({"timeout": "0"}, "Upstash-Timeout", TOO_LONG),
        ({"timeout": "1500ms"}, "Upstash-Timeout", TOO_LONG),
        ({"callback": "example.com"}, "Upstash-Callback", "absolute"),
        ({"callback": "https://10.0.0.1/"}, "Upstash-Callback", "not allowed"),
        ({"failure_callback": ""}, "Upstash-Failure-Callback", "absolute"),
        ({"callback_forward_host": "a"}, "Upstash-Callback-Host", "set by Postdate"),
        ({"callback_retries": "21"}, "Upstash-Callback-Retries", "from 0 to 20"),
        ({"callback_delay": "x"}, "Upstash-Callback-Delay", "duration"),
        ({"callback_timeout": "60"}, "Upstash-Callback-Timeout", TOO_LONG),
        ({"failure_callback_method": "x"}, "Upstash-Failure-Callback-Method", "one of"),
        ({"forward_host": "a"}, "Upstash-Forward-Host", "set by Postdate"),
        ({"forward_upstash_signature": "a"}, "Upstash-Forward-*", "set by Postdate"),
        ({"forward_": "a"}, "Upstash-Forward-", "not a valid header name"),
        ({"forward_a": "€"}, "Upstash-Forward-A", "Latin-1"),
        ({"forward_a": "x" * 17_000}, "Upstash-Forward-*", "16,384 bytes"),
        ({"label": ",".join("abcdefghi")}, "Upstash-Label", "at most 8"),
        ({"label": "x" * 65}, "Upstash-Label", "64"),
        ({"redact_fields": "all"}, "Upstash-Redact-Fields", "body, header"),
        ({"queue_name": "a b"}, "Upstash-Queue-Name", "letters"),
        ({"flow_control_key": "a b"}, "Upstash-Flow-Control-Key", "letters"),
        (
            {"flow_control_key": "a", "flow_control_value": "rate=x"},
            "Upstash-Flow-Control-Value",
            "rate: ",
        ),
        ({"flow_control_key": "a", "queue_name": "b"}, "Upstash-Flow-Control-Key", "one lane"),
        ({"content_based_deduplication": "yes"}, "Upstash-Content-Based-Deduplication", "true"),
        ({"deduplication_id": "x" * 1025}, "Upstash-Deduplication-Id", "1,024"),
        ({"callback": URL, "callback_x": "y" * 600}, "Upstash-*", "512"),
        ({"cron": "* * * * *"}, "Upstash-Cron", "/v2/schedules"),
        ({"label": "é"}, "Upstash-Label", "ASCII"),
    ],
)
def test_a_bad_header_is_named(own: dict[str, str], field: str, message: str) -> None:
    if any(name.startswith(("callback_", "failure_callback_")) for name in own):
        own = {"callback": URL, "failure_callback": URL} | own
    with pytest.raises(InvalidRequest, match=message) as refused:
        made(**own)
    assert [each.field for each in refused.value.details] == [field]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://", "host"),
        ("ftp://example.com", "absolute"),
        ("https://a:b@example.com", "user name"),
        ("https://169.254.169.254/", "not allowed"),
        ("https://localhost:22/", "[Pp]ort"),
    ],
)
def test_a_bad_destination_is_named(url: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as refused:
        made(url=url)
    assert refused.value.details[0].field == "destination"


@pytest.mark.parametrize(
    ("lines", "sent"),
    [
        ([("content-type", "text/x")], {"content-type": "text/x"}),
        (
            [("Upstash-Forward-Content-Type", "text/y"), ("Content-Type", "text/x")],
            {"content-type": "text/y"},
        ),
        ([("upstash-forward-x-a", "1"), ("Upstash-Forward-X-A", "2")], {"x-a": "1, 2"}),
        ([("accept", "*/*"), ("x-a", "1")], {}),
        ([("upstash-forward-user-agent", "mine")], {"user-agent": "mine"}),
    ],
)
def test_forwarded_headers_reach_the_target(
    lines: list[tuple[str, str]], sent: dict[str, str]
) -> None:
    assert request(*lines).headers == {"user-agent": "Upstash-QStash"} | sent


JSON = ("content-type", "application/json")


@pytest.mark.parametrize(
    ("lines", "body", "kind"),
    [
        ([JSON], b'{"a": 1}', BodyKind.JSON),
        ([JSON], b"{}", BodyKind.JSON),
        ([JSON], b"[1]", BodyKind.TEXT),
        ([JSON], b'{"a": }', BodyKind.TEXT),
        ([JSON], b'{"a":' * 2000, BodyKind.TEXT),
        ([JSON], b'{"a": "\xff"}', BodyKind.BINARY),
        ([], b'{"a": 1}', BodyKind.TEXT),
        ([], "é".encode(), BodyKind.TEXT),
        ([], b"\xff\x00", BodyKind.BINARY),
    ],
)
def test_a_body_is_sent_as_it_came(
    lines: list[tuple[str, str]], body: bytes, kind: BodyKind
) -> None:
    wanted = request(*lines, body=body)
    assert (wanted.body, wanted.body_kind) == (body, kind)


def test_a_body_has_the_bounds_of_native_ones() -> None:
    most = 192 * 1024
    assert request(body=b"x" * most).body == b"x" * most
    with pytest.raises(BodyTooLarge):
        request(body=b"x" * (most + 1))
    assert request(body=b"").body is None


@pytest.mark.parametrize(
    ("own", "callback"),
    [
        ({"callback": URL}, Callback(URL, with_response=True)),
        ({"failure_callback": URL}, Callback(NO_URL, failure_url=URL, with_response=True)),
        (
            {"callback": URL, "failure_callback": URL + "3"},
            Callback(URL, failure_url=URL + "3", with_response=True),
        ),
    ],
)
def test_callbacks_get_the_response(own: dict[str, str], callback: Callback) -> None:
    assert request(**own).callback == callback


def test_the_way_of_a_callback_is_carried() -> None:
    wanted = request(
        callback=URL,
        callback_method="put",
        callback_retries="2",
        callback_delay="3s",
        callback_timeout="4",
        callback_forward_x_a="1",
        callback_x_b="2",
        callback_retry_delay="1000",
        callback_forward_retries="5",
        failure_callback_x_c="not asked for",
    )
    carried = opened(wanted.door)
    assert carried is not None
    assert carried.callback == CallbackWay(
        "PUT", 2, 3000, 4, {"x-a": "1", "x-b": "2", "retries": "5"}
    )
    assert carried.failure_callback is None


def test_what_is_shown_again_is_carried() -> None:
    found = made(
        retry_delay="5000",
        flow_control_key="k",
        flow_control_value="parallelism=2, rate=10, period=1m",
        redact_fields="body,header[Authorization]",
    )
    carried = opened(found.request.door)
    assert carried is not None
    assert (carried.retry_delay, carried.redacted) == ("5000", "body,header[Authorization]")
    assert carried.flow_value == "parallelism=2, rate=10, period=1m"
    assert found.limits is not None
    limits = found.limits(LaneSettings())
    assert (limits.parallelism, limits.rate, limits.per_ms) == (2, 10, 60_000)


def test_a_queue_runs_one_at_a_time_unless_it_says_otherwise() -> None:
    change = made(queue="mail").limits
    assert change is not None
    assert change(LaneSettings()).parallelism == 1
    assert change(LaneSettings(parallelism=5)).parallelism == 5
    assert change(LaneSettings(rate=5, per_ms=1000)).parallelism is None


def test_messages_are_told_apart() -> None:
    named = made(deduplication_id="order-1").once
    assert named == made(deduplication_id="order-1", body=b"other").once
    assert named is not None
    assert (named.kept_ms, " " in named.key) == (600_000, True)
    content = made(content_based_deduplication="True", body=b"a")
    assert content.once == made(content_based_deduplication="true", body=b"a").once
    others = [
        made(content_based_deduplication="true", body=b"b"),
        made(content_based_deduplication="true", body=b"a", url=URL + "3"),
        made(content_based_deduplication="true", body=b"a", queue="q"),
        made(content_based_deduplication="true", body=b"a", label="x"),
        made(("upstash-forward-a", "b"), content_based_deduplication="true", body=b"a"),
    ]
    keys = {each.once.key for each in (content, *others) if each.once}
    assert len(keys) == 1 + len(others)
    assert made(content_based_deduplication="false").once is None


def test_unknown_headers_are_counted_by_name() -> None:
    TALLY.ignored.clear()
    made(brand_new="1", telemetry_sdk="2")
    made(brand_new="1")
    assert TALLY.ignored == {"brand-new": 2}
    for number in range(200):
        made(**{f"x{number}": "1"})
    assert len(TALLY.ignored) == 65
    assert TALLY.ignored["other"] == 137


def test_workflows_are_not_offered() -> None:
    with pytest.raises(Refused, match="Workflows are not offered"):
        made(workflow_init="true")
