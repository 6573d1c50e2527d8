"""A large batch, read in pieces, with pauses in between: a decoder of JSON does nothing else for as
long as its text is."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from api.schema.findings import Findings
from api.schema.json_text import List, Object, Part, malformed
from scheduler.errors import FieldError, InvalidRequest
from scheduler.runtime.pause import Pause

# A piece; and one with an element that is larger than that.
_PIECE_BYTES, _LONGEST_BYTES = 128 * 1024, 1024 * 1024
# A smaller text is read at once.
LARGE_BYTES = 4 * _PIECE_BYTES
_BLANKS = b" \t\n\r"
_BLANK = b"[" + _BLANKS + b"]*+"
_END = re.compile(rb"\]" + _BLANK + rb"\}" + _BLANK)
_AT_BYTE = re.compile(r"\(byte (\d+)\)")


class ListInPieces:
    """A list of objects, the only member of an object. Most of such lists have the same first key
    in each element: the text is cut where one begins, and each part is decoded by itself. As every
    part is JSON, and a comma stands between two of them, so is the whole."""

    def __init__(self, name: str, elements: List, around: Object) -> None:
        self._elements, self._around = elements, around
        self._before = b'{"%b":[' % name.encode()
        before = _BLANK.join([b"", rb"\{", b'"%b"' % name.encode(), b":", rb"\[", b""])
        self._begin = re.compile(before + rb"(\{" + _BLANK + rb'"[^"\\]{1,64}")')

    async def elements(self, text: bytes) -> list[Part]:
        """As `List.elements_within`; none also of a list that cannot be cut so."""
        begin = self._begin.match(text)
        if begin is None:
            return []
        found, pause = list[Part](), Pause()
        for part in self._parts(text, begin.start(1), begin[1]):
            if not part:
                return []
            found += part
            if pause.is_due:
                await pause.take()
        return found

    def _parts(self, text: bytes, start: int, opening: bytes) -> Iterator[list[Part]]:
        """Empty where it cannot be cut. Raises InvalidRequest if the last part is no JSON."""
        while len(text) - start > _PIECE_BYTES:
            cut = text.rfind(opening, start + 1, start + _PIECE_BYTES)
            if cut < 0:
                cut = text.find(opening, start + 1, start + _LONGEST_BYTES)
            if cut < 0:
                break
            before = text[start:cut].rstrip(_BLANKS)
            yield self._decoded(before[:-1]) if before.endswith(b",") else []
            start = cut
        yield self._last(text, start) if len(text) - start < _LONGEST_BYTES else []

    def _last(self, text: bytes, start: int) -> list[Part]:
        end = text.rfind(b"]", start)
        if _END.fullmatch(text, end) and (found := self._decoded(text[start:end])):
            return found
        try:
            self._around.members(self._before + text[start:], Findings())
        except InvalidRequest as refusal:
            raise _moved(refusal, start - len(self._before)) from None
        return []

    def _decoded(self, part: bytes) -> list[Part]:
        try:
            return self._elements.elements(b"[%b]" % part)
        except InvalidRequest:
            return []


def _moved(refusal: InvalidRequest, by: int) -> InvalidRequest:
    """The same of a text in which it stands so much further behind."""
    details = [
        FieldError(each.field, _AT_BYTE.sub(lambda at: f"(byte {int(at[1]) + by})", each.message))
        for each in refusal.details
    ]
    return InvalidRequest(details, str(refusal), refusal.unlisted, refusal.reason)


async def check_utf8(text: bytes) -> None:
    """Raises InvalidRequest."""
    decoder, pause = codecs.getincrementaldecoder("utf-8")(), Pause()
    try:
        for start in range(0, len(text), _PIECE_BYTES):
            decoder.decode(text[start : start + _PIECE_BYTES])
            if pause.is_due:
                await pause.take()
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise malformed(error) from None
