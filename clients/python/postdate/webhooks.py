"""For targets: checks signatures of Standard Webhooks (https://www.standardwebhooks.com), and reads
callbacks."""

from __future__ import annotations

import hmac
import json
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from postdate.results import read

_TOLERANCE_S = 300
_SECONDS = re.compile(r"[0-9]{1,15}", re.ASCII)


class VerificationFailed(ValueError):
    """The request is not surely from somebody who knows the secret; the text says why."""


@dataclass(frozen=True, slots=True)
class ScheduleEnded:
    """The report of a schedule's end, by a callback: `status_code` is 0 without an answer, and
    `error_message` says why. Attempts to send it, and what `resend_callback` sends, have one
    `webhook_id`, by which the receiver drops repeats."""

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


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secret: str | Iterable[str],
    *,
    now: float | None = None,
) -> ScheduleEnded | None:
    """Raises VerificationFailed unless the request was signed with the secret within five minutes.
    Returns what a callback says; None of a schedule's own request, whose body it does not parse.

    `headers` are in any letter case, `body` is the raw bytes, neither parsed nor decoded. `secret`
    is `whsec_…`, or several of them, of which one is enough. `now` is in seconds since the epoch,
    for tests. A repeated request has the same `webhook-id`: the receiver drops it.
    """
    found = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, timestamp, signatures = (
            found[f"webhook-{name}"] for name in ("id", "timestamp", "signature")
        )
    except KeyError as error:
        raise VerificationFailed(f"There is no header {error.args[0]}") from None
    _check_moment(timestamp, time.time() if now is None else now)
    signed = b".".join([message_id.encode(), timestamp.encode(), body])
    keys = [secret] if isinstance(secret, str) else list(secret)
    expected = [_signature(key, signed) for key in keys]
    given = [
        value.encode()
        for version, _, value in (each.partition(",") for each in signatures.split())
        if version == "v1"
    ]
    # All of them, whichever fits: how long it takes tells nothing.
    fitting = [hmac.compare_digest(one, other) for one in expected for other in given]
    if not any(fitting):
        raise VerificationFailed("No signature fits")
    return _report(message_id, body) if message_id.startswith("cbk_") else None


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
    if abs(now_s - int(timestamp)) > _TOLERANCE_S:
        raise VerificationFailed("It was signed more than five minutes ago, or ahead")


def _signature(secret: str, signed: bytes) -> bytes:
    """Raises ValueError for a malformed secret, which is the receiver's own mistake."""
    try:
        key = b64decode(secret.strip().removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not key:
        raise ValueError("A signing secret looks like whsec_… with base64 after it")
    return b64encode(hmac.digest(key, signed, "sha256"))
