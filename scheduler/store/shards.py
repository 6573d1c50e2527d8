"""How many shards the store has, and whether it is still the one that this process opened."""

from __future__ import annotations

import time
import uuid

import structlog

from scheduler.errors import StoreMisconfigured, StoreRefused
from scheduler.runtime.reminder import Reminder
from scheduler.store import keys
from scheduler.store.server import Script, Server

_DEFAULT_COUNT = 16
# The number of the stored format. It goes up with each kind of key, field or row that a program of
# the number before would mishandle: that one then refuses the store.
FORMAT = 10

_RAISE_SHARDS = Script("raise_shards")
_EMPTIED = "The store was emptied since this process opened it"
_REPLACED = "The store is another one than this process opened"
_log = structlog.get_logger(__name__)


class Shards:
    """The number of shards and the store's id, written at its first start. A process that asks for
    more shards raises the number; it is never lowered. `replaced`: why the store is not the one
    that was read first, by the last read; or empty."""

    def __init__(self, server: Server, wanted: int | None, *, read_only: bool = False) -> None:
        self._server = server
        self._wanted = wanted
        self._ask_again_at = 0.0
        self._reminder = Reminder()
        self._read_only = read_only
        self.count = 0
        self.store_id = ""
        self.replaced = ""

    async def read(self) -> int:
        """Reads the number; writes it the first time and raises it if due, unless `read_only`. If
        the store was replaced, returns the number that was read before. Safe to repeat."""
        wanted = 0 if self._read_only else self._wanted or 0
        new_id = "" if self._read_only or self.count else uuid.uuid4().hex
        arguments = (_DEFAULT_COUNT, wanted, FORMAT, new_id)
        try:
            count, found, store_id = await self._server.run(_RAISE_SHARDS, keys.META, arguments)
        except StoreRefused as error:
            raise StoreMisconfigured(
                f"{keys.META}, which says how many shards there are, is damaged: bring it back from"
                " a backup."
            ) from error
        if self.count and self._is_replaced(count, store_id.decode()):
            return self.count
        if found != FORMAT:
            raise StoreMisconfigured(_why_not(found))
        if count == 0:
            raise StoreMisconfigured(await self._why_empty())
        if self.count == 0 and self._wanted is not None and self._wanted < count:
            raise StoreMisconfigured(
                f"POSTDATE_SHARDS is {self._wanted}, but the store has {count} shards, "
                "and they can only become more."
            )
        self.count = int(count)
        self.store_id = store_id.decode()
        return self.count

    async def _why_empty(self) -> str:
        beats = await self._server.reads([("EXISTS", key) for key in (keys.WORKERS, keys.APIS)])
        if any(beats):
            return "The store was emptied: it has heartbeats of processes and nothing else."
        return "The store is empty: the first API or worker that starts sets it up."

    def _is_replaced(self, count: int, store_id: str) -> bool:
        other = store_id != self.store_id
        self.replaced = _EMPTIED if count == 0 else _REPLACED if other else ""
        if self.replaced:
            if self._reminder.is_due():
                _log.error("the store is not the one that was opened", reason=self.replaced)
        elif self._reminder.end():
            _log.info("the store is the one that was opened again")
        return bool(self.replaced)

    async def has(self, shard: int) -> bool:
        """Whether the store has this shard: its number may have been raised since the start."""
        return shard < self.count or shard < await self.newest()

    async def newest(self) -> int:
        """The number as the store has it now, asked at most once a second."""
        now = time.monotonic()
        if now >= self._ask_again_at:
            self._ask_again_at = now + 1.0
            await self.read()
        return self.count


def _why_not(found: int) -> str:
    """Why a store of another format is refused, and what to do."""
    advice = (
        "run the newer version that wrote it, or restore a backup from before"
        if found > FORMAT
        else "go on with the version that wrote it, which is older than the first release, or begin"
        " with an empty store"
    )
    return (
        f"The store has format {found}, and this version of Postdate reads format {FORMAT} only:"
        f" {advice}."
    )
