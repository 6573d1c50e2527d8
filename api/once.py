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

_NAME = b"idempotency-key"
_KEY = re.compile(rb"[!-~]{1,255}")


def idempotency(scope: Scope, data: bytes) -> Idempotency | None:
    """The request's Idempotency-Key and a digest of what it asks for; None if it has no key.

    Raises InvalidRequest for a key that is none, or if there are several.
    """
    key = header(scope, _NAME)
    if key is None:
        return None
    if _KEY.fullmatch(key) is None:
        message = "It must have 1 to 255 visible ASCII characters."
        raise invalid([FieldError("Idempotency-Key", message)])
    if sum(name == _NAME for name, _ in scope["headers"]) > 1:
        raise invalid([FieldError("Idempotency-Key", "It may be given only once.")])
    asked = scope["path"].encode() + b"\0" + data
    return Idempotency(key.decode("ascii"), hashlib.sha256(asked).hexdigest())
