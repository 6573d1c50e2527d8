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

NOT_NOW = StoreUnavailable


@pytest.mark.parametrize(
    ("raised", "becomes"),
    [
        (exceptions.ReadOnlyError("You can't write against a read only replica."), NOT_NOW),
        (exceptions.ClusterDownError("The cluster is down"), NOT_NOW),
        (exceptions.OutOfMemoryError("command not allowed when used memory > 'max'"), NOT_NOW),
        (exceptions.ResponseError("MISCONF Errors writing to the AOF file"), NOT_NOW),
        (exceptions.ResponseError("BUSY Redis is busy running a script."), NOT_NOW),
        (exceptions.BusyLoadingError("Redis is loading the dataset in memory"), NOT_NOW),
        (exceptions.ConnectionError("Connection closed by server."), OutcomeUnknown),
        (exceptions.TimeoutError("Timeout reading from socket"), OutcomeUnknown),
        (exceptions.AuthenticationError("invalid password"), StoreMisconfigured),
        (exceptions.NoPermissionError("no permissions"), StoreMisconfigured),
        (exceptions.ResponseError("WRONGTYPE Operation against a key"), StoreRefused),
    ],
    ids=lambda each: f"{type(each).__name__}: {each}" if isinstance(each, Exception) else "",
)
def test_what_is_away_lost_refused_or_hopeless_is_told_apart(
    raised: Exception, becomes: type[StoreError]
) -> None:
    with pytest.raises(becomes), translated():
        raise raised
