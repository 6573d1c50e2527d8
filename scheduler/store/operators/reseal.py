"""Everything sealed anew with the newest key, so that those before it can be dropped."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from scheduler import ids
from scheduler.errors import PostdateError, Unreadable
from scheduler.store import keys
from scheduler.store.operators.damage import text, told
from scheduler.store.operators.heartbeats import KEY_IDS, Heartbeats
from scheduler.store.operators.sealing_keys import SealingKeys
from scheduler.store.server import Script, Server
from scheduler.store.shards import Shards

_SCAN_COUNT = 500
_SCHEDULES_AT_ONCE = 200
_BYTES_AT_ONCE = 1_000_000
_MOST_WALKS = 10
_PAUSE_S = 1.0
_HELD, _DAMAGED = -1, -2
# A process that was silent for longer is gone, and not frozen or cut off for a while.
_GONE_AFTER_MS = 180_000

_UNSEALED = Script("operators/unsealed")
_RESEAL = Script("operators/reseal")
_RESEAL_SECRETS = Script("operators/reseal_secrets")


class Walked(msgspec.Struct):
    """What one walk through the store came to. `found`: how much was not sealed with the newest
    key, by the key that it was sealed with (empty: it lay in clear). `unreadable`: a sentence for
    each thing that could not be read, and stays as it is. `whole`: no server was restarted or
    changed over meanwhile."""

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
    """What all walks came to: how many requests, targets' answers and signing secrets were sealed
    anew, how much of what is left lies in clear and is held by workers, and what cannot be read;
    the keys that are forgotten, and for each that is not, why."""

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
        """Seals anew what another key than the newest sealed, or what lies in clear, and forgets
        the keys that nothing is left of; those of `lost_keys` though something is left that nobody
        can read. `walking` is called before each further walk with what the one before came to.
        Safe to repeat, whenever it was interrupted.

        Raises PostdateError if there is no key, or if a running process does not seal with the
        newest one.
        """
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
        async for base, schedules in self._schedules():
            await self._requests(walked, base, schedules)
        for shard in range(await self._shards.newest()):
            with told(walked.unreadable, f"the list of accounts of shard {shard}"):
                async for account_id in self._accounts(shard):
                    await self._secrets(walked, account_id)
        walked.whole = await self._servers() == before
        return walked

    async def _requests(self, walked: Walked, base: str, schedules: Sequence[str]) -> None:
        """Of an account, a megabyte at a time."""
        place = 0
        while place < len(schedules):
            arguments = (self._secrecy.head, _BYTES_AT_ONCE, *schedules[place:])
            looked, found, damaged = await self._server.repeated(
                lambda arguments=arguments: self._server.run(_UNSEALED, base, arguments)  # type: ignore[misc]
            )
            place += looked
            walked.unreadable += [f"{_schedule(each)}: its key is damaged" for each in damaged]
            rows: list[bytes | str] = []
            for schedule, field, stored in zip(*[iter(found)] * 3, strict=True):
                if sealed := self._sealed(walked, _schedule(schedule), stored):
                    rows += (schedule, field, stored, sealed)
            if rows:
                await self._replace(walked, base, rows)

    async def _replace(self, walked: Walked, base: str, rows: list[bytes | str]) -> None:
        """`rows`: schedule, field, what it holds, the same sealed anew, …"""
        codes = await self._server.repeated(lambda: self._server.write(_RESEAL, base, rows))
        done = Counter(zip(rows[1::4], codes, strict=True))
        walked.requests += done[b"r", 1]
        walked.answers += done[b"s", 1]
        walked.held += codes.count(_HELD)
        for schedule, code in zip(rows[::4], codes, strict=True):
            if code == _DAMAGED:
                walked.left += 1
                walked.unreadable.append(
                    f"{_schedule(schedule)}: what its account weighs is damaged"
                )

    async def _secrets(self, walked: Walked, account_id: str) -> None:
        with told(walked.unreadable, f"what signs for {account_id}"):
            base = keys.account(account_id)
            [entries] = await self._server.reads([("LRANGE", base + keys.SIGNING, 0, -1)])
            rows: list[bytes] = []
            for entry in entries:
                *parts, stored = entry.split(b" ", 3)
                if not stored.startswith(self._secrecy.head):
                    what = f"the signing secret {text(parts[0])} of {account_id}"
                    if sealed := self._sealed(walked, what, stored):
                        rows += (entry, b" ".join((*parts, sealed)))
            if rows:
                walked.secrets += await self._server.repeated(
                    lambda: self._server.write(_RESEAL_SECRETS, base, rows)
                )

    def _sealed(self, walked: Walked, what: str, stored: bytes) -> bytes | None:
        """The same, sealed with the newest key; None if it cannot be read."""
        walked.found[self._secrecy.key_id_of(stored)] += 1
        try:
            return self._secrecy.seal(self._secrecy.open(stored))
        except Unreadable as error:
            walked.left += 1
            walked.unreadable.append(f"{what}: {error}")
            return None

    async def _schedules(self) -> AsyncIterator[tuple[str, list[str]]]:
        """All that are stored, some of one account at a time, with the prefix of its keys."""
        async for names in self._server.keys(keys.schedule_pattern(), _SCHEDULES_AT_ONCE):
            by_account: dict[str, list[str]] = {}
            for name in names:
                base, _, schedule = text(name).rpartition(keys.SCHEDULE)
                by_account.setdefault(base, []).append(schedule)
            for each in by_account.items():
                yield each

    async def _accounts(self, shard: int) -> AsyncIterator[str]:
        accounts = keys.shard(shard) + keys.ACCOUNTS
        async for some in self._server.members("ZSCAN", accounts, _SCAN_COUNT):
            for local in some:
                yield ids.account_id(shard, text(local))

    async def _servers(self) -> object:
        """Who has what. A walk through a server that another one takes over from has gaps."""
        servers = await self._server.infos("server")
        runs = {name: each.get("run_id") for name, each in servers.items()}
        if not self._server.routed:
            return runs
        slots = await self._server.ask("CLUSTER", "SLOTS")
        return runs, sorted((first, last, primary) for first, last, primary, *_ in slots)


def _schedule(local: bytes | str) -> str:
    return ids.schedule_id(local if isinstance(local, str) else text(local))


def _named(processes: Sequence[str]) -> str:
    shown = ", ".join(processes[:5])
    more = len(processes) - 5
    return f"{shown} and {more} more" if more > 0 else shown
