"""What the client raises, and what the store makes of it."""

from __future__ import annotations

import pytest
from redis import exceptions

from scheduler.errors import (
    OutcomeUnknown,
    StoreError,
    StoreMisconfigured,
    StoreRefused,
    StoreUnavailable,
)
from scheduler.store.server.failures import translated

NOT_NOW: list[Exception] = [
    exceptions.ReadOnlyError("You can't write against a read only replica."),
    exceptions.ClusterDownError("The cluster is down"),
    exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'"),
    exceptions.ResponseError("MISCONF Errors writing to the AOF file"),
    exceptions.ResponseError("BUSY Redis is busy running a script."),
    exceptions.BusyLoadingError("Redis is loading the dataset in memory"),
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
    ],
)
def test_what_is_lost_refused_or_hopeless_is_told_apart(
    raised: Exception, becomes: type[StoreError]
) -> None:
    with pytest.raises(becomes), translated():
        raise raised
