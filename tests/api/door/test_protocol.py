"""A connection and the transport that it is read by."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

from uvicorn.server import ServerState

from api.door.connections import ConnectionLimits
from api.door.protocol import Protocol
from api.serve import uvicorn_config
from scheduler.runtime.settings import Settings

HEAD = b"POST /schedule/batch HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n"


async def asks(scope: object, receive: object, send: object) -> None:
    """An app that answers nothing."""
    await asyncio.Event().wait()


async def test_a_client_that_sends_fast_is_read_once_in_a_round_of_the_loop() -> None:
    config = uvicorn_config(asks)
    config.load()
    protocol = Protocol(ConnectionLimits(Settings()), config, ServerState(), {})
    transport = Mock(asyncio.Transport)
    transport.get_extra_info.return_value = None
    transport.is_closing.return_value = False
    protocol.connection_made(transport)
    try:
        protocol.data_received(HEAD)
        assert transport.pause_reading.mock_calls == []
        protocol.data_received(b" " * 20_000)
        assert len(transport.pause_reading.mock_calls) == 1
        assert transport.resume_reading.mock_calls == []
        await asyncio.sleep(0)
        assert len(transport.resume_reading.mock_calls) == 1
        # Where the body waits to be taken, the connection is not read on.
        protocol.data_received(b" " * 100_000)
        await asyncio.sleep(0)
        assert protocol.flow.read_paused
        assert len(transport.resume_reading.mock_calls) == 1
    finally:
        protocol.connection_lost(None)
