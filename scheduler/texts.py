"""Texts that strangers wrote: as people are shown them, and as e-mail addresses. Pure."""

from __future__ import annotations

import re
import unicodedata
from codecs import getincrementaldecoder

# Control characters but for tabs and ends of lines, and Unicode's that reorder text or cannot be
# seen; not those that join letters, which many scripts need.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]|\r(?!\n)"
)
# Only mail can show whether it arrives there; this refuses texts that are no address at all.
_ADDRESS = re.compile(r"[^\s@\x00-\x1f\x7f]+@[^\s@\x00-\x1f\x7f]+")
_LONGEST_ADDRESS = 254


def visible(text: str) -> str:
    """With what would be obeyed escaped as JSON has it, `\\u202e`: so the text of a JSON document
    means what it did. Lone surrogates, which cannot be written, are as well."""
    return text if text.isprintable() else _OBEYED.sub(_escaped, text)


def cut(data: bytes, most_bytes: int) -> bytes:
    """The first bytes; not a part of a UTF-8 character, where the cut goes through one."""
    if len(data) <= most_bytes:
        return data
    decoder = getincrementaldecoder("utf-8")("replace")
    decoder.decode(data[:most_bytes])
    unfinished, _ = decoder.getstate()
    return data[: most_bytes - len(unfinished)]


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def normal_email(text: str) -> str:
    """The address in the one spelling that is stored, without letter case; with nothing that cannot
    be seen, so that two members never look alike by it. Raises ValueError."""
    address = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text.strip()).casefold())
    is_one = _ADDRESS.fullmatch(address) and not _OBEYED.search(address)
    if not is_one or len(address) > _LONGEST_ADDRESS:
        raise ValueError(f"{text[:_LONGEST_ADDRESS]!r} is not an e-mail address")
    return address
