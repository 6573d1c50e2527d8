"""Handshakes: TLS on connections that are there, a few steps of it in each round of the loop.

A step takes a millisecond, or several with a large certificate. What targets answer stays in the
kernel until it is the account's turn.
"""

from __future__ import annotations

import asyncio
import ctypes
import selectors
import socket
import ssl
import sys
from typing import Any, cast

from worker.fair_share import FairQueue, FairShare
from worker.loop_budget import LoopBudget, bound_reading
from worker.send.certificates import Certificate, why_invalid
from worker.send.outcome import NO_TLS
from worker.send.sockets import reset

_STEPS_IN_A_ROUND = 4
# OpenSSL would take 100 KiB of certificates, and keep half a megabyte of names for each connection.
MAX_HANDSHAKE_BYTES = 32 * 1024
# struct tcp_info: tcpi_bytes_received, since Linux 4.1.
_TCP_INFO_BYTES, _RECEIVED = 136, slice(128, 136)
# A larger chain that is not valid is not looked at: it takes milliseconds.
_MOST_EXAMINED_BYTES = 12 * 1024
_DER = 2  # _ssl.ENCODING_DER
# Bytes of a handshake beyond this take eight times as much while the connection lasts, because
# OpenSSL makes a structure of each name of a certificate. So all of it together is bounded.
_USUAL_BYTES = 4 * 1024
_MOST_UNUSUAL_BYTES = 8 * 1024 * 1024
_NO_LIMIT_S = 86_400.0  # the fire has one
# mallopt(3): blocks of at least this size are mapped, each by itself, and unmapped when freed.
_M_MMAP_THRESHOLD, _MAPPED_BYTES = -3, 128 * 1024


