"""The hosts that tests of the SDKs send to, on this machine: one HTTPS server with a certificate of
its own authority. `worker_of_hosts` finds them here. Nothing leaves the machine."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from http import HTTPStatus
from pathlib import Path
from typing import Self
from unittest.mock import patch

import trustme
from aiohttp import web

HOSTS = (
    "mock.httpstatus.io", "example.com", "example.org", "httpbin.org", "requestcatcher.com",
    "oz.requestcatcher.com", "oz1.requestcatcher.com", "www.initial.com", "www.updated.com",
)  # fmt: skip
_PORT = 443
# What these hosts are away. The tests read a message that they have just published: it must not
# have been delivered before.
_AWAY_S = 1.5


class HttpsTarget:
    """While it is entered, processes that start trust its certificate.

    `https://mock.httpstatus.io/404` answers `404 Not Found`, and with `?sleep=2000` so many
    milliseconds later. `example.com` and `example.org` take no POST; all else is a 200.
    """

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*HOSTS).configure_cert(self._context)
        trusted = folder / "trusted.pem"
        authority.cert_pem.write_to_path(str(trusted))
        self._patch = patch.dict(os.environ, {"SSL_CERT_FILE": str(trusted)})
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        self._patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _listen(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", _answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", _PORT, ssl_context=self._context).start()


async def _answer(request: web.Request) -> web.Response:
    status = HTTPStatus.OK
    if request.host == "mock.httpstatus.io":
        status = HTTPStatus(int(request.path.strip("/")))
    elif request.host in {"example.com", "example.org"} and request.method == "POST":
        status = HTTPStatus.METHOD_NOT_ALLOWED
    away_ms = request.query.get("sleep", 1000 * _AWAY_S if status < 300 else 0)
    await asyncio.sleep(float(away_ms) / 1000)
    return web.Response(status=status, text=f"{status.value} {status.phrase}")
