"""Encryption of stored data, if the operator has given a key for it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

from scheduler.errors import Unreadable

# Nothing that is stored in clear begins with this byte: msgpack does not use it.
SEALED = b"\xc1"
_ID_BYTES = 4
_NONCE_BYTES = 12
_HEAD_BYTES = len(SEALED) + _ID_BYTES + _NONCE_BYTES
# Before a key's id: a field of the store's metadata.
NOTE = "key:"


class Secrecy:
    """Seals by the first of its keys, opens by any. Without keys all is stored in clear. AES-256-
    GCM-SIV, so that a key never wears out: a nonce that came twice would show only that two texts
    are the same. `has_sealed`: whether something was sealed here; `is_noted`: whether the store has
    the note that something may be sealed with its first key."""

    def __init__(self, secret_keys: Sequence[bytes] = ()) -> None:
        self._ciphers: dict[bytes, Any] = {}
        if secret_keys:
            # Slow to import, and not needed without a key.
            from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

            self._ciphers = {
                hashlib.sha256(b"postdate key " + key).digest()[:_ID_BYTES]: AESGCMSIV(key)
                for key in secret_keys
            }
        self._first = next(iter(self._ciphers), None)
        self.has_sealed = False
        self.is_noted = False

    @property
    def key_ids(self) -> list[str]:
        """Public names of the keys, in their order."""
        return [each.hex() for each in self._ciphers]

    @property
    def head(self) -> bytes:
        """How sealed data begins from now on; empty without a key."""
        return b"" if self._first is None else SEALED + self._first

    @staticmethod
    def key_id_of(stored: bytes) -> str:
        """Which key sealed it; empty if it lies in clear."""
        head = stored[len(SEALED) : len(SEALED) + _ID_BYTES]
        return head.hex() if stored.startswith(SEALED) else ""

    def seal(self, text: bytes) -> bytes:
        """33 bytes longer than the text; without a key the text itself."""
        if self._first is None:
            return text
        self.has_sealed = True
        nonce = os.urandom(_NONCE_BYTES)
        sealed: bytes = self._ciphers[self._first].encrypt(nonce, text, None)
        return b"%b%b%b%b" % (SEALED, self._first, nonce, sealed)

    def open(self, stored: bytes) -> bytes:
        """The opened bytes, or bytes stored in clear. Raises Unreadable."""
        if not stored.startswith(SEALED):
            return stored
        key_id = stored[len(SEALED) : len(SEALED) + _ID_BYTES]
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise Unreadable(
                f"It is encrypted with key {key_id.hex()}, which is not here", key_id.hex()
            )
        from cryptography.exceptions import InvalidTag

        try:
            text: bytes = cipher.decrypt(
                stored[_HEAD_BYTES - _NONCE_BYTES : _HEAD_BYTES], stored[_HEAD_BYTES:], None
            )
        except (InvalidTag, ValueError):
            raise Unreadable("It is encrypted, and was changed or cut off since") from None
        return text
