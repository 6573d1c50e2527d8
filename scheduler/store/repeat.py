"""Repeating what is safe to repeat, after a reply that was lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from scheduler.errors import OutcomeUnknown, StoreUnavailable

T = TypeVar("T")

_PAUSES_S = (0.0, 0.05, 0.2, 0.5)
# A lost connection is known at once and is worth a repeat. A store that hangs lets each attempt
# wait for the reply's time limit: then the caller is told, instead of kept for half a minute.
_PATIENCE_S = 4.0


async def repeated(call: Callable[[], Awaitable[T]]) -> T:
    """The result of `call`, which is repeated while its reply gets lost, for a few seconds.

    Raises OutcomeUnknown if it was sent at least once and never answered, StoreUnavailable if it
    certainly never was. `call` must be safe to repeat.
    """
    maybe_done = False
    began_s = time.monotonic()
    for pause_s in _PAUSES_S:
        try:
            return await call()
        except OutcomeUnknown:
            maybe_done = True
            if time.monotonic() - began_s > _PATIENCE_S:
                raise
        except StoreUnavailable:
            if not maybe_done:
                raise
        await asyncio.sleep(pause_s)
    try:
        return await call()
    except StoreUnavailable as error:
        if maybe_done:
            raise OutcomeUnknown("The store's answer was lost") from error
        raise
