"""For targets: is a request one of ours? As Standard Webhooks has it
(https://www.standardwebhooks.com)."""

from __future__ import annotations

import hmac
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping

_TOLERANCE_S = 300
_SECONDS = re.compile(r"[0-9]{1,15}", re.ASCII)


class VerificationFailed(ValueError):
    """The request is not, or not for certain, from who knows the secret; the text says why."""


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secret: str | Iterable[str],
    *,
    now: float | None = None,
) -> None:
    """Raises VerificationFailed unless a request was signed with the secret, and just now.

    `headers` are those that came, in any letter case, and `body` the very bytes: neither parsed and
    written again nor decoded. `secret` is what `whsec_…` says, or several such, of which one is
    enough. `now` is the moment in seconds since the epoch, if not this one; five minutes more or
    less are no matter. What is the same request again has the same `webhook-id`: dropping
    repeats is the receiver's to do.
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
    """Raises ValueError for what is no secret, which is the receiver's own mistake."""
    try:
        key = b64decode(secret.strip().removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not key:
        raise ValueError("A signing secret looks like whsec_… with base64 after it")
    return b64encode(hmac.digest(key, signed, "sha256"))
