"""Messages past the parser of HTTP and past ASGI, as `api.door.fast_path` leads creates: a client
that publishes one after another sends the same head each time, but for destination and length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec.structs import replace

from api.door.fast_path import ID_LINE, MOST_HEAD_BYTES, PLAIN, FastPath, KnownHead, Lines
from api.qstash.headers import RULES, Published, kind_of
from api.schema import rules
from scheduler.callers import KnownKey
from scheduler.models import Request

_BODY = b'{"messageId":"msg_%b"}'
_LINE, _VERSION = b"POST /qstash/v2/publish/http", b" HTTP/1.1\r\n"
# The parser refuses a `#`, and a token in the query is none of the head.
_URL = re.compile(rb"https?://(?!.*qstash_token=)[!\"$-~]+(?<!\?)")
# A moment is of one message alone, and an unknown name is counted.
_KNOWN = re.compile(
    b"upstash-(?:forward-|callback-|failure-callback-|telemetry-|(?:%b)$)"
    % b"|".join(name.encode() for name in RULES if name != "not-before")
)


class KnownMessage(KnownHead):
    """The API key of a head, and what its headers ask for."""

    __slots__ = ("_published",)
    route, status, lines = "/qstash/v2/publish/{url}", 200, Lines(len(_BODY % (b"0" * 26)))
    form = b"HTTP/1.1 200 OK\r\n" + ID_LINE + _BODY

    def __init__(self, key: KnownKey, allowed: rules.Rules, published: Published) -> None:
        self.key, self._rules = key, allowed
        # It lives as long as the head, so its body goes.
        self._published = published._replace(request=replace(published.request, body=None))

    @staticmethod
    def may_have(names: Iterable[bytes]) -> bool:
        return all(name in PLAIN or _KNOWN.match(name) for name in names)

    def judged(self, body: bytes, now_ms: int, url: bytes = b"") -> Request:
        """Raises ValueError or BodyTooLarge."""
        asked, delay_ms, *_ = self._published
        return replace(
            asked,
            trigger_at_ms=now_ms + (delay_ms or 0),
            url=rules.target_url(url.decode("ascii"), self._rules, now_ms),
            body=body or None,
            body_kind=kind_of(body, asked.headers.get("content-type", ""), self._rules),
        )

    @staticmethod
    def told(name: bytes, _: int) -> tuple[bytes, ...]:
        return (name,)


class MessageFastPath(FastPath):
    """A connection to an API with the door."""

    begins = (*FastPath.begins, _LINE)
    long_paths = (b"/qstash/v2/",)  # clients name ids in the query

    def _take(self, data: bytes, whole: bytes = b"", url: bytes = b"") -> bool:
        """Of a message the head is looked up without its destination. It is that of one client:
        its address is kept with the message."""
        if not data.startswith(_LINE):
            return super()._take(data)
        at = data.find(_VERSION, 0, MOST_HEAD_BYTES)
        url = data[len(_LINE) - len(b"http") : at]
        if at < 0 or _URL.fullmatch(url) is None:
            return False
        address = str(self.client and self.client[0]).encode()
        return super()._take(address + data[at:], data, url)
