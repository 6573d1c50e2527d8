"""Scripts, or replies to them, that get lost between a store and its server, whichever it is."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from scheduler.errors import OutcomeUnknown, anew
from scheduler.store import Store
from scheduler.store.server.scripts import Call, Script

REPLY, COMMAND = "the reply", "the command"


@contextmanager
def losing(store: Store, *what: str) -> Iterator[None]:
    """Loses something of the first scripts from now on: what of each is named in turn; anything
    that is neither is let through."""
    server, losses = store.server, list(what)
    run, run_each = server.run, server.run_each

    async def lossy(*arguments: Any) -> Any:
        lost = losses.pop(0) if losses else ""
        if lost == COMMAND:
            raise OutcomeUnknown("The store's answer was lost")
        reply = await run(*arguments)
        if lost == REPLY:
            raise OutcomeUnknown("The store's answer was lost")
        return reply

    async def lossy_each(script: Script, calls: Sequence[Call]) -> list[Any]:
        lost = losses.pop(0) if losses else ""
        replies = [] if lost == COMMAND else await run_each(script, calls)
        if lost in (REPLY, COMMAND):
            return [OutcomeUnknown("The store's answer was lost")] * len(calls)
        return replies

    with patch.object(server, "run", lossy), patch.object(server, "run_each", lossy_each):
        yield


def lossy(store: Store, chance: random.Random, share: float, *paths: str) -> None:
    """Loses, from now on, that share of the scripts whose names begin so, and the replies to as
    many."""
    server = store.server
    run, run_each = server.run, server.run_each

    async def losing(call: Any, script: Script, *arguments: Any) -> Any:
        lost = chance.random() if script.path.startswith(paths) else 1.0
        if lost < share:
            raise OutcomeUnknown("The command was lost")
        reply = await call(script, *arguments)
        if lost < 2 * share:
            await asyncio.sleep(0.002)  # others may act meanwhile
            raise OutcomeUnknown("The reply was lost")
        return reply

    async def losing_each(script: Script, calls: Any) -> list[Any]:
        try:
            return list(await losing(run_each, script, calls))
        except OutcomeUnknown as error:
            return [anew(error) for _ in calls]

    server.run = partial(losing, run)  # type: ignore[method-assign]
    server.run_each = losing_each  # type: ignore[method-assign]
