"""The keys that sealed something in the store, and which of them this process lacks. Each has a
field in `pd:meta`: `Server` notes a key before the first write that it sealed,
`postdate reseal` drops it. Without a noted key no process starts; a running one reports it."""

from __future__ import annotations

import structlog

from scheduler.errors import StoreMisconfigured
from scheduler.reminder import Reminder
from scheduler.store import keys
from scheduler.store.secrecy import NOTE
from scheduler.store.server import Server

READ_EVERY_S = 10.0
_log = structlog.get_logger(__name__)


class SealingKeys:
    """`missing`: the ids of those that this process lacks, as it read them last."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._secrecy = server.secrecy
        self.missing: frozenset[str] = frozenset()
        self._reminder = Reminder()

    async def read(self) -> frozenset[str]:
        """The ids of all that are noted. A process that has sealed something notes its own again: a
        reseal may have dropped it meanwhile. Safe to repeat."""
        if self._secrecy.has_sealed:
            await self._server.note_key()
        fields = map(bytes.decode, await self._server.read("HKEYS", keys.META))
        noted = frozenset(each.removeprefix(NOTE) for each in fields if each.startswith(NOTE))
        self.missing = noted.difference(self._secrecy.key_ids)
        return noted

    async def watch(self) -> None:
        """Reads them, and logs once a minute which are missing. Safe to repeat."""
        await self.read()
        if self.missing and self._reminder.is_due():
            _log.error("a key is missing in this process", reason=self._advice())

    async def require(self) -> None:
        """Raises StoreMisconfigured if this process lacks one."""
        await self.read()
        if self.missing:
            raise StoreMisconfigured(self._advice())

    async def forget(self, key_id: str) -> None:
        """Drops the note of a key. Safe to repeat."""
        await self._server.call("HDEL", keys.META, NOTE + key_id)

    def _advice(self) -> str:
        have = ", ".join(self._secrecy.key_ids) or "none"
        one = len(self.missing) == 1
        return (
            f"Some of what is stored was encrypted with key{'' if one else 's'}"
            f" {', '.join(sorted(self.missing))}: add {'it' if one else 'them'} to"
            f" POSTDATE_SECRET_KEY, after the newer ones (it has {have}). If a key is lost for"
            " good, `postdate reseal --forget KEY` drops it."
        )
