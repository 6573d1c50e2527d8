"""Reads the answers that come over one connection, with the parser's callbacks."""

from __future__ import annotations

from typing import cast

import httptools
import structlog

from scheduler.qstash.heeded import says_something
from worker.send.answer import (
    ASKING,
    MAX_INTERIMS,
    NOTHING,
    answer_of,
    heeded_in,
    lenient,
    response_of,
    retry_after,
)
from worker.send.loose_http import NotHttp, mend

Refused = (httptools.HttpParserError, httptools.HttpParserUpgrade)
"""What the parser raises for bytes that it does not take."""

NO_PARSER = httptools.HttpResponseParser(None)


class _Deaf:
    """In a parser's place, but does nothing."""

    def feed_data(self, data: bytes) -> None: ...


_DEAF = cast("httptools.HttpResponseParser", _Deaf())
_log = structlog.get_logger(__name__)


class Enough(Exception):
    """No more of this is parsed."""


class AnswerReader:
    """`received` is of the last answer. `is_to_head`: it is to a HEAD, and has no body. So many
    bytes are kept of the body of one that failed."""

    def __init__(self, keep_bytes: int = 0) -> None:
        self._keep_bytes = keep_bytes
        self._parser = NO_PARSER
        self._is_to_head = False
        self.received = NOTHING

    # What the parser calls, while it is fed

    def on_message_begin(self) -> None:
        if self.received.done:
            raise Enough  # what follows an answer is not parsed

    def on_status(self, text: bytes) -> None:
        if not self.received.done:
            self.received.reason += text

    def on_headers_complete(self) -> None:
        received, parser = self.received, self._parser
        if received.done:
            return
        received.status = status = parser.get_status_code()
        if status < 200 and status != 101:
            if status < 100:
                raise Enough
            return
        received.headers_done = True
        received.keep_alive = parser.should_keep_alive()
        if self._is_to_head or status == 101:
            received.done = True

    def on_message_complete(self) -> None:
        received = self.received
        if received.headers_done:
            received.done = True
        else:  # 1xx: passed over
            received.interims += 1
            received.reason = b""
            if received.interims > MAX_INTERIMS:
                raise Enough

    # What is kept of a whole one, of which these are the bytes, unless it has `raw` ones

    def _note_response(self, data: bytes, most_bytes: int) -> None:
        """Keeps what a callback is to have of it."""
        received = self.received
        received.response = response_of(received, received.raw or data, most_bytes)
        if 200 <= received.status < 300:
            received.raw = None

    def _leaves_something(self, data: bytes, of_message: bool) -> bool:
        """Whether there is more to an answer that failed than its status: then it is read each
        time, however well known."""
        received = self.received
        asks = of_message or received.status in ASKING
        if asks and received.heard_s is None:
            read = heeded_in if of_message else retry_after
            received.retry_after = read(data, received.interims)
        if self._keep_bytes and not self._is_to_head:
            received.kept = answer_of(received.raw or data, received.interims, self._keep_bytes)
        received.raw = None  # the connection may be kept, and a head may be long
        return asks or received.kept is not None or says_something(data)

    # What it does not take

    def _note_refusal(self, error: Exception) -> bool:
        """Whether it is the answer that the parser refused, and not (never) a fault of our own."""
        received = self.received
        if received.done:  # it is what follows the answer that cannot be parsed
            received.extra = True
            return True
        received.stumbled = str(error)
        if not received.headers_done:
            self._parser = _DEAF  # the rest of the head is not for it
        if isinstance(error, httptools.HttpParserCallbackError):
            if isinstance(error.__context__, Enough):
                return True
            _log.error("Internal error", exc_info=error)
            return False
        return True

    def _mend_head(self, head: bytearray) -> bool:
        """Whether a head that the parser refused is whole: then it is written anew, and read.
        Raises NotHttp or HeadTooLong."""
        received = self.received
        mended = mend(received, head)
        if mended is None:
            return False
        head[:] = mended.data
        received.reason, received.interims = b"", 0
        received.odd, received.stumbled = mended.odd, "" if mended.has_end else mended.odd
        self._parser = lenient(httptools.HttpResponseParser(self))
        try:
            self._parser.feed_data(head)
        except Refused as error:
            self._note_refusal(error)
        if not received.headers_done:  # never: it was written to be understood
            raise NotHttp(received.stumbled)
        return True
