"""The keys that sealed something in the store, and everything sealed anew with the newest of them.

Each key has a field in `pd:meta`: `Server` notes a key before the first write that it sealed, a
reseal drops it. Without a noted key no process starts; a running one reports it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
import structlog

from scheduler import ids
from scheduler.errors import PostdateError, StoreMisconfigured, Unreadable
from scheduler.runtime.reminder import Reminder
from scheduler.store import keys
from scheduler.store.check.damage import accounts_of, noting_damage, text
from scheduler.store.heads import head_of
from scheduler.store.operators.heartbeats import KEY_IDS, Heartbeats
from scheduler.store.queries.reading import read_rows
from scheduler.store.secrecy import NOTE
from scheduler.store.server import Script, Server
from scheduler.store.shards import Shards
from scheduler.store.stored import FIELDS, RESPONSE

# Whose requests are sealed: schedules', and those that recurring schedules make others of.
_KINDS = {keys.SCHEDULE: keys.ALL_SCHEDULES, keys.RULE: keys.ALL_RULES}
_SCHEDULES_AT_ONCE = 200
_MOST_WALKS = 10
_PAUSE_S = 1.0
_HELD, _DAMAGED = -1, -2
# A process that was silent for longer is gone, and not frozen or cut off for a while.
_GONE_AFTER_MS = 180_000

KEYS_READ_EVERY_S = 10.0
_log = structlog.get_logger(__name__)

_RESEAL = Script("operators/reseal")
_RESEAL_SECRETS = Script("operators/reseal_secrets")


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

    def _advice(self) -> str:
        have = ", ".join(self._secrecy.key_ids) or "none"
        one = len(self.missing) == 1
        return (
            f"Some of what is stored was encrypted with key{'' if one else 's'}"
            f" {', '.join(sorted(self.missing))}: add {'it' if one else 'them'} to"
            f" POSTDATE_SECRET_KEY, after the newer ones (it has {have}). If a key is lost for"
            " good, `postdate reseal --forget KEY` drops it."
        )


class Resealed(msgspec.Struct):
    """The counts sealed anew by all walks, and left in clear by the last because workers hold them;
    a sentence for each unreadable thing; the forgotten keys, and why others are kept."""

    requests: int = 0
    answers: int = 0
    secrets: int = 0
    held: int = 0
    unreadable: list[str] = msgspec.field(default_factory=list)
    forgotten: list[str] = msgspec.field(default_factory=list)
    kept: dict[str, str] = msgspec.field(default_factory=dict)


class _ResealWalk(msgspec.Struct):
    """One walk through the store. `found`: entries not sealed with the newest key, by the key that
    sealed it (empty: in clear); `left`: the unreadable ones among them. `whole`: no server was
    restarted or changed over meanwhile."""

    done: Resealed
    found: Counter[str] = msgspec.field(default_factory=Counter)
    left: int = 0
    whole: bool = True

    @property
    def finished(self) -> bool:
        """Whether another walk would find no more to do."""
        return self.whole and self.found.total() == self.left


class Resealer:
    """Walks beside all other calls; each change applies only to the value that was read."""

    def __init__(
        self,
        server: Server,
        shards: Shards,
        sealing_keys: SealingKeys,
        heartbeats: Sequence[Heartbeats],
    ) -> None:
        self._server = server
        self._secrecy = server.secrecy
        self._shards = shards
        self._sealing_keys = sealing_keys
        self._heartbeats = heartbeats

    async def reseal(
        self,
        tell: Callable[[Resealed], None] = lambda _: None,
        *,
        lost_keys: Sequence[str] = (),
    ) -> Resealed:
        """Seals anew what the newest key did not seal, and forgets keys that nothing is left of;
        those of `lost_keys` even if unreadable things are left. `tell` gets what is done so far,
        after each step. Safe to repeat. Raises PostdateError without a key, or if a running process
        does not seal with the newest one."""
        if not self._secrecy.key_ids:
            raise PostdateError("There is no POSTDATE_SECRET_KEY to seal with.")
        await self._refuse_while_others_seal()
        done = Resealed()
        for _ in range(_MOST_WALKS):
            walk = await self._walk(done, tell)
            if walk.finished:
                break
            await asyncio.sleep(_PAUSE_S if done.held else 0)
        await self._refuse_while_others_seal()
        await self._forget(walk, lost_keys)
        return done

    async def _refuse_while_others_seal(self) -> None:
        newest = self._secrecy.key_ids[0]
        others = [
            each.process_id
            for role in self._heartbeats
            for each in await role.running(_GONE_AFTER_MS)
            if each.says.get(KEY_IDS, [])[:1] != [newest]
        ]
        if others:
            raise PostdateError(
                f"These processes do not seal with the newest key, {newest}: {', '.join(others)}."
                " Put it first in their POSTDATE_SECRET_KEY and restart them. One that was killed"
                f" counts for another {_GONE_AFTER_MS // 60_000} minutes."
            )

    async def _forget(self, walk: _ResealWalk, lost_keys: Sequence[str]) -> None:
        noted = await self._sealing_keys.read()
        for key_id in sorted(noted - {self._secrecy.key_ids[0]}):
            if key_id not in lost_keys and walk.found[key_id]:
                walk.done.kept[key_id] = f"it sealed {walk.found[key_id]} that are left"
            elif key_id not in lost_keys and not walk.whole:
                walk.done.kept[key_id] = "the store was restarted or changed over meanwhile"
            else:
                await self._server.call("HDEL", keys.META, NOTE + key_id)
                walk.done.forgotten.append(key_id)

    async def _walk(self, done: Resealed, tell: Callable[[Resealed], None]) -> _ResealWalk:
        done.held, done.unreadable = 0, []
        before, walk = await self._servers(), _ResealWalk(done)
        for kind, pattern in _KINDS.items():
            async for names in self._server.keys(pattern, _SCHEDULES_AT_ONCE):
                by_account: dict[str, list[str]] = {}
                for name in names:
                    base, below = map(text, keys.split(name))
                    by_account.setdefault(base, []).append(below.removeprefix(kind))
                for base, some in by_account.items():
                    await self._requests(walk, base, kind, some)
                    tell(done)
        async for account_id in accounts_of(self._server, self._shards, done.unreadable):
            await self._secrets(walk, account_id)
        walk.whole = await self._servers() == before
        return walk

    async def _requests(self, walk: _ResealWalk, base: str, kind: str, some: Sequence[str]) -> None:
        """Of an account, a megabyte at a time."""
        fields = (*FIELDS, RESPONSE) if kind == keys.SCHEDULE else ("r",)
        while some:
            read = await read_rows(self._server, base, some, fields=fields, kind=kind)
            rows: list[bytes | str] = []
            for local, found in zip(some, read, strict=False):
                what = _named(kind + local)
                if found.packed == b"":
                    walk.done.unreadable.append(f"{what}: its key is damaged")
                each_sealed = ("r", found.packed), ("s", found.said), (RESPONSE, found.response)
                for field, stored in each_sealed:
                    head, packed = head_of(stored or b"") if field == "r" else (b"", stored)
                    if packed and (sealed := self._sealed(walk, what, packed)):
                        rows += (kind + local, field, head + packed, head + sealed)
            if rows:
                await self._replace(walk, base, rows)
            some = some[len(read) :]

    async def _replace(self, walk: _ResealWalk, base: str, rows: list[bytes | str]) -> None:
        """`rows`: key, field, what it holds, the same sealed anew, …"""
        codes = await self._server.write_until_answered(_RESEAL, base, rows)
        done = Counter(zip(rows[1::4], codes, strict=True))
        walk.done.requests += done["r", 1]
        walk.done.answers += done["s", 1] + done[RESPONSE, 1]
        walk.done.held += codes.count(_HELD)
        for key, code in zip(rows[::4], codes, strict=True):
            if code == _DAMAGED:
                walk.left += 1
                what = _named(str(key))
                walk.done.unreadable.append(f"{what}: what its account weighs is damaged")

    async def _secrets(self, walk: _ResealWalk, account_id: str) -> None:
        with noting_damage(walk.done.unreadable, f"what signs for {account_id}"):
            base = keys.account(account_id)
            rows: list[bytes] = []
            for entry in await self._server.read("LRANGE", base + keys.SIGNING, 0, -1):
                *parts, stored = entry.split(b" ", 3)
                what = f"the signing secret {text(parts[0])} of {account_id}"
                if sealed := self._sealed(walk, what, stored):
                    rows += (entry, b" ".join((*parts, sealed)))
            url = await self._server.read("HGET", base + keys.CALLBACK, "url")
            what = f"the URL for callbacks of {account_id}"
            if url and (sealed := self._sealed(walk, what, url)):
                rows += (url, sealed)
            if rows:
                walk.done.secrets += await self._server.write_until_answered(
                    _RESEAL_SECRETS, base, rows
                )

    def _sealed(self, walk: _ResealWalk, what: str, stored: bytes) -> bytes | None:
        """The same, sealed with the newest key; None if it is already, or cannot be read."""
        if stored.startswith(self._secrecy.head):
            return None
        walk.found[self._secrecy.key_id_of(stored)] += 1
        try:
            return self._secrecy.seal(self._secrecy.open(stored))
        except Unreadable as error:
            walk.left += 1
            walk.done.unreadable.append(f"{what}: {error}")
            return None

    async def _servers(self) -> object:
        """Who has what. A walk through a server that another one takes over from has gaps."""
        servers = await self._server.infos("server")
        runs = {name: each.get("run_id") for name, each in servers.items()}
        if not self._server.routed:
            return runs
        slots = await self._server.ask("CLUSTER", "SLOTS")
        return runs, sorted((first, last, primary) for first, last, primary, *_ in slots)


def _named(key: str) -> str:
    """The id of what has a key, by that below its account's prefix."""
    rule = key.removeprefix(keys.RULE)
    return ids.schedule_id(key) if rule == key else ids.recurring_id(rule)
