"""The two clients."""

from __future__ import annotations

from typing import Any, Self

import httpx

from postdate.modes import Awaiting, Blocking, Sender
from postdate.operations import Operations
from postdate.proxies import LOOPBACK, is_proxied

RETRY_FOR_S = 30.0
TIMEOUT_S = 10.0


class Postdate(Blocking, Operations):
    """A client of one Postdate, for one API key; threads may share it.

    What is not given of `base_url` and `api_key` is taken from the environment: POSTDATE_URL,
    POSTDATE_API_KEY. Raises ValueError if it is not there either.

    What is answered with 429 or 503, or not at all, is repeated for up to `retry_for` seconds,
    never at the cost of a second credit; 0 repeats nothing. `timeout` (seconds) holds for each
    attempt. `http` is an httpx client to use instead of an own one; it stays open.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        retry_for: float = RETRY_FOR_S,
        timeout: float = TIMEOUT_S,
        http: httpx.Client | None = None,
    ) -> None:
        super().__init__(base_url, api_key, retry_for)
        self._owned = http is None
        self._http = http or httpx.Client(**_settings(self._base_url, timeout))

    def close(self) -> None:
        """Closes the connections."""
        if self._owned:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncPostdate(Awaiting, Operations):
    """`Postdate` for asyncio: its methods are awaited, its lists iterated with `async for`.

    Made for many calls at once: it has up to 100 connections. `http` is an httpx.AsyncClient.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        retry_for: float = RETRY_FOR_S,
        timeout: float = TIMEOUT_S,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(base_url, api_key, retry_for)
        self._owned = http is None
        self._http = http or _sender(self._base_url, timeout)

    async def aclose(self) -> None:
        """Closes the connections."""
        if self._owned:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _sender(base_url: str, timeout: float) -> Sender:
    if is_proxied(base_url):  # httpx knows all kinds of them
        return httpx.AsyncClient(**_settings(base_url, timeout))
    # aiohttp takes as long to import as all the rest, and the blocking client needs none of it.
    from postdate.transport import Transport

    tls = httpx.create_ssl_context() if base_url.startswith("https:") else None
    return Transport(timeout, tls)


def _settings(base_url: str, timeout: float) -> dict[str, Any]:
    """For an httpx client of our own. Waiting for one of its connections is no failure."""
    return {
        "timeout": httpx.Timeout(timeout, pool=None),
        "mounts": dict.fromkeys(LOOPBACK),
        # To read whom the system trusts takes 20 ms, and plain HTTP, which is led nowhere else,
        # has no use for it. A proxy's own certificate is verified in any case.
        "verify": not base_url.lower().startswith("http:"),
    }
