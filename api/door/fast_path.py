"""Creates past the parser of HTTP and past ASGI: a client that creates one schedule after another
sends the same head each time, but for the length.

A head that led to a 201 is remembered. A request with it is judged by its body and API key alone,
and goes to the store at once. A refused request goes the usual way, which answers it.
"""

from __future__ import annotations

import re
import time
from asyncio import Future
from typing import Any, NamedTuple, cast

from litestar.types import Scope

from api.answer import JsonResponse, note_rate
from api.auth import known_key
from api.calls.schedule import created_answer
from api.door.connections import ConnectionLimits
from api.door.http11 import ReadState
from api.door.protocol import Protocol
from api.reading import HEAD, REFUSAL, SMALL_BYTES
from api.request_ids import HEADER, new_request_id
from api.schema.payload import parse_request
from api.service import Service
from scheduler.callers import KnownKey, Rate
from scheduler.errors import InvalidRequest
from scheduler.store.lifecycle.create.create import Begun

_CREATED = b"HTTP/1.1 201 Created\r\n" + HEADER + b": %b\r\n%b\r\n%b"
_LINE = b"POST /schedule HTTP/1.1\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: (\d{1,5})\r\n", re.IGNORECASE)
# A head with any other name, or with one of these twice, goes the usual way.
_PLAIN = frozenset(
    {
        b"accept",
        b"accept-encoding",
        b"authorization",
        b"connection",
        b"content-length",
        b"content-type",
        b"host",
        b"user-agent",
        b"x-api-key",
    }
)
_MOST_HEADS, _MOST_HEADS_OF_A_KEY, _MOST_HEAD_BYTES = 4096, 8, 1024


class KnownHeads:
    """Heads without their length, and whose key each has. A key has few, so that its holder pushes
    out no more of others'."""

    def __init__(self) -> None:
        self._keys: dict[bytes, KnownKey] = {}
        self._of: dict[KnownKey, list[bytes]] = {}

    def get(self, head: bytes) -> KnownKey | None:
        return self._keys.get(head)

    def remember(self, head: bytes, key: KnownKey) -> None:
        if head in self._keys:
            return
        ours = self._of.setdefault(key, [])
        if len(ours) == _MOST_HEADS_OF_A_KEY:
            del self._keys[ours.pop(0)]
        ours.append(head)
        self._keys[head] = key
        if len(self._keys) > _MOST_HEADS:
            self.forget(next(iter(self._keys.values())))

    def forget(self, key: KnownKey) -> None:
        """All heads of a key. Safe to repeat."""
        for head in self._of.pop(key, ()):
            del self._keys[head]


class _Request(NamedTuple):
    """A request under way: its bytes, whose key its head has, its create, and when it began."""

    data: bytes
    key: KnownKey
    begun: Begun
    trigger_at_ms: int
    began_s: float


class FastPath(Protocol):
    """A connection. It has one request at a time on the fast path; what comes behind it waits."""

    def __init__(
        self, service: Service, heads: KnownHeads, guard: ConnectionLimits, **uvicorns: Any
    ) -> None:
        super().__init__(guard, **uvicorns)
        self._service = service
        self._heads = heads
        self._head: bytes | None = None
        self._fast: _Request | None = None
        self._refusal: tuple[Exception, list[Rate]] | None = None
        self._behind = b""
        self._ends = False

    @property
    def is_served(self) -> bool:
        return self._fast is not None or super().is_served

    def data_received(self, data: bytes) -> None:
        if self._fast is not None:
            self._behind += data
            self.flow.pause_reading()
        elif not (data.startswith(_LINE) and self._is_idle() and self._take(data)):
            super().data_received(data)

    def _is_idle(self) -> bool:
        return (
            self.part is ReadState.NONE
            and self.rejection is None
            and not (self._for_health or self.flow.write_paused or self.transport.is_closing())
            and (self.cycle is None or self.cycle.response_complete)
        )

    def _take(self, data: bytes) -> bool:
        """Whether the request goes past the parser. If not, its head may be worth remembering."""
        length = _LENGTH.search(data, 0, _MOST_HEAD_BYTES)
        end = data.find(b"\r\n\r\n", 0, _MOST_HEAD_BYTES) + 4
        if length is None or length.end() > end - 2:
            return False
        head = data[: length.start(1)] + data[length.end(1) : end]
        key, size = self._heads.get(head), int(length[1])
        if key is None:
            self._head = head
            return False
        if len(data) != end + size or size > min(SMALL_BYTES, self._settings.max_body_bytes):
            return False
        return self._begin(data, data[end:], key)

    def _begin(self, data: bytes, body: bytes, key: KnownKey) -> bool:
        began_s, store = time.perf_counter(), self._service.store
        now_ms = store.clock.now_ms()
        try:
            wanted = parse_request(body, self._service.rules, now_ms)
        except InvalidRequest:
            return False
        begun = store.schedules.begin_by_key(key, wanted, None, now_ms)
        self._fast = _Request(data, key, begun, wanted.trigger_at_ms, began_s)
        begun.reply.add_done_callback(self._on_reply)
        return True

    def _on_reply(self, reply: Future[Any]) -> None:
        assert self._fast is not None
        fast, self._fast = self._fast, None
        store, rates = self._service.store, list[Rate]()
        try:
            created = store.schedules.end_by_key(fast.begun, reply.result(), rates.append)
        except Exception as error:  # with its frames, which have the reply, it would be a ring
            created, self._refusal = None, (error.with_traceback(None), rates)
        left, self._behind = self._behind, b""
        if created is not None:
            took_s = time.perf_counter() - fast.began_s
            self._service.tally.note("/schedule", "POST", 201, took_s)
            self._answer(created_answer(created, fast.trigger_at_ms), *rates)
        else:
            self._heads.forget(fast.key)
            left = fast.data + left
        if left and not self.transport.is_closing():
            self.flow.resume_reading()
            self.data_received(left)
        if self._ends:
            super().shutdown()

    def _answer(self, answer: JsonResponse, rate: Rate | None = None) -> None:
        if self.transport.is_closing():
            return
        self.server_state.total_requests += 1
        self.recent, self.is_first, self._began_s = True, False, 0.0
        lines = [*self.server_state.default_headers, *answer.lines(rate)]
        if self._ends:
            lines.append((b"connection", b"close"))
        head = b"".join([b"%b: %b\r\n" % line for line in lines])
        self.transport.write(_CREATED % (new_request_id(), head, answer.body))
        if self._ends:
            self.transport.close()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        noted: Any = self.scope
        if self._head is not None:
            noted[HEAD], self._head = self._head, None
        if self._refusal is not None:
            (noted[REFUSAL], rates), self._refusal = self._refusal, None
            for rate in rates:
                note_rate(noted, rate)

    def remember_head(self, scope: Scope) -> None:
        """To be called when a request has led to a 201."""
        head = cast("dict[str, Any]", scope).pop(HEAD, None)
        if head is None:
            return
        headers = list(scope["headers"])
        values = dict(headers)
        key = known_key(self._service, scope)
        if (
            key is not None
            and values.keys() <= _PLAIN
            and len(values) == len(headers)
            and values.get(b"connection", b"keep-alive").lower() == b"keep-alive"
        ):
            self._heads.remember(head, key)

    def shutdown(self) -> None:
        """The answer under way is the last one."""
        if self._fast is None:
            super().shutdown()
        else:
            self._ends = True
