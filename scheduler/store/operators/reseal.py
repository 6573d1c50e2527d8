"""Everything sealed anew with the newest key, so that those before it can be dropped."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from scheduler import ids
from scheduler.errors import PostdateError, Unreadable
from scheduler.store import keys
from scheduler.store.client import Client
from scheduler.store.failures import translated
from scheduler.store.operators.keyrings import GONE_AFTER_MS, Keyrings, Noted
from scheduler.store.operators.shards import Shards
from scheduler.store.server import Script, Server

_SCAN_COUNT = 500
_SCHEDULES_AT_ONCE = 200
_BYTES_AT_ONCE = 1_000_000
_ACCOUNTS_AT_ONCE = 100
_MOST_WALKS = 10
_PAUSE_S = 1.0
_HELD = -1

_UNSEALED = Script("operators/unsealed")
_RESEAL = Script("operators/reseal")
_RESEAL_SECRETS = Script("operators/reseal_secrets")


class Walked(msgspec.Struct):
    """What one walk through the store came to. `found`: how much was not sealed with the newest
    key, by the key that it was sealed with (empty: it lay in clear). `whole`: no server was
    restarted or changed over meanwhile."""

    found: Counter[str] = msgspec.field(default_factory=Counter)
    requests: int = 0
    answers: int = 0
    secrets: int = 0
    held: int = 0
    unreadable: list[str] = msgspec.field(default_factory=list)
    whole: bool = True


class Resealed(msgspec.Struct):
    """What all walks came to: how many requests, targets' answers and signing secrets were sealed
    anew, how much of what is left lies in clear and is held by workers, or cannot be read; the keys
    that are forgotten, and for each that is not, why."""

    requests: int
    answers: int
    secrets: int
    held: int
    unreadable: list[str]
    forgotten: list[str]
    kept: dict[str, str]


class Resealer:
    """Walks beside whatever else is done; each change is made only to what was read."""

    def __init__(self, client: Client, server: Server, shards: Shards, keyrings: Keyrings) -> None:
        self._client = client
        self._server = server
        self._secrecy = server.secrecy
        self._shards = shards
        self._keyrings = keyrings

    async def reseal(self, walking: Callable[[Walked], None] = lambda _: None) -> Resealed:
        """Seals anew what another key than the newest sealed, or what lies in clear, and has the
        store forget the keys that nothing is left of. `walking` is told before each walk what the
        one before came to. Safe to repeat, whenever it was interrupted.

        Raises PostdateError if there is no key, or a process is running that lacks the newest.
        """
        requests = answers = secrets = 0
        for _ in range(_MOST_WALKS):
            noted = await self._keyrings.read()
            self._refuse(noted)
            await self._fence(noted)
            walked = await self._walk()
            requests, answers = requests + walked.requests, answers + walked.answers
            secrets += walked.secrets
            if walked.whole and walked.found.total() == len(walked.unreadable):
                break
            walking(walked)
            await asyncio.sleep(_PAUSE_S if walked.held else 0)
        kept = await self._forget(noted, walked)
        forgotten = sorted(noted.keys.keys() - kept.keys() - {self._secrecy.key_ids[0]})
        sealed = (requests, answers, secrets)
        return Resealed(*sealed, walked.held, walked.unreadable, forgotten, kept)

    def _refuse(self, noted: Noted) -> None:
        if not self._secrecy.has_key:
            raise PostdateError("There is no POSTDATE_SECRET_KEY to seal with.")
        newest = self._secrecy.key_ids[0]
        if lacking := noted.lacking(newest):
            raise PostdateError(
                f"These processes could not read what key {newest} seals: {_named(lacking)}. Give"
                " it to them first; one that was killed counts for another"
                f" {GONE_AFTER_MS // 60_000} minutes."
            )

    async def _fence(self, noted: Noted) -> None:
        """What somebody sealed with a key that nobody has any more may still be on its way: from
        here on it does not arrive, and what has arrived the walk meets."""
        shards = await self._shards.newest()
        for key_id in noted.keys:
            if key_id != self._secrecy.key_ids[0] and not noted.sealing(key_id):
                await self._keyrings.fence(key_id, shards)

    async def _forget(self, noted: Noted, walked: Walked) -> dict[str, str]:
        """Why each key is kept that is; the others are forgotten. `noted` is from before the walk:
        what is sealed by a key while nobody does so, and nobody has come since, it cannot have
        missed."""
        kept: dict[str, str] = {}
        for key_id, heard in noted.keys.items():
            if key_id == self._secrecy.key_ids[0]:
                continue
            if sealing := noted.sealing(key_id):
                kept[key_id] = f"processes seal with it, or did when killed: {_named(sealing)}"
            elif walked.found[key_id]:
                kept[key_id] = f"it sealed {walked.found[key_id]} that are left"
            elif not walked.whole:
                kept[key_id] = "the store was restarted or changed over meanwhile"
            elif not await self._keyrings.forget(key_id, heard):
                kept[key_id] = "a process began meanwhile that seals with it"
        return kept

    async def _walk(self) -> Walked:
        before, walked = await self._servers(), Walked()
        async for base, schedules in self._schedules():
            await self._requests(walked, base, schedules)
        async for accounts in self._accounts():
            await self._secrets(walked, accounts)
        walked.whole = await self._servers() == before
        return walked

    async def _requests(self, walked: Walked, base: str, schedules: Sequence[str]) -> None:
        """Of an account, a megabyte at a time."""
        place = 0
        while place < len(schedules):
            arguments = (self._secrecy.head, _BYTES_AT_ONCE, *schedules[place:])
            looked, found = await self._server.repeated(
                lambda arguments=arguments: self._server.run(_UNSEALED, base, arguments)  # type: ignore[misc]
            )
            place += looked
            rows: list[bytes | str] = []
            for schedule, field, stored in zip(*[iter(found)] * 3, strict=True):
                what = ids.schedule_id(schedule.decode())
                if sealed := self._sealed(walked, what, stored):
                    rows += (schedule, field, stored, sealed)
            if rows:
                codes = await self._server.repeated(
                    lambda rows=rows: self._server.write(_RESEAL, base, rows)  # type: ignore[misc]
                )
                done = Counter(zip(rows[1::4], codes, strict=True))
                walked.requests += done[b"r", 1]
                walked.answers += done[b"s", 1]
                walked.held += codes.count(_HELD)

    async def _secrets(self, walked: Walked, accounts: Sequence[str]) -> None:
        replies = await self._server.reads(
            [("LRANGE", keys.account(each) + keys.SIGNING, 0, -1) for each in accounts]
        )
        for account_id, entries in zip(accounts, replies, strict=True):
            rows: list[bytes] = []
            for entry in entries:
                *parts, stored = entry.split(b" ", 3)
                if not stored.startswith(self._secrecy.head):
                    what = f"the signing secret {parts[0].decode()} of {account_id}"
                    if sealed := self._sealed(walked, what, stored):
                        rows += (entry, b" ".join((*parts, sealed)))
            if rows:
                base = keys.account(account_id)
                walked.secrets += await self._server.repeated(
                    lambda base=base, rows=rows: self._server.write(_RESEAL_SECRETS, base, rows)  # type: ignore[misc]
                )

    def _sealed(self, walked: Walked, what: str, stored: bytes) -> bytes | None:
        """The same, sealed with the newest key; None if it cannot be read."""
        walked.found[self._secrecy.key_id_of(stored)] += 1
        try:
            return self._secrecy.seal(self._secrecy.open(stored))
        except Unreadable as error:
            walked.unreadable.append(f"{what}: {error}")
            return None

    async def _schedules(self) -> AsyncIterator[tuple[str, list[str]]]:
        """All that are stored, some of one account at a time, with the prefix of its keys."""
        by_account: dict[str, list[str]] = {}
        count = 0
        with translated():
            names = self._client.scan_iter(match=keys.schedule_pattern(), count=_SCAN_COUNT)
            async for name in names:
                base, _, schedule = name.decode().rpartition(keys.SCHEDULE)
                by_account.setdefault(base, []).append(schedule)
                count += 1
                if count == _SCHEDULES_AT_ONCE:
                    for each in by_account.items():
                        yield each
                    by_account, count = {}, 0
        for each in by_account.items():
            yield each

    async def _accounts(self) -> AsyncIterator[list[str]]:
        for shard in range(await self._shards.newest()):
            some: list[str] = []
            with translated():
                scan = self._client.zscan_iter(keys.shard(shard) + keys.ACCOUNTS, count=_SCAN_COUNT)
                async for local, _ in scan:
                    some.append(ids.account_id(shard, local.decode()))
                    if len(some) == _ACCOUNTS_AT_ONCE:
                        yield some
                        some = []
            yield some

    async def _servers(self) -> object:
        """Who has what. A walk through a server that another one takes over from has gaps."""
        with translated():
            if not self._server.routed:
                return (await self._client.info("server")).get("run_id")
            nodes = await self._client.info("server", target_nodes="primaries")
            slots = await self._client.execute_command("CLUSTER SLOTS")
        runs = {name: told["run_id"] for name, told in nodes.items()}
        return runs, sorted((span, told["primary"]) for span, told in slots.items())


def _named(processes: Sequence[str]) -> str:
    shown = ", ".join(processes[:5])
    more = len(processes) - 5
    return f"{shown} and {more} more" if more > 0 else shown
