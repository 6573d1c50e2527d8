"""Idempotency-Key: a create that is repeated under the same key is answered, not done again."""

from __future__ import annotations

import hashlib
import re

from litestar.types import Scope

from api.findings import invalid
from api.reading import header
from scheduler.errors import FieldError
from scheduler.models import Idempotency

# What an answer carries that was given before.
REPLAYED = {"idempotency-replayed": "true"}

_KEY = re.compile(rb"[!-~]{1,255}")
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_CHARACTERS = slice(4, 14)


def idempotency(scope: Scope, data: bytes) -> Idempotency | None:
    """The request's Idempotency-Key and a digest of what it asks for; None if it has no key.

    Raises InvalidRequest for a key that is none.
    """
    key = header(scope, b"idempotency-key")
    if key is None:
        return None
    if _KEY.fullmatch(key) is None:
        message = "It must have 1 to 255 visible ASCII characters."
        raise invalid([FieldError("Idempotency-Key", message)])
    asked = scope["path"].encode() + b"\0" + data
    return Idempotency(key.decode("ascii"), hashlib.sha256(asked).hexdigest())


def made_at_ms(schedule_id: str) -> int:
    """When an id was made: a UUIDv7 begins with that moment, in ms (48 bits after two zeros)."""
    moment = 0
    for character in schedule_id[_TIME_CHARACTERS]:
        moment = moment * 32 + _ALPHABET.index(character)
    return moment
