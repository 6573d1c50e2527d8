"""What carries the requests of the asynchronous client: aiohttp, in httpx's terms.

httpx's own pool looks at all of its requests whenever one of them comes or goes: the more there are
at once, the slower is each. (httpx-aiohttp would do, but that it tells a lost answer as a failed
connect, so that nobody would know that the request may have been carried out.)
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import aiohttp
import httpx
from yarl import URL

_CONNECTIONS = 100
# One that was idle for longer is not used again: something on the way may have dropped it.
_IDLE_S = 5.0
# A body is given as much time as it needs on a link of this speed.
_SLOWEST_BYTES_PER_S = 64 * 1024
_AT_ONCE_BYTES = 64 * 1024
# aiohttp would add them; what is sent is what the client says.
_NOT_ADDED = ("accept", "accept-encoding", "content-type", "user-agent")


class Transport:
    """Up to 100 connections, each kept for 5 idle seconds. Who waits for one waits without a
    timeout, first come, first served; `timeout_s` is for connecting and for each read."""

    def __init__(self, timeout_s: float, tls: ssl.SSLContext | None) -> None:
        self._timeout_s = timeout_s
        self._tls = tls
        self._open: _Open | None = None
        self._closed = False

    async def send(self, request: httpx.Request) -> httpx.Response:
        """The answer, read to its end. Raises httpx.RequestError."""
        if self._closed:
            raise RuntimeError("The client has been closed.")
        opened = await self._opened()
        async with opened.turns:
            with _translated():
                return await self._exchange(opened.session, request)

    async def aclose(self) -> None:
        self._closed = True
        if self._open is not None:
            await self._open.session.close()

    async def _opened(self) -> _Open:
        """Connections belong to the event loop in which they were made."""
        loop = asyncio.get_running_loop()
        before = self._open
        if before is not None and before.loop is loop:
            return before
        opened = self._open = _Open.on(loop, self._tls)
        if before is not None:
            await before.session.close()
        return opened

    async def _exchange(
        self, session: aiohttp.ClientSession, request: httpx.Request
    ) -> httpx.Response:
        async with session.request(
            request.method,
            URL(str(request.url), encoded=True),
            headers=request.headers.items(),
            data=_data(request.content),
            allow_redirects=False,
            timeout=self._timeouts(len(request.content)),
        ) as answer:
            body = await answer.read()
        reason = (answer.reason or "").encode()
        return httpx.Response(
            answer.status,
            headers=answer.raw_headers,
            content=body,
            extensions={"reason_phrase": reason},
        )

    def _timeouts(self, content_bytes: int) -> aiohttp.ClientTimeout:
        """aiohttp has none for writing; so all together have one as well."""
        total_s = 3 * self._timeout_s + content_bytes / _SLOWEST_BYTES_PER_S
        return aiohttp.ClientTimeout(
            total=total_s, connect=self._timeout_s, sock_read=self._timeout_s
        )


class _Open(NamedTuple):
    """What belongs to one event loop."""

    loop: asyncio.AbstractEventLoop
    session: aiohttp.ClientSession
    turns: asyncio.Semaphore

    @classmethod
    def on(cls, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None) -> _Open:
        # A limit of the connector's would count the waiting for a connection as connecting.
        connector = aiohttp.TCPConnector(
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
        return cls(loop, session, asyncio.Semaphore(_CONNECTIONS))


def _data(content: bytes) -> bytes | io.BytesIO | None:
    """A large body goes out bit by bit, so that other requests have their turn meanwhile."""
    if len(content) > _AT_ONCE_BYTES:
        return io.BytesIO(content)
    return content or None


async def _only_once(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """aiohttp would repeat a lost GET or DELETE by itself, and nobody would know that an earlier
    attempt may have been carried out. It does not know the errors that this raises."""
    with _translated():
        return await send(request)


@contextmanager
def _translated() -> Iterator[None]:
    """aiohttp's errors as httpx's. What is not certain never to have been sent is a lost answer."""
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
