"""What the client raises, and what the store makes of it."""

from __future__ import annotations

import asyncio

import pytest
import uvloop
from redis import exceptions

from scheduler.errors import (
    OutcomeUnknown,
    StoreError,
    StoreMisconfigured,
    StoreRefused,
    StoreUnavailable,
)
from scheduler.store.connection import translated
from tests.servers import ValkeyProcess

NOT_NOW: list[Exception] = [
    exceptions.ReadOnlyError("You can't write against a read only replica."),
    exceptions.MasterDownError("Link with MASTER is down"),
    exceptions.ClusterDownError("The cluster is down"),
    exceptions.TryAgainError("Multiple keys request during rehashing of slot"),
    exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'"),
    exceptions.ResponseError("MISCONF Errors writing to the AOF file"),
    exceptions.ResponseError("BUSY Redis is busy running a script."),
    exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."),
    exceptions.BusyLoadingError("Redis is loading the dataset in memory"),
    exceptions.ConnectionError("Error 111 connecting to localhost:6379. Connection refused."),
]


@pytest.mark.parametrize("raised", NOT_NOW, ids=lambda error: f"{type(error).__name__}: {error}")
def test_a_server_that_cannot_do_it_now_is_unavailable(raised: Exception) -> None:
    with pytest.raises(StoreUnavailable), translated():
        raise raised


@pytest.mark.parametrize(
    ("raised", "becomes"),
    [
        (exceptions.ConnectionError("Connection closed by server."), OutcomeUnknown),
        (exceptions.TimeoutError("Timeout reading from socket"), OutcomeUnknown),
        (exceptions.AuthenticationError("invalid password"), StoreMisconfigured),
        (exceptions.NoPermissionError("no permissions"), StoreMisconfigured),
        (exceptions.ResponseError("WRONGTYPE Operation against a key"), StoreRefused),
        (RuntimeError("unable to perform operation; the handler is closed"), StoreUnavailable),
        (RuntimeError("something else"), OutcomeUnknown),
        (AttributeError("'NoneType' object has no attribute 'readline'"), OutcomeUnknown),
        (ConnectionResetError(104, "Connection reset by peer"), OutcomeUnknown),
    ],
)
def test_what_is_lost_refused_or_hopeless_is_told_apart(
    raised: Exception, becomes: type[StoreError]
) -> None:
    with pytest.raises(becomes), translated():
        raise raised


@pytest.mark.parametrize("raised", [KeyError("x"), ValueError("x"), AssertionError("x")])
def test_a_mistake_of_ours_is_not_the_stores(raised: Exception) -> None:
    with pytest.raises(type(raised)), translated():
        raise raised


def test_uvloop_says_so_when_nothing_can_have_been_written(valkey: ValkeyProcess) -> None:
    """Its word for a connection that was gone before it was used: what becomes of it above."""

    async def write_to_what_is_closed() -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_unix_connection(asyncio.Protocol, str(valkey.socket))
        transport.abort()
        await asyncio.sleep(0.01)
        transport.write(b"PING\r\n")

    with pytest.raises(StoreUnavailable), translated():
        uvloop.run(write_to_what_is_closed())