def map_large_blocks() -> None:
    """Have glibc return large blocks to the system as they are freed. No effect elsewhere.

    uvloop allocates 256 KiB for each TLS connection. The first one freed would raise glibc's
    threshold above that: later ones would come from a heap that hardly ever shrinks (0.4 GB).
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)


class PausedProtocol(asyncio.Protocol):
    """Reads nothing until TLS takes over. uvloop cannot pause so early, and what comes is lost: a
    target that speaks TLS waits to be spoken to."""

    was_called = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).pause_reading()
        bound_reading(transport)

    def data_received(self, data: bytes) -> None:
        self.was_called = True


class Unexamined(ssl.SSLObject):
    """Spares the loop thousands of strings of a certificate, which is verified all the same. One
    that is not valid is looked at: its error has a note that says why."""

    def getpeercert(self, binary_form: bool = False) -> None:
        return None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as error:
            error.add_note(why_invalid(error, self._chain(), str(self.server_hostname)))
            raise

    def _chain(self) -> list[Certificate]:
        """What the target sent; empty if that would take long to read, or cannot be had."""
        inner: Any = getattr(self, "_sslobj", None)  # Python has no public way before 3.13
        unverified = getattr(inner, "get_unverified_chain", None)
        chain = (unverified and unverified()) or []
        size = sum(len(each.public_bytes(_DER)) for each in chain)
        return [each.get_info() for each in chain] if size <= _MOST_EXAMINED_BYTES else []


class _Early(asyncio.Protocol):
    """Between the handshake's end and the connection's next owner."""

    was_called = False

    def data_received(self, data: bytes) -> None:
        self.was_called = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.was_called = True


class Handshakes:
    """To be made inside a running loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._steps = LoopBudget(loop, _STEPS_IN_A_ROUND)
        # Of the connections that are not read; the loop watches this one selector for all of them.
        self._unread = selectors.DefaultSelector()
        loop.add_reader(self._unread.fileno(), self._look)
        self._unusual = FairShare(_MOST_UNUSUAL_BYTES)
        self._crowded_out: FairQueue[asyncio.Future[None]] = FairQueue()

    async def secure(
        self,
        transport: asyncio.Transport,
        protocol: asyncio.Protocol,
        context: ssl.SSLContext,
        host: str,
        account_id: str,
    ) -> int:
        """TLS over a connection that was made with `PausedProtocol`; `protocol` has it then.
        Returns its weight, for `give_back` once it has ended. Where this raises, or is cancelled,
        it closes the connection, and calls nothing of `protocol`."""
        before, early = cast("PausedProtocol", transport.get_protocol()), _Early()
        steps: asyncio.Task[asyncio.BaseTransport] | None = None
        weight = 0
        try:
            await self._steps.turn(account_id)
            began = self._loop.start_tls(
                transport,
                early,
                context,
                server_hostname=host,
                ssl_handshake_timeout=_NO_LIMIT_S,
            )
            steps = self._loop.create_task(began)  # type: ignore[arg-type]
            # Takes the exception, in case nothing waits for it any more.
            steps.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            await asyncio.sleep(0)
            # It has asked the loop to say hello and to read from then on: this comes behind that.
            self._loop.call_soon(_pause, transport)
            await asyncio.sleep(0)
            if before.was_called:
                raise ssl.SSLError(NO_TLS)
            while not steps.done():
                await self._something_to_read(transport, steps)
                if not steps.done():
                    more = _unusual_bytes(transport) - weight
                    if more > 0:
                        await self._weigh(account_id, more)
                        weight += more
                    await self._steps.turn(account_id)
                    await self._read(transport)
            secured = cast("asyncio.Transport", await steps)
            if early.was_called or secured.is_closing():
                raise ConnectionResetError  # it is gone, or speaks before it was spoken to
            secured.set_protocol(protocol)
            protocol.connection_made(secured)
            transport.resume_reading()
            return weight
        except BaseException:
            self.give_back(account_id, weight)
            if steps is not None:
                steps.cancel()
            reset(transport)
            raise
        finally:
            steps = None  # what it raised has this frame in its traceback: that would be a ring

    def give_back(self, account_id: str, weight: int) -> None:
        """A connection has ended that weighed so much."""
        if weight:
            self._unusual.give_back(account_id, weight)
            self._let_in()

    async def _weigh(self, account_id: str, weight: int) -> None:
        """Returns once there is room for it; what has been sent waits in the kernel."""
        while not self._unusual.take(account_id, weight):
            room = self._loop.create_future()
            self._crowded_out.add(account_id, room)
            self._let_in()  # the room may be another account's
            try:
                await room
            except asyncio.CancelledError:
                if not room.cancelled():
                    self._let_in()  # it was let in, and has no use for it
                raise
        self._let_in()

    def _let_in(self) -> None:
        """The next one whose account has room; that one lets in the one after it."""
        while waiting := self._crowded_out.pop_of(self._unusual.may_take):
            _, room = waiting
            if not room.done():  # else it was given up
                room.set_result(None)
                return

    def close(self) -> None:
        if self._unread.get_map() is not None:  # else it is closed
            self._loop.remove_reader(self._unread.fileno())
            self._unread.close()

    async def _read(self, transport: asyncio.Transport) -> None:
        transport.resume_reading()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        _pause(transport)

    async def _something_to_read(
        self, transport: asyncio.Transport, steps: asyncio.Task[asyncio.BaseTransport]
    ) -> None:
        """Or the handshake is over, however it ended."""
        if transport.is_closing():  # it has no socket any more, and the handshake is about to hear
            await asyncio.wait([steps])
            return
        ready: asyncio.Future[None] = self._loop.create_future()

        def over(_: object) -> None:
            if not ready.done():
                ready.set_result(None)

        descriptor = transport.get_extra_info("socket").fileno()
        self._unread.register(descriptor, selectors.EVENT_READ, over)
        steps.add_done_callback(over)
        try:
            await ready
        finally:
            steps.remove_done_callback(over)
            if self._unread.get_map() is not None:
                self._unread.unregister(descriptor)

    def _look(self) -> None:
        for key, _ in self._unread.select(0):
            key.data(None)


def _pause(transport: asyncio.Transport) -> None:
    if not transport.is_closing():
        transport.pause_reading()


def _unusual_bytes(transport: asyncio.Transport) -> int:
    """How much of a handshake, read or not, is beyond honest ones; 0 where the system does not say,
    which Linux does. Raises SSLError if that is too much."""
    if sys.platform != "linux":
        return 0
    opened = transport.get_extra_info("socket")
    info = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    received = int.from_bytes(info[_RECEIVED], sys.byteorder)
    if received > MAX_HANDSHAKE_BYTES:
        raise ssl.SSLError("its certificates are too large")
    return max(0, received - _USUAL_BYTES)
