"""Cursors as clients get them: the store's own, and what they belong to. Pure.

A place in one list means nothing in another, or on the way back: it would be an empty end.
"""

from __future__ import annotations

import base64
import hashlib

from api.query import bad_parameter


class Walk:
    """Going through a list page by page: the same endpoint, order and filters all the way.

    The period is none of that: a walk may go on in another one.
    """

    def __init__(self, *way: str | None) -> None:
        digest = hashlib.blake2b(repr(way).encode(), digest_size=6).digest()
        self._tag = base64.urlsafe_b64encode(digest).decode()

    def given_out(self, cursor: str | None) -> str | None:
        """The store's cursor as clients get it."""
        return None if cursor is None else cursor + self._tag

    def taken_back(self, cursor: str | None) -> str | None:
        """The store's cursor. Raises InvalidRequest if it is of another walk, or none at all."""
        if cursor is None:
            return None
        if not cursor.endswith(self._tag):
            message = "It is no nextCursor of this endpoint, order and filters."
            raise bad_parameter("cursor", message)
        return cursor.removesuffix(self._tag)
