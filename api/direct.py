"""The way past litestar, for what is asked most: to create a schedule.

Routing, a `Request`, its arguments and the care for errors are eight coroutines, one within the
other, around each handler; they take 20 us. A handler that needs nothing of that gets what it does
need. Its path is litestar's as well: the OpenAPI document, OPTIONS and 405 come of the route, and
it answers what is spelled in another way, as `/schedule/` is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from litestar.types import HTTPScope, Receive, Scope, Send

from api.answer import Answer
from api.errors import answered
from api.service import Service

Handler = Callable[[Service, Scope, Receive], Awaitable[Answer]]


class Direct:
    """A handler as an ASGI app: what it raises is answered as litestar has it answered."""

    def __init__(self, service: Service, handler: Handler) -> None:
        self._service = service
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cast("dict[str, Any]", scope)["path_template"] = scope["path"]
        try:
            answer = await self._handler(self._service, scope, receive)
        except Exception as error:
            answer = answered(error, cast("HTTPScope", scope), self._service)
        await answer(scope, receive, send)
