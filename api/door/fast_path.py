"""Creates past the parser of HTTP and past ASGI: a client that creates one schedule after another
sends the same head each time, but for the length, and bodies that are much alike.

A head that led to a 201 is remembered. A request with it is judged by its body and API key alone,
as an item of a batch is, and goes to the store at once. A refused request goes the usual way, which
answers it.
"""

from __future__ import annotations

import re
import time
from asyncio import Future
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import msgspec
from litestar.types import Scope

from api.answer import JsonResponse, note_rate, rate_headers
from api.auth import known_key
from api.door.connections import ConnectionLimits
from api.door.http11 import ReadState
from api.door.protocol import Protocol
from api.reading import HEAD, REFUSAL, SMALL_BYTES
from api.request_ids import HEADER, new_request_id
from api.schema.bodies import CreatedBody
from api.schema.items import Items
from api.schema.payload import parse_request
from api.schema.rules import Rules
from api.service import Service
from scheduler.callers import KnownKey, Rate
from scheduler.errors import PostdateError
from scheduler.ids import local
from scheduler.models import Packed, Request, Upsert
from scheduler.store.lifecycle.create.create import Begun
from scheduler.times import format_iso8601

_BODY = msgspec.json.encode(CreatedBody("sch_%b", "inv_%b", "%b", "Scheduled for %b"))
# The id of the request, the lines that change once a second, and the rate's.
ID_LINE = HEADER + b": %b\r\n%b%b\r\n"
# Ids and timestamps have the same length in each answer.
_LOCAL, _AT = b"0" * 26, format_iso8601(0).encode()
_LENGTH = len(_BODY % (_LOCAL, _LOCAL, _AT, _AT))
_LINE = b"POST /schedule HTTP/1.1\r\n"
_LENGTH_LINE = re.compile(rb"\r\ncontent-length: (\d{1,5})\r\n", re.IGNORECASE)
# A head with any other name, or with one of these twice, goes the usual way.
PLAIN = frozenset(
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
_MOST_HEADS, _MOST_HEADS_OF_A_KEY, MOST_HEAD_BYTES = 4096, 8, 1024
# Longer bodies go through the parser, so that a head keeps at most so much of its last body.
_MOST_COMPARED_BYTES = 1024


class Lines:
    """Lines of an answer with a body of this length: those that change once a second, joined."""

    def __init__(self, length: int) -> None:
        self._length_line = (b"content-length", b"%d" % length)
        self._known: tuple[object, bytes] = None, b""

    def of(self, defaults: list[tuple[bytes, bytes]]) -> bytes:
        """With uvicorn's own, of which it makes a new list each second."""
        of, joined = self._known
        if of is not defaults:
            joined = _joined([*defaults, *JsonResponse.fixed, self._length_line])
            self._known = defaults, joined
        return joined


class KnownHead:
    """The API key of a head, and the parts of its last bodies that were found valid."""

    __slots__ = ("_items", "_rules", "key")
    route, status, lines = "/schedule", 201, Lines(_LENGTH)
    form = b"HTTP/1.1 201 Created\r\n" + ID_LINE + _BODY
    # Whether a head with headers of these names may be known.
    may_have: Callable[[Iterable[bytes]], bool] = PLAIN.issuperset

    def __init__(self, key: KnownKey, rules: Rules) -> None:
        self.key, self._rules = key, rules
        self._items = Items(rules, 0)

    def judged(self, body: bytes, now_ms: int, url: bytes = b"") -> Packed | Request | Upsert:
        """The request of a body, and a `url` if that is a part of the path. Raises ValueError or a
        PostdateError, not always for all faults."""
        if len(body) > _MOST_COMPARED_BYTES:
            return parse_request(body, self._rules, now_ms)
        body.decode()  # an item's batch is known to be UTF-8
        self._items.renew(now_ms)
        return self._items.judged(body)

    @staticmethod
    def told(name: bytes, trigger_at_ms: int) -> tuple[bytes, ...]:
        """What the body of an answer says."""
        at = format_iso8601(trigger_at_ms).encode()
        return name, name, at, at


class KnownHeads:
    """Heads without their length. A key has few: its holder pushes out no more of others'."""

    def __init__(self) -> None:
        self._known: dict[bytes, KnownHead] = {}
        self._of: dict[KnownKey, list[bytes]] = {}

    def get(self, head: bytes) -> KnownHead | None:
        return self._known.get(head)

    def remember(
        self,
        head: bytes,
        key: KnownKey,
        rules: Rules,
        make: Callable[[KnownKey, Rules], KnownHead] = KnownHead,
    ) -> None:
        if head in self._known:
            return
        ours = self._of.setdefault(key, [])
        if len(ours) == _MOST_HEADS_OF_A_KEY:
            del self._known[ours.pop(0)]
        ours.append(head)
        self._known[head] = make(key, rules)
        if len(self._known) > _MOST_HEADS:
            self.forget(next(iter(self._known.values())).key)

    def forget(self, key: KnownKey) -> None:
        """All heads of a key. Safe to repeat."""
        for head in self._of.pop(key, ()):
            del self._known[head]


def _joined(lines: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%b: %b\r\n" % line for line in lines])


class _Request(NamedTuple):
    """A request under way: its bytes, its head, its create, and when it began."""

    data: bytes
    known: KnownHead
    begun: Begun
    trigger_at_ms: int
    began_s: float


class FastPath(Protocol):
    """A connection. It has one request at a time on the fast path; what comes behind it waits."""

    # How requests begin that may go past the parser.
    begins: tuple[bytes, ...] = (_LINE,)

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
        elif not (data.startswith(self.begins) and self._is_idle() and self._take(data)):
            super().data_received(data)

    def _is_idle(self) -> bool:
        return (
            self.part is ReadState.NONE
            and self.rejection is None
            and not (self._for_health or self.flow.write_paused or self.transport.is_closing())
            and (self.cycle is None or self.cycle.response_complete)
        )

    def _take(self, data: bytes, whole: bytes = b"", url: bytes = b"") -> bool:
        """Whether the request goes past the parser. If not, its head may be worth remembering.
        `whole`: the request as it came, if a `url` was taken out of its path."""
        length = _LENGTH_LINE.search(data, 0, MOST_HEAD_BYTES)
        end = data.find(b"\r\n\r\n", 0, MOST_HEAD_BYTES) + 4
        if length is None or length.end() > end - 2:
            return False
        head = data[: length.start(1)] + data[length.end(1) : end]
        known, size = self._heads.get(head), int(length[1])
        if known is None:
            self._head = head
            return False
        if len(data) != end + size or size > min(SMALL_BYTES, self._settings.max_body_bytes):
            return False
        began_s, store = time.perf_counter(), self._service.store
        now_ms = store.clock.now_ms()
        try:
            wanted = known.judged(data[end:], now_ms, url)
        except (ValueError, PostdateError):
            return False
        if isinstance(wanted, Upsert):
            return False
        begun = store.schedules.begin_by_key(known.key, wanted, None, now_ms)
        self._fast = _Request(whole or data, known, begun, wanted.trigger_at_ms, began_s)
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
            self._answer(fast, created.schedule_ids[0], *rates)
        else:
            self._heads.forget(fast.known.key)
            left = fast.data + left
        if left and not self.transport.is_closing():
            self.flow.resume_reading()
            self.data_received(left)
        if self._ends:
            super().shutdown()

    def _answer(self, fast: _Request, schedule_id: str, rate: Rate | None = None) -> None:
        """As `created_answer` has it."""
        took_s, known = time.perf_counter() - fast.began_s, fast.known
        self._service.tally.note(known.route, "POST", known.status, took_s)
        if self.transport.is_closing():
            return
        self.server_state.total_requests += 1
        self.recent, self.is_first, self._began_s = True, False, 0.0
        lines = known.lines.of(self.server_state.default_headers)
        more = self._more(rate) if rate is not None or self._ends else b""
        told = known.told(local(schedule_id).encode(), fast.trigger_at_ms)
        self.transport.write(known.form % (new_request_id(), lines, more, *told))
        if self._ends:
            self.transport.close()

    def _more(self, rate: Rate | None) -> bytes:
        closes = [(b"connection", b"close")] if self._ends else []
        return _joined([*rate_headers(rate), *closes])

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        noted: Any = self.scope
        if self._head is not None:
            noted[HEAD], self._head = self._head, None
        if self._refusal is not None:
            (noted[REFUSAL], rates), self._refusal = self._refusal, None
            for rate in rates:
                note_rate(noted, rate)

    def remember_head(
        self,
        scope: Scope,
        kind: type[KnownHead] = KnownHead,
        make: Callable[[KnownKey, Rules], KnownHead] | None = None,
    ) -> None:
        """To be called when a request has led to a 201, or to a message."""
        head = cast("dict[str, Any]", scope).pop(HEAD, None)
        if head is None:
            return
        headers = list(scope["headers"])
        values = dict(headers)
        key = known_key(self._service, scope)
        if (
            key is not None
            and kind.may_have(values)
            and len(values) == len(headers)
            and values.get(b"connection", b"keep-alive").lower() == b"keep-alive"
        ):
            self._heads.remember(head, key, self._service.rules, make or kind)

    def shutdown(self) -> None:
        """The answer under way is the last one."""
        if self._fast is None:
            super().shutdown()
        else:
            self._ends = True
