"""The connections of the asynchronous client: aiohttp, in httpx's terms.

httpx's own pool takes three to five times as much CPU for a create (`benchmarks.client`).
httpx-aiohttp reports a lost answer as a failed connect, which hides that the request may be done.
"""

from __future__ import annotations

import asyncio
import io
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import aiohttp
import httpx
from yarl import URL

_CONNECTIONS = 100
# One that was idle for longer is not used again: something on the way may have dropped it.
_IDLE_S = 5.0
# A body is given as much time as it needs on a link of this speed.
_SLOWEST_BYTES_PER_S = 64 * 1024
_AT_ONCE_BYTES = 64 * 1024
# aiohttp would add them; only the client's own headers are sent.
_NOT_ADDED = ("accept", "accept-encoding", "content-type", "user-agent")


class Transport:
    """Up to 100 connections, each kept for 5 idle seconds. Callers wait for one in order and
    without a timeout. The request's extension `timeout` is as httpx has it, for connecting and for
    each read; `trace` is called when it has a connection."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        self._open: dict[asyncio.AbstractEventLoop, _Open] = {}

    async def send(self, request: httpx.Request) -> httpx.Response:
        """The answer, read to its end. Raises httpx.RequestError."""
        opened = await self._opened()
        async with opened.turns:
            await request.extensions["trace"]("turn.started", {})
            with _translated():
                return await self._exchange(opened.session, request)

    async def aclose(self) -> None:
        """Closes the connections of this event loop, and of those that have ended."""
        await self._close_ended()
        opened = self._open.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            await opened.session.close()

    def abandon(self) -> None:
        """In a fork: all that was opened stays the parent's."""
        for opened in self._open.values():
            opened.session.detach()

    async def _opened(self) -> _Open:
        """Connections belong to the event loop in which they were made."""
        loop = asyncio.get_running_loop()
        opened = self._open.get(loop)
        if opened is None:
            opened = self._open[loop] = _Open.here(self._tls)
            await self._close_ended()
        return opened

    async def _close_ended(self) -> None:
        for loop in [each for each in list(self._open) if each.is_closed()]:
            opened = self._open.pop(loop, None)
            if opened is not None:
                await opened.session.close()

    async def _exchange(
        self, session: aiohttp.ClientSession, request: httpx.Request
    ) -> httpx.Response:
        async with session.request(
            request.method,
            URL(str(request.url), encoded=True),
            headers=request.headers.items(),
            data=_data(request.content),
            allow_redirects=False,
            timeout=_timeouts(request),
        ) as answer:
            body = await answer.read()
        reason = (answer.reason or "").encode()
        return httpx.Response(
            answer.status,
            headers=answer.raw_headers,
            content=body,
            extensions={"reason_phrase": reason},
        )


class _Open(NamedTuple):
    """The connections of one event loop."""

    session: aiohttp.ClientSession
    turns: asyncio.Semaphore

    @classmethod
    def here(cls, tls: ssl.SSLContext | None) -> _Open:
        # A limit of the connector's would count the waiting for a connection as connecting.
        connector = _Connector(
            limit=0,
            ssl=True if tls is None else tls,
            keepalive_timeout=_IDLE_S,
            # Not what happens to be installed beside us: the system's, as in the blocking client.
            resolver=aiohttp.ThreadedResolver(),
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_NOT_ADDED,
            auto_decompress=False,  # httpx does that
            middlewares=(_only_once,),
        )
        return cls(session, asyncio.Semaphore(_CONNECTIONS))


class _Connector(aiohttp.TCPConnector):
    """aiohttp's would close its parent's connections when a fork drops it: it would end their TLS,
    and take them out of the epoll that parent and child share."""

    def __init__(self, **options: Any) -> None:
        self._pid = os.getpid()
        super().__init__(**options)

    def __del__(self, *_: Any) -> None:
        if self._pid == os.getpid():
            super().__del__()


def _timeouts(request: httpx.Request) -> aiohttp.ClientTimeout:
    """aiohttp has no timeout for writing, so the whole exchange has one."""
    timeout = request.extensions["timeout"]
    at_most_s = timeout["connect"] + timeout["write"] + timeout["read"]
    return aiohttp.ClientTimeout(
        total=at_most_s + len(request.content) / _SLOWEST_BYTES_PER_S,
        connect=timeout["connect"],
        sock_read=timeout["read"],
    )


def _data(content: bytes) -> bytes | io.BytesIO | None:
    """A large body goes out in pieces, so that other requests have their turn."""
    if len(content) > _AT_ONCE_BYTES:
        return io.BytesIO(content)
    return content or None


async def _only_once(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Without this, aiohttp would repeat a lost GET or DELETE and hide that the first may have been
    carried out: it does not repeat after these errors."""
    with _translated():
        return await send(request)


@contextmanager
def _translated() -> Iterator[None]:
    """aiohttp's errors as httpx's. Unless it surely was not sent, the answer was lost."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise httpx.ConnectTimeout(str(error)) from error
    except aiohttp.ClientConnectorError as error:
        raise httpx.ConnectError(str(error.__cause__ or error)) from error
    except aiohttp.InvalidURL as error:
        raise httpx.UnsupportedProtocol(str(error)) from error
    except aiohttp.ClientResponseError as error:
        raise httpx.RemoteProtocolError(f"what came is not HTTP: {error.message}") from error
    except TimeoutError as error:
        raise httpx.ReadTimeout(str(error)) from error
    except (aiohttp.ClientError, OSError) as error:
        raise httpx.ReadError(str(error)) from error
