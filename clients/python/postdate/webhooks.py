"""For targets: checks signatures of Standard Webhooks (https://www.standardwebhooks.com)."""

from __future__ import annotations

import hmac
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping

_TOLERANCE_S = 300
_SECONDS = re.compile(r"[0-9]{1,15}", re.ASCII)


class VerificationFailed(ValueError):
    """The request is not surely from somebody who knows the secret; the text says why."""


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secret: str | Iterable[str],
    *,
    now: float | None = None,
) -> None:
    """Raises VerificationFailed unless the request was signed with the secret within five minutes.

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
