"""The header lines that the target of a message, or of its callback, gets beside those that were
forwarded. Pure."""

from __future__ import annotations

from scheduler.ids import local
from scheduler.models import Invocation
from scheduler.qstash.carried import opened
from scheduler.qstash.names import schedule_id_of
from scheduler.target.http import LINE_BREAK

USER_AGENT = "Upstash-QStash"
"""Stands among the headers of a message, as it is made, unless the caller forwards another."""

_LINES = b"Upstash-Message-Id: %b%b\r\nUpstash-Retried: %d\r\nUpstash-Signature: %b\r\n"


def sent_lines(invocation: Invocation, token: bytes) -> bytes:
    """Whole lines, for an attempt that is sent now, with this signature."""
    request, retry, carried = invocation.request, invocation.retry, opened(invocation.request.door)
    # A receiver that drops repeats must not take a callback for its message.
    kind = b"msg_cbk_" if invocation.is_callback else b"msg_"
    name = local(invocation.schedule_id).encode()
    lines = _LINES % (kind, name, retry.number if retry else 0, token)
    given = {
        "Upstash-Caller-Ip": carried.caller_ip,
        "Upstash-Label": ",".join(request.labels),
        "Upstash-Schedule-Id": schedule_id_of(request.recurring_id, carried.schedule_id),
    }
    for about, text in given.items():
        if text:
            lines += f"{about}: {LINE_BREAK.sub(' ', text)}\r\n".encode()
    return lines
