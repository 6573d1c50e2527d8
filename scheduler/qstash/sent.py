"""The header lines that the target of a message, or of its callback, gets beside those that were
forwarded. Pure."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.models import Invocation, Request
from scheduler.qstash.carried import opened
from scheduler.qstash.names import schedule_id_of
from scheduler.qstash.signing import Tokens
from scheduler.target.http import LINE_BREAK

USER_AGENT = "Upstash-QStash"
"""Stands among the headers of a message, as it is made, unless the caller forwards another."""

_LINES = b"Upstash-Message-Id: %b%b\r\nUpstash-Retried: %d\r\nUpstash-Signature: %b\r\n"


class SentLines:
    """Those of one account. `mac`: the HMAC-SHA256 of a text under its current key, in base64."""

    __slots__ = ("_tokens",)

    def __init__(self, mac: Callable[[bytes], bytes]) -> None:
        self._tokens = Tokens(mac)

    def of(self, invocation: Invocation, moment_ms: int) -> bytes:
        """Whole lines, for an attempt that is sent now. Raises ValueError if `door` is damaged."""
        request, retry = invocation.request, invocation.retry
        # A receiver that drops repeats must not take a callback for its message.
        kind = b"msg_cbk_" if invocation.is_callback else b"msg_"
        token = self._tokens.token(request.url, request.body, moment_ms)
        name = invocation.schedule_id[4:].encode("ascii")
        lines = _LINES % (kind, name, retry.number if retry else 0, token)
        return lines + _about(request)


def _about(request: Request) -> bytes:
    """What is the same at each attempt."""
    carried, lines = opened(request.door), b""
    if carried is not None and carried.caller_ip:
        lines = _line(b"Upstash-Caller-Ip", carried.caller_ip)
    if request.labels:
        lines += _line(b"Upstash-Label", ",".join(request.labels))
    if carried is not None and request.recurring is not None:
        schedule_id = schedule_id_of(request.recurring_id, carried.schedule_id)
        lines += _line(b"Upstash-Schedule-Id", schedule_id or "")
    return lines


def _line(name: bytes, value: str) -> bytes:
    return b"%b: %b\r\n" % (name, LINE_BREAK.sub(" ", value).encode())
