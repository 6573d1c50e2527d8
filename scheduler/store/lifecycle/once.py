"""What is kept with an Idempotency-Key: a digest of what was asked for, what was made, a note.

Pure.
The scripts spell it so: the digest (16 bytes), how many were made (2), the first one's id (16), and
the note. The first one tells the others.
"""

from __future__ import annotations

import base64
import hashlib
from typing import NamedTuple

from scheduler import ids
from scheduler.models import Idempotency

ONCE_KEPT_MS = 24 * 3_600_000
DIGEST_BYTES, COUNT_BYTES = 16, 2
NO_SCHEDULE = ids.from_bytes(bytes(16))

_ID_BYTES = 16


class Created(NamedTuple):
    """The ids of what is stored, in order: all that was asked for, or the first ones if the
    credits did not reach. `replayed`: they were stored by an earlier call with the same key.
    `note` is what came with the call that stored them."""

    schedule_ids: list[str]
    replayed: bool = False
    note: bytes = b""


def kept_with(once: Idempotency | None, first: str) -> tuple[str, bytes]:
    """The name of a once-key, and what is kept with it but for the count."""
    if once is None:
        return "", b""
    return once_name(once), asked(once) + ids.to_bytes(first) + once.note


def once_name(once: Idempotency) -> str:
    return base64.urlsafe_b64encode(_digest(once.key)).rstrip(b"=").decode()


def asked(once: Idempotency) -> bytes:
    """The digest of what was asked for."""
    return _digest(once.fingerprint)


def noted(kept: bytes) -> Created:
    """What was made, by what is kept behind the digest."""
    count, first = int.from_bytes(kept[:COUNT_BYTES], "big"), kept[COUNT_BYTES:][:_ID_BYTES]
    made = ids.schedule_ids_from(int.from_bytes(first, "big"), count)
    return Created(made, replayed=True, note=kept[COUNT_BYTES + _ID_BYTES :])


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:DIGEST_BYTES]
