"""Messages past the parser of HTTP and past ASGI, as `api.door.fast_path` leads creates: a client
that publishes one after another sends the same head each time, but for destination and length.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from litestar.types import Scope
from msgspec.structs import replace

from api.door.fast_path import LENGTH, MOST_HEAD_BYTES, PLAIN, FastPath, KnownHead, Lines
from api.qstash.headers import RULES, Published, kind_of
from api.reading import SMALL_BYTES
from api.request_ids import HEADER, new_request_id
from api.schema import rules
from scheduler.callers import KnownKey, Rate
from scheduler.ids import local
from scheduler.models import Request

_BODY = b'{"messageId":"msg_%b"}'
_DONE = b"HTTP/1.1 200 OK\r\n" + HEADER + b": %b\r\n%b%b\r\n" + _BODY
_LINE, _VERSION = b"POST /qstash/v2/publish/http", b" HTTP/1.1\r\n"
_ROUTE = "/qstash/v2/publish/{url}"
_URL = re.compile(rb"https?://(?!.*qstash_token=)[!-~]+[^?]")
# A moment is of one message alone, and an unknown name is counted.
_KNOWN = re.compile(
    b"upstash-(?:forward-|callback-|failure-callback-|telemetry-|(?:%b)$)"
    % b"|".join(name.encode() for name in RULES if name != "not-before")
)
_lines = Lines(len(_BODY % (b"0" * 26))).of


class KnownMessage(KnownHead):
    """The API key of a head, and what its headers ask for, with the destination at hand."""

    __slots__ = ("_published", "url")

    def __init__(self, key: KnownKey, allowed: rules.Rules, published: Published) -> None:
        self.key, self._rules, self._published, self.url = key, allowed, published, b""

    def judged(self, body: bytes, now_ms: int) -> Request:
        """Raises ValueError."""
        asked, delay_ms, *_ = self._published
        return replace(
            asked,
            trigger_at_ms=now_ms + (delay_ms or 0),
            url=rules.target_url(self.url.decode("ascii"), self._rules, now_ms),
            body=body or None,
            body_kind=kind_of(body, asked.headers.get("content-type", "")),
        )


class MessageFastPath(FastPath):
    """A connection to an API with the door."""

    def data_received(self, data: bytes) -> None:
        may_be = data.startswith(_LINE) and self._fast is None and self._is_idle()
        if not (may_be and self._take_message(data)):
            super().data_received(data)

    def _take_message(self, data: bytes) -> bool:
        """As `_take`. A head is that of one client: its address is kept with the message."""
        at = data.find(_VERSION, 0, MOST_HEAD_BYTES)
        length = LENGTH.search(data, 0, MOST_HEAD_BYTES)
        end = data.find(b"\r\n\r\n", 0, MOST_HEAD_BYTES) + 4
        if at < 0 or length is None or length.end() > end - 2:
            return False
        url, size = data[len(_LINE) - 4 : at], int(length[1])
        if _URL.fullmatch(url) is None:  # a key in it is not one of the head
            return False
        head = str(self.client and self.client[0]).encode() + data[at : length.start(1)]
        head += data[length.end(1) : end]
        known = self._heads.get(head)
        if not isinstance(known, KnownMessage):
            self._head = head
            return False
        if len(data) != end + size or size > min(SMALL_BYTES, self._settings.max_body_bytes):
            return False
        known.url = url
        return self._begin(data, data[end:], known)

    def _answer(self, fast: Any, schedule_id: str, rate: Rate | None = None) -> None:
        if not fast.data.startswith(_LINE):
            super()._answer(fast, schedule_id, rate)
            return
        took_s = time.perf_counter() - fast.began_s
        self._service.tally.note(_ROUTE, "POST", 200, took_s)
        if self.transport.is_closing():
            return
        self.server_state.total_requests += 1
        self.recent, self.is_first, self._began_s = True, False, 0.0
        lines = _lines(self.server_state.default_headers)
        more = self._more(rate) if rate is not None or self._ends else b""
        name = local(schedule_id).encode()
        self.transport.write(_DONE % (new_request_id(), lines, more, name))
        if self._ends:
            self.transport.close()

    def remember_message(self, scope: Scope, published: Published) -> None:
        """To be called when a message was stored."""
        found = self.head_and_key(scope, _are_plain)
        if found is not None and published.once is None and published.limits is None:
            make = partial(KnownMessage, published=published)
            self._heads.remember(*found, self._service.rules, make)


def _are_plain(names: Iterable[bytes]) -> bool:
    return all(name in PLAIN or _KNOWN.match(name) for name in names)
