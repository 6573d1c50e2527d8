"""The two clients."""

from __future__ import annotations

from typing import Self

import httpx

from postdate.calls import http_settings
from postdate.modes import Awaiting, Blocking
from postdate.operations import Operations

RETRY_FOR_S = 30.0
TIMEOUT_S = 10.0


class Postdate(Blocking, Operations):
    """A client of one Postdate, for one API key; threads may share it.

    What is answered with 429 or 503, or not at all, is repeated for up to `retry_for` seconds,
    never at the cost of a second credit; 0 repeats nothing. `timeout` (seconds) holds for each
    attempt. `http` is an httpx client to use instead of an own one; it stays open.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        retry_for: float = RETRY_FOR_S,
        timeout: float = TIMEOUT_S,
        http: httpx.Client | None = None,
    ) -> None:
        super().__init__(base_url, api_key, retry_for)
        self._owned = http is None
        self._http = http or httpx.Client(**http_settings(timeout))

    def close(self) -> None:
        """Closes the connections."""
        if self._owned:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncPostdate(Awaiting, Operations):
    """`Postdate` for asyncio: its methods are awaited, its lists iterated with `async for`."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        retry_for: float = RETRY_FOR_S,
        timeout: float = TIMEOUT_S,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(base_url, api_key, retry_for)
        self._owned = http is None
        self._http = http or httpx.AsyncClient(**http_settings(timeout))

    async def aclose(self) -> None:
        """Closes the connections."""
        if self._owned:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
