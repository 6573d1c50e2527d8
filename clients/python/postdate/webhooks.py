"""For targets: checks signatures of Standard Webhooks (https://www.standardwebhooks.com), and reads
callbacks."""

from __future__ import annotations

import hmac
import json
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from postdate.arguments import BytesLike, kind_of, octets, real, text
from postdate.results import read

_TOLERANCE_S = 300
# Ours have 30, 10 and, during a rotation, 143 characters.
_LONGEST_HEADER = 4096
_NAMES = ("webhook-id", "webhook-timestamp", "webhook-signature")
_SECONDS = re.compile(r"[0-9]{1,15}", re.ASCII)


class VerificationFailed(ValueError):
    """The request is not surely from somebody who knows the secret; the text says why."""


@dataclass(frozen=True, slots=True)
class ScheduleEnded:
    """The report of a schedule's end, by a callback: `status_code` is 0 without an answer, and
    `error_message` says why. Attempts to send it, and what `resend_callback` sends, have one
    `webhook_id`, by which the receiver drops repeats. With `callback_include` it has the target's
    last answer: `response_headers` with the values of each by its name in small letters, and
    `response_content`; `response_cut`: it had more. `response_dropped`: one came, and is not kept.
    """

    webhook_id: str
    type: Literal["schedule.completed", "schedule.failed"]
    timestamp: datetime
    schedule_id: str
    invocation_id: str
    target_url: str
    target_method: str
    trigger_at: datetime
    executed_at: datetime
    status: Literal["completed", "failed"]
    status_code: int
    response_time_ms: int
    error_message: str
    attempts: int
    recurring_id: str | None = None
    lane: str | None = None
    reference: str | None = None
    response_headers: Mapping[str, Sequence[str]] | None = None
    response_body: str | None = None
    response_body_encoding: Literal["utf-8", "base64"] | None = None
    response_cut: bool = False
    response_dropped: bool = False

    @property
    def response_content(self) -> bytes | None:
        """The bytes of `response_body`; None without one. Raises ValueError for bad base64."""
        if self.response_body is None:
            return None
        if self.response_body_encoding == "base64":
            return b64decode(self.response_body, validate=True)
        return self.response_body.encode(errors="surrogatepass")


def verify(
    headers: Mapping[str, str] | Mapping[bytes, bytes],
    body: BytesLike,
    secret: str | Iterable[str],
    *,
    now: float | None = None,
) -> ScheduleEnded | None:
    """Raises VerificationFailed unless the request was signed with the secret within five minutes.
    Returns what a callback says; None of a schedule's own request, whose body it does not parse.

    `headers` are in any letter case, also as bytes; `body` is the raw bytes, neither parsed nor
    decoded. `secret` is `whsec_…`, or several of them, of which one is enough. `now` is in seconds
    since the epoch, for tests. A repeated request has the same `webhook-id`: the receiver drops it.

    Raises TypeError for an argument of another type, and ValueError for a malformed secret:
    mistakes of the caller, whatever was sent.
    """
    content, keys = octets("body", body), _keys(secret)
    now_s = time.time() if now is None else real("now", now)
    found = _ours(headers)
    message_id, timestamp, signatures = (_header(found, name) for name in _NAMES)
    _check_moment(timestamp, now_s)
    signed = b".".join([_sent(message_id), timestamp.encode(), content])
    expected = [b64encode(hmac.digest(key, signed, "sha256")) for key in keys]
    given = [
        _sent(value)
        for version, _, value in (each.partition(",") for each in signatures.split())
        if version == "v1"
    ]
    # All of them, whichever fits: how long it takes tells nothing.
    fitting = [hmac.compare_digest(one, other) for one in expected for other in given]
    if not any(fitting):
        raise VerificationFailed("No signature fits")
    return _report(message_id, content) if message_id.startswith("cbk_") else None


def _ours(headers: object) -> dict[str, list[str]]:
    """The values of our headers, by their names in lower case."""
    try:
        items = headers.items()  # type: ignore[attr-defined]
    except AttributeError:
        raise TypeError(f"headers must be a mapping, not {kind_of(headers)}") from None
    found: dict[str, list[str]] = {}
    for key, value in items:
        name = _decoded("A name in headers", key).lower()
        if name in _NAMES and value is not None:  # None is that of a missing one
            values = value if isinstance(value, list | tuple) else [value]
            known = found.setdefault(name, [])
            known += [_decoded(f"headers[{key!r}]", each) for each in values]
    return found


def _decoded(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("latin-1")
    raise TypeError(f"{name} must be a str or bytes, not {kind_of(value)}")


def _sent(value: str) -> bytes:
    """Of any text, and no two have the same: half a surrogate pair stands for a byte."""
    return value.encode(errors="surrogatepass")


def _header(found: Mapping[str, list[str]], name: str) -> str:
    """Refuses two headers of one name: the receiver might use the one that was not checked."""
    values = found.get(name, [])
    # Servers join headers of one name by ", ", which none of ours contains.
    if len(values) != 1 or ", " in values[0]:
        many = "more than one" if values else "no"
        raise VerificationFailed(f"There is {many} header {name}")
    [value] = values
    if len(value) > _LONGEST_HEADER:
        raise VerificationFailed(f"The header {name} is too long")
    return value


def _report(webhook_id: str, body: bytes) -> ScheduleEnded:
    try:
        said = json.loads(body)
        of_all = {name: said[name] for name in ("type", "timestamp")}
        return read(ScheduleEnded, {**said["data"], **of_all, "webhookId": webhook_id})
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise VerificationFailed("It is signed, but is no report of a schedule's end") from error


def _check_moment(timestamp: str, now_s: float) -> None:
    if _SECONDS.fullmatch(timestamp) is None:
        raise VerificationFailed("The header webhook-timestamp is no number of seconds")
    if not abs(now_s - int(timestamp)) <= _TOLERANCE_S:  # also if `now` is no number
        raise VerificationFailed("It was signed more than five minutes ago, or ahead")


def _keys(secret: object) -> list[bytes]:
    """Raises TypeError or ValueError, which are the receiver's own mistakes."""
    if isinstance(secret, str):
        return [_key("secret", secret)]
    if isinstance(secret, bytes | bytearray | memoryview) or not isinstance(secret, Iterable):
        raise TypeError(f"secret must be a str or several, not {kind_of(secret)}")
    return [_key(f"secret[{number}]", each) for number, each in enumerate(secret)]


def _key(name: str, secret: object) -> bytes:
    try:
        key = b64decode(text(name, secret).strip().removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not key:
        raise ValueError(f"{name}: a signing secret looks like whsec_… with base64 after it")
    return key
