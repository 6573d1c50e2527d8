"""How many shards the store has."""

from __future__ import annotations

import time

from scheduler.errors import StoreMisconfigured, StoreRefused
from scheduler.store import keys
from scheduler.store.server import Script, Server

_DEFAULT_COUNT = 16
# Of what is stored and how. The first one that was written down is 2.
FORMAT = 4

_RAISE_SHARDS = Script("operators/raise_shards")


class Shards:
    """The number of shards, which the store itself says: written at its first start, raised when a
    process is started with a larger one, never lowered."""

    def __init__(self, server: Server, wanted: int | None) -> None:
        self._server = server
        self._wanted = wanted
        self._ask_again_at = 0.0
        self.read_only = False
        self.count = 0
        self.format = FORMAT  # no other is read

    async def read(self) -> int:
        """Reads the number, having written or raised it where that is due, unless `read_only`. Safe
        to repeat."""
        wanted = (0, 0) if self.read_only else (_DEFAULT_COUNT, self._wanted or 0)
        arguments = (*wanted, FORMAT)
        try:
            count, found = await self._server.run(_RAISE_SHARDS, keys.META, arguments)
        except StoreRefused as error:
            raise StoreMisconfigured(
                f"{keys.META}, which says how many shards there are, is damaged: bring it back from"
                " a backup."
            ) from error
        if found != FORMAT:
            advice = (
                "It was written by a newer version: run that one."
                if found > FORMAT
                else "It is from before the first release, and cannot be migrated."
            )
            raise StoreMisconfigured(
                f"The store has format {found}, and this version of Postdate reads {FORMAT} only."
                f" {advice}"
            )
        if count == 0:
            raise StoreMisconfigured(
                "The store is empty: the first API or worker that starts sets it up."
            )
        if self.count == 0 and self._wanted is not None and self._wanted < count:
            raise StoreMisconfigured(
                f"POSTDATE_SHARDS is {self._wanted}, but the store has {count} shards, "
                "and they can only become more."
            )
        self.count = int(count)
        return self.count

    async def newest(self) -> int:
        """The number as the store has it now, asked at most once a second."""
        now = time.monotonic()
        if now >= self._ask_again_at:
            self._ask_again_at = now + 1.0
            await self.read()
        return self.count
