"""The note kept with an Idempotency-Key. Pure.

The scripts spell it so: a digest of the request (16 bytes), a verdict on each (1, none of
them 0), a 0, the first one's id (16), and a note. The first id leads to the others.
"""

from __future__ import annotations

import base64
import hashlib
from typing import NamedTuple

from scheduler import ids
from scheduler.errors import KeyReused
from scheduler.models import Idempotency

ONCE_KEPT_MS = 24 * 3_600_000

_DIGEST_BYTES, _ID_BYTES = 16, 16


class Made(NamedTuple):
    """The ids of the schedules, with a `Verdict` on each; the note of the call that stored
    them. `repeated`: that was an earlier call with the same key."""

    schedule_ids: list[str]
    verdicts: bytes = b""
    note: bytes = b""
    repeated: bool = False


def kept_with(once: Idempotency | None, first: str, note: bytes) -> tuple[str, bytes]:
    """The name of a once-key, and its value without the verdicts."""
    if once is None:
        return "", b""
    return once_name(once), asked(once) + ids.to_bytes(first) + note


def once_name(once: Idempotency) -> str:
    return base64.urlsafe_b64encode(_digest(once.key)).rstrip(b"=").decode()


def asked(once: Idempotency) -> bytes:
    return _digest(once.fingerprint)


def kept(value: bytes, once: Idempotency) -> Made:
    """The value of a once-key. Raises KeyReused if something else was asked with it."""
    if value[:_DIGEST_BYTES] != asked(once):
        raise KeyReused
    return noted(value[_DIGEST_BYTES:])


def noted(value: bytes) -> Made:
    """The same, but for the digest."""
    verdicts, _, rest = value.partition(b"\0")
    first = int.from_bytes(rest[:_ID_BYTES], "big")
    made = ids.schedule_ids_from(first, len(verdicts))
    return Made(made, verdicts, rest[_ID_BYTES:], repeated=True)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:_DIGEST_BYTES]
