"""Reading a request: its headers, and its body within a limit."""

from __future__ import annotations

from litestar.types import Receive, Scope

from api.errors import BodyTooLarge, ClientDisconnected


def header(scope: Scope, name: bytes) -> bytes | None:
    """The first header of this lower-case name."""
    for key, value in scope["headers"]:
        if key == name:
            return value
    return None


async def read_body(scope: Scope, receive: Receive, limit_bytes: int) -> bytes:
    """The whole body, whatever its Content-Type claims it to be: it is read as JSON, so that
    `curl -d` works as it is.

    Raises BodyTooLarge as soon as it is known to be, before more is read.
    """
    declared = header(scope, b"content-length")
    if declared is not None and declared.isdigit() and int(declared[:20]) > limit_bytes:
        raise BodyTooLarge(limit_bytes)
    body = b""
    more = True
    while more:
        event = await receive()
        if event["type"] != "http.request":
            raise ClientDisconnected
        body = body + event["body"] if body else event["body"]
        if len(body) > limit_bytes:
            raise BodyTooLarge(limit_bytes)
        more = event["more_body"]
    return body
