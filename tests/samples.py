"""Values of each field of a schedule, and requests that have them."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

from api.schema.payload import parse_request
from api.schema.rules import Rules
from scheduler import schema
from scheduler.models import Request
from scheduler.runtime.settings import Settings
from scheduler.times import format_iso8601

URL = "https://example.com/hook"
# Values that may be lost on the way. The time is chosen anew.
_ODD: dict[str, list[Any]] = {
    "targetUrl": [URL, f"{URL}?token=s3cret&a=1", f"{URL}?q=%22%C3%A9"],
    "targetMethod": ["PUT"],
    "targetHeaders": [
        {"Authorization": "Bearer s3cret", "X-Order": "1"},
        {"X-Odd": "\xa0a: b\xa0", "X-None": ""},
    ],
    "targetBody": [{"n": 1.5}, {}, {"long": "x" * 50_000}],
    "targetBodyText": [
        '{"n": 1}',
        '{"n": 1,}',
        "\n a\n\n",
        " ",
        "",
        "a\r\nb\rc",
        "a\0b",
        "</textarea><b>&amp;",
        "x" * 50_000,
    ],
    "targetBodyBase64": [
        b64encode(bytes(range(256))).decode(),
        "",
        b64encode(b"x" * 99_000).decode(),
    ],
    "delivery": ["at-most-once"],
    "expiresAt": ["10m"],
    "retryDelays": [["1s", "1m30s", "7d"]],
    "callbackUrl": ["https://example.com/ended?token=s3cret", None],
    "callbackOn": ["failed"],
    "failureCallbackUrl": ["https://example.com/failed?token=s3cret"],
    "callbackInclude": ["response"],
    "lane": ["a", "0", "Tenant-7.eu:x_y", "z" * 64],
    "reference": [",order-17,", "!", "a*b", "~" * 128],
}
# Of other fields the example.
SAMPLES = {
    row.name: _ODD.get(row.name, list(row.examples[:1]))
    for row in schema.FIELDS
    if row.name not in ("triggerAt", "delay")
}
CASES = [(name, value) for name, values in SAMPLES.items() for value in values]


def payload_of(name: str, value: Any, now_ms: int) -> dict[str, Any]:
    """With this field besides those that it needs."""
    fields = {"targetUrl": URL, "triggerAt": format_iso8601(now_ms - 1000), "retries": 0}
    if name == "retryDelays":
        fields["retries"] = 1
    if name == "callbackOn":
        fields["callbackUrl"] = URL
    return fields | {name: format_iso8601(now_ms + 600_000) if name == "expiresAt" else value}


def request_of(name: str, value: Any, now_ms: int) -> Request:
    """The request of such a payload, which is due already."""
    data = json.dumps(payload_of(name, value, now_ms)).encode()
    return parse_request(data, Rules.of(Settings()), now_ms)
