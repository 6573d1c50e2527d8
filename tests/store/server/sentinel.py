"""A sentinel that says what a test has it say."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Self

import hiredis

from tests.support.cluster import port_of
from tests.support.valkey import ValkeyProcess

SERVICE = "postdate"
_CHOOSING = "master,force_failover,failover_in_progress"


class FakeSentinel:
    """`primary` is the server that it names, `choosing` whether it says that a failover is under
    way, `promoted` the replica that it knows to be the next primary. One that `refuses` wants a
    password. After `hold` it answers
    nothing until `let_go`, and then what it would have answered before."""

    def __init__(self, primary: ValkeyProcess) -> None:
        self.primary, self.epoch, self.choosing = primary, 1, False
        self.promoted: ValkeyProcess | None = None
        self.refuses = False
        self.asked = 0
        self._held = asyncio.Event()
        self.let_go()
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    def hold(self) -> None:
        self._held.clear()

    def let_go(self) -> None:
        self._held.set()

    def begin(self, service: str = SERVICE, step: str = "+try-failover") -> None:
        """A failover begins, or goes on, and that is announced."""
        self.choosing = service == SERVICE
        self.announce(step, f"master {service} 127.0.0.1 {port_of(self.primary)}")

    def announce(self, channel: str, text: str) -> None:
        for writer in self._writers:
            writer.write(_many(">", ("pmessage", channel, channel, text)))

    async def stop(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        commands = hiredis.Reader()
        while data := await reader.read(65_536):
            commands.feed(data)
            replies = b""
            while (words := commands.gets()) is not False:
                replies += self._reply([each.decode() for each in words])
            await self._held.wait()
            writer.write(replies)

    def _reply(self, words: Sequence[str]) -> bytes:
        if self.refuses:
            return b"-NOAUTH A password is wanted.\r\n"
        match words[:2]:
            case ["HELLO", _]:
                return b"%0\r\n"
            case ["PSUBSCRIBE", _]:
                return b"".join(_many(">", ("psubscribe", each, "1")) for each in words[1:])
            case ["SENTINEL", "GET-MASTER-ADDR-BY-NAME"]:
                self.asked += 1
                return _many("*", ("127.0.0.1", str(port_of(self.promoted or self.primary))))
            case ["SENTINEL", "MASTER"]:
                said = {
                    "ip": "127.0.0.1",
                    "port": str(port_of(self.primary)),
                    "flags": _CHOOSING if self.choosing else "master",
                    "config-epoch": str(self.epoch),
                }
                return _many("%", [word for each in said.items() for word in each])
            case _:
                return b"+OK\r\n"


def _many(kind: str, words: Sequence[str]) -> bytes:
    """An array (`*`), a push (`>`) or a map (`%`) of strings."""
    count = len(words) // 2 if kind == "%" else len(words)
    bulks = "".join(f"${len(each)}\r\n{each}\r\n" for each in words)
    return f"{kind}{count}\r\n{bulks}".encode()
