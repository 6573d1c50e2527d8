"""E-mail addresses, as far as Postdate looks into them: enough to find who signs in. Pure."""

from __future__ import annotations

import re

# Whether mail arrives there only mail can tell; this keeps out what is no address at all.
_ADDRESS = re.compile(r"[^\s@\x00-\x1f\x7f]+@[^\s@\x00-\x1f\x7f]+")
_LONGEST = 254


def normal_email(text: str) -> str:
    """The address in the one spelling that is stored, without letter case. Raises ValueError."""
    address = text.strip().casefold()
    if len(address) > _LONGEST or _ADDRESS.fullmatch(address) is None:
        raise ValueError(f"{text[:_LONGEST]!r} is not an e-mail address")
    return address
