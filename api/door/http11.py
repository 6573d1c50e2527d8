"""HTTP/1.1, where uvicorn and its parser let through more than RFC 9112 does."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from api.door.refusals import BAD_TRAILER, NO_HTTP, Rejection, path_of
from api.request_ids import new_request_id

# The parser would apply these, of a trailer, to the next request.
_OF_THE_CONNECTION = (b"connection", b"proxy-connection")
_FRAMING = (b"content-length", b"transfer-encoding")
_METHOD = re.compile(rb"[\w!#$%&'*+.^`|~-]+ ")
# The parser knows this method, and no path has it.
_STAND_IN = b"UNBIND "


class ReadState(Enum):
    """What of a request is being read."""

    NONE = 0
    HEAD = 1
    BODY = 2


class _Rejected(Exception):
    """Raised in a callback: the parser stops."""


class Http11(HttpToolsProtocol):
    """Refuses ambiguous heads, drops trailers, and ignores offers to upgrade. A refusal is sent in
    its turn, and ends the connection."""

    part = ReadState.NONE
    rejection: Rejection | None = None
    _skipped_body = b""
    # Whether the piece that is being parsed began a request, and its head is not complete.
    _is_first_head = False
    # The request being answered; uvicorn's `cycle` is the last one that has arrived.
    _served: RequestResponseCycle | None = None

    # Reading

    def parse(self, data: bytes) -> None:
        """Calls back for all of the data, or rejects it."""
        self._is_first_head = self.part is ReadState.NONE
        left = data
        try:
            while left:
                left = self._parse_request(left)
        except httptools.HttpParserError:
            method = _METHOD.match(data) if self._is_first_head else None
            if method is None or method[0] == _STAND_IN or self.rejection is not None:
                self.reject(self.rejection or NO_HTTP)
                return
            # The parser stops at methods that it does not know, and the app answers them.
            self.parser, self.part = httptools.HttpRequestParser(self), ReadState.NONE
            self.parse(_STAND_IN + data[method.end() :])

    def rejected(self, rejection: Rejection) -> Exception:
        """For a callback to raise."""
        self.rejection = rejection
        return _Rejected()

    def _parse_request(self, data: bytes) -> bytes:
        """The data behind a request that offers to upgrade, or none. The parser stops there and
        skips the request's body; it reads the body behind a head of ours."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            if self._skipped_body:
                framing, self._skipped_body = self._skipped_body, b""
                self.parser.feed_data(b"POST / HTTP/1.1\r\n" + framing + b"\r\n\r\n")
            return data[offer.args[0] :]
        return b""

    def on_message_begin(self) -> None:
        if self.part is ReadState.BODY:  # our own head before a skipped body
            return
        super().on_message_begin()
        self.part = ReadState.HEAD

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.part is not ReadState.BODY:
            super().on_header(name, value)
        elif name.lower() in _OF_THE_CONNECTION:
            raise self.rejected(BAD_TRAILER)

    def on_headers_complete(self) -> None:
        if self.part is ReadState.BODY:
            return
        self._is_first_head = False
        version = self.parser.get_http_version()
        path = path_of(version, self.parser.get_method(), self.url, self.headers)
        if isinstance(path, Rejection):
            raise self.rejected(path)
        is_for_server = path == b"*"
        self.url = b"/" if is_for_server else path
        if version == "1.0":
            self.expect_100_continue = False
        if self.parser.should_upgrade():
            self._skipped_body = b"\r\n".join(
                name + b": " + value for name, value in self.headers if name in _FRAMING
            )
        super().on_headers_complete()
        if is_for_server:  # which is no URL
            self.scope["path"], self.scope["raw_path"] = "*", b"*"
        self.part = ReadState.BODY

    def on_message_complete(self) -> None:
        if self._skipped_body:
            return
        super().on_message_complete()
        self.part = ReadState.NONE

    # Answering

    @property
    def is_served(self) -> bool:
        """Whether a request has arrived whole and has no answer yet."""
        if self.pipeline:
            return True
        served = self._served
        return served is not None and not (served.response_complete or served.more_body)

    def reject(self, rejection: Rejection) -> None:
        """Ends the connection with this answer, once all requests before have theirs."""
        self.rejection = rejection
        if self.part is ReadState.BODY and self.pipeline:
            self.pipeline.popleft()  # the rejected request itself
        if not self.is_served:
            self.end(rejection)

    def end(self, rejection: Rejection) -> None:
        """Sends the rejection, unless the request has an answer already, and closes."""
        if self._may_speak():
            self.transport.write(rejection.response(new_request_id().decode()))
            self.transport.write_eof()
        else:
            self.transport.close()
        self._drop_requests()

    def _may_speak(self) -> bool:
        served = self._served
        if served is not None and served is self.cycle and self.part is ReadState.BODY:
            return not (served.response_started or self.transport.is_closing())
        return not self.transport.is_closing()

    def on_response_complete(self) -> None:
        """Uvicorn's, without the timer that every request would set and clear."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self.rejection is not None:
            self.end(self.rejection)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._served = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop_requests()
        super().connection_lost(exc)
        # A request that never began would keep a circle of references.
        self.cycle = self._served  # type: ignore[assignment]

    def _drop_requests(self) -> None:
        """Uvicorn disconnects only the last request that has arrived; the one that is being
        answered would write on, into the log."""
        self.pipeline.clear()
        for cycle in (self._served, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
