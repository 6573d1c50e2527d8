"""Everything sealed anew with the newest key, so that those before it can be dropped."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from scheduler import ids
from scheduler.errors import PostdateError, Unreadable
from scheduler.store import keys
from scheduler.store.operators.damage import accounts_of, text, told
from scheduler.store.operators.heartbeats import KEY_IDS, Heartbeats
from scheduler.store.operators.sealing_keys import SealingKeys
from scheduler.store.queries.reading import read_rows
from scheduler.store.server import Script, Server
from scheduler.store.shards import Shards

_SCHEDULES_AT_ONCE = 200
_MOST_WALKS = 10
_PAUSE_S = 1.0
_HELD, _DAMAGED = -1, -2
# A process that was silent for longer is gone, and not frozen or cut off for a while.
_GONE_AFTER_MS = 180_000

_RESEAL = Script("operators/reseal")
_RESEAL_SECRETS = Script("operators/reseal_secrets")


class Walked(msgspec.Struct):
    """What one walk through the store came to. `found`: what was not sealed with the newest key, by
    the key that sealed it (empty: in clear). `unreadable`: a sentence for each such thing, `left`
    as it is. `whole`: no server was restarted or changed over meanwhile."""

    found: Counter[str] = msgspec.field(default_factory=Counter)
    requests: int = 0
    answers: int = 0
    secrets: int = 0
    held: int = 0
    left: int = 0
    unreadable: list[str] = msgspec.field(default_factory=list)
    whole: bool = True

    @property
    def finished(self) -> bool:
        """Whether another walk would find no more to do."""
        return self.whole and self.found.total() == self.left


class Resealed(msgspec.Struct):
    """What all walks came to: what was sealed anew; how much still lies in clear because workers
    hold it, and what cannot be read; the keys that are forgotten, and why others are not."""

    requests: int
    answers: int
    secrets: int
    held: int
    unreadable: list[str]
    forgotten: list[str]
    kept: dict[str, str]


class Resealer:
    """Walks beside whatever else is done; each change is made only to what was read."""

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
        walking: Callable[[Walked], None] = lambda _: None,
        *,
        lost_keys: Sequence[str] = (),
    ) -> Resealed:
        """Seals anew what the newest key did not seal, and forgets keys that nothing is left of;
        those of `lost_keys` even if unreadable things are left. `walking` is called before each
        further walk with the one before. Safe to repeat. Raises PostdateError if there is no key,
        or if a running process does not seal with the newest one."""
        if not self._secrecy.has_key:
            raise PostdateError("There is no POSTDATE_SECRET_KEY to seal with.")
        await self._refuse_while_others_seal()
        requests = answers = secrets = 0
        for _ in range(_MOST_WALKS):
            walked = await self._walk()
            requests, answers = requests + walked.requests, answers + walked.answers
            secrets += walked.secrets
            if walked.finished:
                break
            walking(walked)
            await asyncio.sleep(_PAUSE_S if walked.held else 0)
        await self._refuse_while_others_seal()
        forgotten, kept = await self._forget(walked, lost_keys)
        sealed = (requests, answers, secrets)
        return Resealed(*sealed, walked.held, walked.unreadable, forgotten, kept)

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
                f"These processes do not seal with the newest key, {newest}: {_named(others)}. Put"
                " it first in their POSTDATE_SECRET_KEY and restart them. One that was killed"
                f" counts for another {_GONE_AFTER_MS // 60_000} minutes."
            )

    async def _forget(
        self, walked: Walked, lost_keys: Sequence[str]
    ) -> tuple[list[str], dict[str, str]]:
        """The keys that were forgotten, and for each that was not, why."""
        forgotten: list[str] = []
        kept: dict[str, str] = {}
        noted = await self._sealing_keys.read()
        for key_id in sorted(noted - {self._secrecy.key_ids[0]}):
            if key_id not in lost_keys:
                if walked.found[key_id]:
                    kept[key_id] = f"it sealed {walked.found[key_id]} that are left"
                elif not walked.whole:
                    kept[key_id] = "the store was restarted or changed over meanwhile"
            if key_id not in kept:
                await self._sealing_keys.forget(key_id)
                forgotten.append(key_id)
        return forgotten, kept

    async def _walk(self) -> Walked:
        before, walked = await self._servers(), Walked()
        async for names in self._server.keys(keys.ALL_SCHEDULES, _SCHEDULES_AT_ONCE):
            by_account: dict[str, list[str]] = {}
            for name in names:
                base, _, schedule = text(name).rpartition(keys.SCHEDULE)
                by_account.setdefault(base, []).append(schedule)
            for base, schedules in by_account.items():
                await self._requests(walked, base, schedules)
        async for account_id in accounts_of(self._server, self._shards, walked.unreadable):
            await self._secrets(walked, account_id)
        walked.whole = await self._servers() == before
        return walked

    async def _requests(self, walked: Walked, base: str, schedules: Sequence[str]) -> None:
        """Of an account, a megabyte at a time."""
        while schedules:
            read = await read_rows(self._server, base, schedules)
            rows: list[bytes | str] = []
            for schedule, fields in zip(schedules, read, strict=False):
                what = ids.schedule_id(schedule)
                if fields.packed == b"":
                    walked.unreadable.append(f"{what}: its key is damaged")
                for field, stored in (("r", fields.packed), ("s", fields.said)):
                    if stored and (sealed := self._sealed(walked, what, stored)):
                        rows += (schedule, field, stored, sealed)
            if rows:
                await self._replace(walked, base, rows)
            schedules = schedules[len(read) :]

    async def _replace(self, walked: Walked, base: str, rows: list[bytes | str]) -> None:
        """`rows`: schedule, field, what it holds, the same sealed anew, …"""
        codes = await self._server.write_until_answered(_RESEAL, base, rows)
        done = Counter(zip(rows[1::4], codes, strict=True))
        walked.requests += done["r", 1]
        walked.answers += done["s", 1]
        walked.held += codes.count(_HELD)
        for schedule, code in zip(rows[::4], codes, strict=True):
            if code == _DAMAGED:
                walked.left += 1
                walked.unreadable.append(f"sch_{schedule!s}: what its account weighs is damaged")

    async def _secrets(self, walked: Walked, account_id: str) -> None:
        with told(walked.unreadable, f"what signs for {account_id}"):
            base = keys.account(account_id)
            rows: list[bytes] = []
            for entry in await self._server.read("LRANGE", base + keys.SIGNING, 0, -1):
                *parts, stored = entry.split(b" ", 3)
                what = f"the signing secret {text(parts[0])} of {account_id}"
                if sealed := self._sealed(walked, what, stored):
                    rows += (entry, b" ".join((*parts, sealed)))
            if rows:
                walked.secrets += await self._server.write_until_answered(
                    _RESEAL_SECRETS, base, rows
                )

    def _sealed(self, walked: Walked, what: str, stored: bytes) -> bytes | None:
        """The same, sealed with the newest key; None if it is already, or cannot be read."""
        if stored.startswith(self._secrecy.head):
            return None
        walked.found[self._secrecy.key_id_of(stored)] += 1
        try:
            return self._secrecy.seal(self._secrecy.open(stored))
        except Unreadable as error:
            walked.left += 1
            walked.unreadable.append(f"{what}: {error}")
            return None

    async def _servers(self) -> object:
        """Who has what. A walk through a server that another one takes over from has gaps."""
        servers = await self._server.infos("server")
        runs = {name: each.get("run_id") for name, each in servers.items()}
        if not self._server.routed:
            return runs
        slots = await self._server.ask("CLUSTER", "SLOTS")
        return runs, sorted((first, last, primary) for first, last, primary, *_ in slots)


def _named(processes: Sequence[str]) -> str:
    shown = ", ".join(processes[:5])
    more = len(processes) - 5
    return f"{shown} and {more} more" if more > 0 else shown
