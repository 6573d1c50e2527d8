"""Scripts, or replies to them, that get lost between a store and its server, whichever it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from scheduler.errors import OutcomeUnknown
from scheduler.store import Store

REPLY, COMMAND = "the reply", "the command"


@contextmanager
def losing(store: Store, *what: str) -> Iterator[None]:
    """Loses something of the first scripts from now on: what of each is named in turn; anything
    that is neither is let through."""
    run, losses = store.server.run, list(what)

    async def lossy(*arguments: Any) -> Any:
        lost = losses.pop(0) if losses else ""
        if lost == COMMAND:
            raise OutcomeUnknown("The store's answer was lost")
        reply = await run(*arguments)
        if lost == REPLY:
            raise OutcomeUnknown("The store's answer was lost")
        return reply

    with patch.object(store.server, "run", lossy):
        yield
