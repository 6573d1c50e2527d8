"""The two clients."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from postdate.modes import Awaiting, Blocking, Given, HttpPool, PerProcess
from postdate.operations import Operations

RETRY_FOR_S = 30.0
TIMEOUT_S = 10.0
_CLOSED = "The client has been closed."
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
# This machine is reached directly, whatever proxy the environment names: as httpx spells it.
_LOOPBACK = ("all://localhost", "all://127.0.0.1", "all://[::1]")


class Postdate(Blocking, Operations):
    """A client of one Postdate and API key; threads may share it, a fork opens its own connections.

    `base_url` defaults to POSTDATE_URL, `api_key` to POSTDATE_API_KEY; ValueError without either.

    A call without an answer, or answered with 429 or 503, is repeated for up to `retry_for` seconds
    (0: never), without costing a second credit. `timeout` (seconds) is that of each attempt: 10, or
    that of `http`. `headers` go with every request. `http` is an httpx client of your own; it stays
    open; a fork after its use gets a RuntimeError.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        retry_for: float = RETRY_FOR_S,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        http: httpx.Client | None = None,
    ) -> None:
        timeout = timeout if timeout is not None or http else TIMEOUT_S
        super().__init__(base_url, api_key, retry_for, timeout, headers)
        make = partial(HttpPool, _settings(self._base_url))
        self._http = Given(http) if http else PerProcess(make, _CLOSED)

    def close(self) -> None:
        """Closes the connections of this process, which `with_options` shares; of a copy, none."""
        if (own := self._http.close()) is not None:
            own.close()

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
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        timeout = timeout if timeout is not None or http else TIMEOUT_S
        super().__init__(base_url, api_key, retry_for, timeout, headers)
        self._http = Given(http) if http else _senders(self._base_url)

    async def aclose(self) -> None:
        """Closes the connections of this process and event loop, which `with_options` shares; of
        a copy, none."""
        if (own := self._http.close()) is not None:
            await own.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _senders(base_url: str) -> PerProcess[Any]:
    if _is_proxied(base_url):  # httpx knows all kinds of them
        return PerProcess(partial(httpx.AsyncClient, **_settings(base_url)), _CLOSED)
    # aiohttp takes as long to import as all the rest, and the blocking client needs none of it.
    from postdate.transport import Transport

    tls = httpx.create_ssl_context() if base_url.startswith("https:") else None
    return PerProcess(partial(Transport, tls), _CLOSED, Transport.abandon)


def _settings(base_url: str) -> dict[str, Any]:
    """For our own httpx client; each request says its timeout."""
    return {
        "mounts": dict.fromkeys(_LOOPBACK),
        # To read whom the system trusts takes 20 ms, and plain HTTP, which is led nowhere else,
        # has no use for it. A proxy's own certificate is verified in any case.
        "verify": not base_url.lower().startswith("http:"),
    }


def _is_proxied(base_url: str) -> bool:
    """Whether HTTP_PROXY, HTTPS_PROXY or ALL_PROXY apply, and NO_PROXY does not."""
    parts = urlsplit(base_url)
    if parts.hostname is None or parts.hostname in _LOOPBACK_HOSTS:
        return False
    proxies = getproxies()
    return bool(proxies.get(parts.scheme) or proxies.get("all")) and not proxy_bypass(
        parts.hostname
    )
