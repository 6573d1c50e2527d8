"""The fields of a request in a form, to and from those of the API. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from api.dashboard.requests.text import readable
from scheduler.callbacks import NO_URL, Callback, CallbackOn
from scheduler.masks import masked, masked_url
from scheduler.models import BodyKind, Request

# The names of the API's fields in a form.
LABELS = {
    "targetUrl": "Where to",
    "targetMethod": "Method",
    "targetHeaders": "Headers",
    "targetBody": "Body",
    "targetBodyText": "Body",
    "timeout": "Timeout",
    "reference": "Reference",
    "lane": "Lane",
    "callbackUrl": "Callback to",
    "callbackOn": "It reports",
}


def labelled(field: str, labels: dict[str, str]) -> str:
    """`Headers, Host` of `targetHeaders.Host`."""
    name, _, part = field.partition(".")
    return labels.get(name, name) + (f", {part}" if part else "")


def request_fields(form: Mapping[str, str]) -> dict[str, Any]:
    """The fields of the API that a form gives; an empty one is left out."""
    fields: dict[str, Any] = {"targetUrl": form.get("url", "").strip()}
    if form.get("method"):
        fields["targetMethod"] = form["method"]
    if timeout := form.get("timeout", "").strip():
        fields["timeout"] = f"{timeout}s" if timeout.isdecimal() else timeout
    for name in ("reference", "lane"):
        if text := form.get(name, "").strip():
            fields[name] = text
    fields |= _callback(form)
    if headers := headers_of(form.get("headers", "")):
        fields["targetHeaders"] = headers
    if body := form.get("body", "").strip():
        fields |= _body(body)
    return fields


def request_given(asked: Request) -> dict[str, str]:
    """The form of a request; secrets are masked, and a binary body is left out."""
    lines = [f"{name}: {value}" for name, value in masked(asked.headers).items()]
    binary = asked.body_kind is BodyKind.BINARY
    return {
        "url": masked_url(asked.url),
        "method": asked.method,
        "timeout": str(asked.timeout_s),
        "reference": asked.reference or "",
        "lane": asked.lane or "",
        **_callback_given(asked.callback),
        "headers": "\n".join(lines),
        "body": "" if binary else readable(asked) or "",
    }


def headers_of(text: str) -> dict[str, str]:
    """Of lines such as `X-Order: 1`; one without a colon is a name without a value."""
    pairs = (line.partition(":") for line in text.splitlines() if line.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _callback(form: Mapping[str, str]) -> dict[str, str | None]:
    """Without a URL that of the account is meant, if it has one."""
    if form.get("callbackOn") == "none":
        return {"callbackUrl": None}
    given = {name: form.get(name, "").strip() for name in ("callbackUrl", "callbackOn")}
    return {name: value for name, value in given.items() if value}


def _callback_given(wish: Callback | None) -> dict[str, str]:
    """Its fields, without a URL that may have secrets."""
    if wish is None:
        return {}
    if wish.url == NO_URL:
        return {"callbackOn": "none"}
    shown = wish.url if wish.url and masked_url(wish.url) == wish.url else ""
    return {"callbackUrl": shown, "callbackOn": "failed" if wish.on is CallbackOn.FAILED else ""}


def _body(text: str) -> dict[str, Any]:
    """A JSON object goes as it is; anything else as text."""
    try:
        if isinstance(msgspec.json.decode(text), dict):
            return {"targetBody": msgspec.Raw(text.encode())}
    except ValueError:
        pass
    return {"targetBodyText": text}
