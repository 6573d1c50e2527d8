"""The live part of a page in named pieces, so that a tick sends only what the browser lacks.

A name is a digest of its piece, of the session and of the account that is looked at: it stands for
the same text in every process and version, and no process remembers what a viewer has. A page has a
mark before each piece. `static/pieces.js` keeps the pieces, sends their names with each tick, and
puts the answer together to the text that would have been sent as a whole. Pure.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import blake2b, sha256
from itertools import islice

# Where a template has no mark of its own, a piece begins before these. None of them is in a form.
# As it begins with one character, a search skips the rest of a text fast.
_CUT = re.compile(r"<(?:(!--cut-->)|tr id=|(?:section|figure|details|nav|dl|h2)[ >])")
# Names are sent by each tick: 2 KB at most. Whatever follows the last cut is one piece.
MOST_PIECES = 256
_NAME_BYTES = 6
_NAME_LETTERS = 8
_HAS = re.compile(rf"-|(?:[\w-]{{{_NAME_LETTERS}}}){{1,{MOST_PIECES}}}", re.ASCII)
_END = "<!--end-->"


def names_of(header: str | None) -> list[str] | None:
    """The names that a browser sends; None if it knows nothing of pieces, or sent no such names."""
    if header is None or not _HAS.fullmatch(header):
        return None
    return re.findall(rf".{{{_NAME_LETTERS}}}", header)


def marked(text: str, key: str, tokens: Sequence[str]) -> str:
    """All pieces, each with its mark."""
    named = _named(text, key, tokens)
    return "".join(f"<!--new {name}-->{piece}" for name, piece in named) + _END


def news(text: str, key: str, tokens: Sequence[str], has: Sequence[str]) -> str:
    """The same for a browser that has some: a run of those as the places of its first and last."""
    places = {name: place for place, name in enumerate(has)}
    parts: list[str] = []
    run: tuple[int, int] | None = None
    for name, piece in _named(text, key, tokens):
        place = places.get(name)
        if run and place == run[1] + 1:
            run = (run[0], place)
            continue
        if run:
            parts.append(f"<!--old {run[0]} {run[1]}-->")
        run = None if place is None else (place, place)
        if place is None:
            parts.append(f"<!--new {name}-->{piece}")
    if run:
        parts.append(f"<!--old {run[0]} {run[1]}-->")
    return "".join(parts) + _END


def _named(text: str, key: str, tokens: Sequence[str]) -> list[tuple[str, str]]:
    """`tokens` are new in each answer, and those of an earlier one as good: no name depends on
    them."""
    secret, named = sha256(key.encode()).digest(), []
    for piece in _pieces(text):
        plain = piece
        for token in tokens:
            plain = plain.replace(token, "")
        named.append((_name(plain, secret), piece))
    return named


def _pieces(text: str) -> list[str]:
    found, begin = list[str](), 0
    for cut in islice(_CUT.finditer(text), MOST_PIECES - 1):
        found.append(text[begin : cut.start()])
        begin = cut.end() if cut[1] else cut.start()
    return [*found, text[begin:]]


def _name(piece: str, secret: bytes) -> str:
    digest = blake2b(piece.encode(), digest_size=_NAME_BYTES, key=secret).digest()
    return urlsafe_b64encode(digest).decode()
