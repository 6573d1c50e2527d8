"""A proxy before the store that resets connections."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from pathlib import Path

from tests.servers import until_async


class ResettingProxy:
    """Stands before a server, on TCP, and resets all connections when it is told to."""

    def __init__(self, server: Path, tls: ssl.SSLContext | None = None) -> None:
        self._server = str(server)
        self._tls = tls
        self._clients: set[asyncio.StreamWriter] = set()
        self.accepted = 0
        self.closes_at_once = False

    async def __aenter__(self) -> ResettingProxy:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        port = self._listener.sockets[0].getsockname()[1]
        self.url = f"redis{'s' if self._tls else ''}://127.0.0.1:{port}/0"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()
        self.reset()
        await until_async(lambda: not self._clients, "the proxy's connections to end")

    def reset(self) -> None:
        """RST: no FIN before it, and what was on its way is gone."""
        for client in list(self._clients):
            linger = struct.pack("ii", 1, 0)
            if not client.is_closing():
                end = client.get_extra_info("socket")
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                client.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._clients.add(writer)
        up_reader, up_writer = await asyncio.open_unix_connection(self._server)
        try:
            if self.closes_at_once:
                return
            await asyncio.gather(_pass_on(reader, up_writer), _pass_on(up_reader, writer))
        finally:
            writer.transport.abort()
            up_writer.transport.abort()
            self._clients.discard(writer)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except (OSError, RuntimeError):
        pass
    writer.transport.abort()
