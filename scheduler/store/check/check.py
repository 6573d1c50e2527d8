"""What must hold in the store at every moment, looked for by reading all of it. Reads are not
atomic with concurrent writes, so a fault counts only if a second look finds it too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

from scheduler import ids
from scheduler.errors import Unreadable
from scheduler.models import Status
from scheduler.store import keys, stored
from scheduler.store.accounts.signing.signing import secret_of
from scheduler.store.check.callbacks import (
    faults_of_turn,
    lacks_callback,
    misplaced_callbacks,
    mistimed_failures,
    strangers_among,
)
from scheduler.store.check.claim_turns import faults_of_heads, faults_of_lane
from scheduler.store.check.damage import (
    noting_damage,
    of_other_kinds,
    schedule_or_none,
    text,
)
from scheduler.store.check.dead_letters import faults_by_reference
from scheduler.store.check.lanes import misplaced, strangers_in
from scheduler.store.check.position_reads import read_stands
from scheduler.store.check.positions import Letters, faults_of, stand_of
from scheduler.store.check.recurring import (
    Slots,
    faults_of_lists,
    faults_of_rules,
    strangers_due,
)
from scheduler.store.check.references import misreferred, unreferred
from scheduler.store.check.reserved import faults_of_members, is_leaving, misled
from scheduler.store.check.weights import Weights
from scheduler.store.heads import heads_of, split_letter
from scheduler.store.log.entries import chunks_of, unpack_chunk
from scheduler.store.queries.reading import read_rows
from scheduler.store.retention import Retention
from scheduler.store.server import Server
from scheduler.store.stored import FIELDS, RESPONSE, Fields, ended_status

_LOOK_AGAIN_S = 0.3
_CHUNK = 200
# Of the log.
_CHUNKS = 50

_CALLED = {
    keys.WAITING: "waiting schedules",
    keys.LANED: "schedules with a lane",
    keys.HELD: "held schedules",
    keys.FAILED: "dead letters",
    keys.TRIED: "attempts",
}


class Owner(NamedTuple):
    """An account as far as its schedules are judged by it."""

    account_id: str
    base: str
    leaving: bool
    # Suspended or paused.
    stopped: bool


async def broken_invariants(
    server: Server, shards: int, kept: Retention, tell: Callable[[int], None]
) -> list[str]:
    """A sentence for each broken invariant and all damage. Read-only; walks the whole store, and
    tells how many more keys and members it has read."""
    first = await _Look(server, kept, tell).all(shards)
    if not first:
        return []
    await asyncio.sleep(_LOOK_AGAIN_S)
    second = set(await _Look(server, kept, tell).all(shards))
    return [sentence for sentence in first if sentence in second]


class _Look:
    def __init__(self, server: Server, kept: Retention, tell: Callable[[int], None]) -> None:
        self._server = server
        self._kept = kept
        self._tell = tell
        self._weights = Weights(server)
        self._found: list[str] = []
        # By the prefix of their keys; and the prefixes of shards whose accounts cannot be listed.
        self._owners: dict[str, Owner] = {}
        self._unlisted: set[str] = set()
        self._slots = Slots()

    async def all(self, shards: int) -> list[str]:
        """Each broken invariant once, though several ways lead to it."""
        self._found += await of_other_kinds(self._server) + await misled(self._server)
        for shard in range(shards):
            for account_id in await self._accounts(shard):
                await self._account(await self._owner(account_id))
            with noting_damage(self._found, f"The recurring schedules of shard {shard}"):
                self._found += [fault async for fault in strangers_due(self._server, shard)]
        async for chunk in self._told(self._server.keys(keys.ALL_LANES, _CHUNK)):
            await self._lanes(chunk)
        async for chunk in self._told(self._server.keys(keys.ALL_SCHEDULES, _CHUNK)):
            await self._stored(chunk)
        self._found += self._slots.faults
        async for chunk in self._told(self._server.keys(keys.ALL_RULES, _CHUNK)):
            await self._rules(chunk)
        async for chunk in self._told(self._server.keys(keys.ALL_NOTES, _CHUNK)):
            await self._notes(chunk)
        for account_id in self._weights.before:
            with self._noting(account_id, "its weight"):
                self._found += await self._weights.faults(account_id)
        return list(dict.fromkeys(self._found))

    async def _told(self, chunks: AsyncIterator[list[bytes]]) -> AsyncIterator[list[bytes]]:
        async for chunk in chunks:
            yield chunk
            self._tell(len(chunk))

    def _noting(self, account_id: str, what: str) -> AbstractContextManager[None]:
        return noting_damage(self._found, f"{account_id}: something of {what}")

    async def _accounts(self, shard: int) -> list[str]:
        accounts: list[str] = []
        prefix = keys.shard(shard)
        self._unlisted.add(prefix)
        with noting_damage(self._found, f"The list of accounts of shard {shard}"):
            listed = await self._server.read("ZRANGE", prefix + keys.ACCOUNTS, 0, -1)
            for local in map(text, listed):
                account_id = ids.account_id(shard, local)
                if ids.parse_sharded(account_id, "acc") is None:
                    self._found.append(f"Shard {shard} lists {local!r}, which can be no account")
                else:
                    accounts.append(account_id)
            self._unlisted.remove(prefix)
        return accounts

    async def _owner(self, account_id: str) -> Owner:
        base, stopped = keys.account(account_id), [None]
        with self._noting(account_id, "its fields"):
            about = ("HMGET", base + keys.ACCOUNT, "suspended", "paused")
            stopped = await self._server.read(*about)
        leaving = await is_leaving(self._server, account_id)
        owner = Owner(account_id, base, leaving, any(stopped))
        self._owners[base] = owner
        return owner

    async def _account(self, owner: Owner) -> None:
        account_id = owner.account_id
        if owner.leaving:
            self._found.append(
                f"{account_id} is being deleted: postdate account delete {account_id} goes on with"
                " it"
            )
            return
        for what, look in (
            ("its weight", self._weights.begin),
            ("its fields", self._names),
            ("its ledger", self._ledger),
            ("its place among the accounts that are due", self._heads),
            ("its dead letters", self._letters),
            ("its schedules with a lane", self._strangers),
            ("its callbacks", self._callbacks),
            ("its references", self._references),
            ("its dead letters with a reference", self._named_letters),
            ("its recurring schedules", self._lists_of_rules),
            ("its log", self._log),
            ("its signing secrets", self._secrets),
        ):
            with self._noting(account_id, what):
                await look(account_id)
        for place, called in _CALLED.items():
            with self._noting(account_id, f"its {called}"):
                scan = "HSCAN" if place == keys.TRIED else "ZSCAN"
                members = self._server.members(scan, owner.base + place, _CHUNK)
                async for found in self._told(members):
                    chunk = [split_letter(each)[0] for each in found]
                    can_be = self._schedules_among(chunk, f"{account_id}: among its {called}")
                    await self._inspect(owner, can_be)

    async def _names(self, account_id: str) -> None:
        """Whether its name leads to it, and each address to its member."""
        account = keys.account(account_id) + keys.ACCOUNT
        name = (await self._server.read("HGET", account, "name") or b"").decode()
        if text(await self._server.read("GET", keys.NAME + name) or b"") != account_id:
            self._found.append(f"{account_id}: its name {name!r} does not lead to it")
        async for fault in faults_of_members(self._server, account_id):
            self._found.append(f"{account_id}: {fault}")

    async def _ledger(self, account_id: str) -> None:
        account = keys.account(account_id) + keys.ACCOUNT
        about = await self._server.read("HMGET", account, "granted", "credits", "spent")
        granted, credits, spent = (int(value or 0) for value in about)
        if granted != credits + spent or credits < 0:
            self._found.append(
                f"{account_id}: the ledger does not balance: "
                f"granted {granted}, credits {credits}, spent {spent}"
            )

    async def _heads(self, account_id: str) -> None:
        faults = await faults_of_heads(self._server, account_id)
        self._found += [f"{account_id}: {fault}" for fault in faults]

    async def _strangers(self, account_id: str) -> None:
        base = keys.account(account_id)
        async for fault in strangers_in(self._server, base, keys.LANED, ""):
            self._found.append(f"{account_id}: {fault}")

    async def _callbacks(self, account_id: str) -> None:
        faults = await faults_of_turn(self._server, account_id)
        self._found += [f"{account_id}: {fault}" for fault in faults]
        for look in (strangers_among, mistimed_failures):
            async for fault in look(self._server, keys.account(account_id)):
                self._found.append(f"{account_id}: {fault}")

    async def _lists_of_rules(self, account_id: str) -> None:
        async for fault in faults_of_lists(self._server, account_id):
            self._found.append(f"{account_id}: {fault}")

    async def _letters(self, account_id: str) -> None:
        """Dead letters that are gone although older ones are there: those are forgotten first."""
        base = keys.account(account_id)
        found, place, older_are_there = [b""], 0, False
        while found:
            found = await self._server.read("ZRANGE", base + keys.FAILED, place, place + _CHUNK - 1)
            named = [split_letter(each)[0] for each in found]
            schedules = [each for each in map(schedule_or_none, named) if each is not None]
            there = await self._server.reads(
                [("EXISTS", f"{base}{keys.SCHEDULE}{each}") for each in schedules]
            )
            for schedule, is_there in zip(schedules, there, strict=True):
                if older_are_there and not is_there:
                    self._found.append(
                        f"{account_id}: {ids.schedule_id(schedule)} is a dead letter, but its"
                        " request is gone"
                    )
                older_are_there = older_are_there or bool(is_there)
            place += len(found)
            self._tell(len(found))

    async def _references(self, account_id: str) -> None:
        async for fault in misreferred(self._server, self._weights, account_id):
            self._found.append(f"{account_id}: {fault}")

    async def _named_letters(self, account_id: str) -> None:
        base, failed_ms = keys.account(account_id), self._kept.failed_ms
        async for fault in faults_by_reference(self._server, base, failed_ms):
            self._found.append(f"{account_id}: {fault}")

    async def _log(self, account_id: str) -> None:
        log, after, page = keys.account(account_id) + keys.LOG, "-", [(b"", b"")]
        while page:
            page = chunks_of(await self._server.read("XRANGE", log, after, "+", "COUNT", _CHUNKS))
            for stream_id, packed in page:
                after = f"({stream_id.decode()}"
                with noting_damage(self._found, f"{account_id}: {stream_id.decode()} of its log"):
                    unpack_chunk(packed)
            self._tell(len(page))

    async def _secrets(self, account_id: str) -> None:
        signing = keys.account(account_id) + keys.SIGNING
        for entry in await self._server.read("LRANGE", signing, 0, -1) or [b""]:
            with noting_damage(self._found, f"{account_id}: its signing secret"):
                secret_of(entry, self._server.secrecy)

    async def _lanes(self, names: Iterable[bytes]) -> None:
        """By the names of their keys, of which each lane has up to three."""
        for base, below in (map(text, keys.split(each)) for each in names):
            kind, colon, lane = below.partition(":")
            owner = self._owners.get(base)
            if owner is not None and not owner.leaving:
                about = f"{owner.account_id}: lane {lane}"
                with noting_damage(self._found, about):
                    if kind + colon != keys.LANE:
                        async for fault in strangers_in(self._server, base, below, lane):
                            self._found.append(f"{owner.account_id}: {fault}")
                    faults = await faults_of_lane(self._server, base, lane)
                    self._found += [f"{about} {fault}" for fault in faults]

    async def _stored(self, names: Iterable[bytes]) -> None:
        for owner, some in self._by_owner(names, keys.SCHEDULE, "sch_"):
            await self._stored_of(owner, some)

    async def _rules(self, names: Iterable[bytes]) -> None:
        for owner, some in self._by_owner(names, keys.RULE, "rec_"):
            with self._noting(owner.account_id, "its recurring schedules"):
                rules = list(map(text, some))
                self._found += await faults_of_rules(
                    self._server, self._weights, owner.account_id, rules
                )

    async def _notes(self, names: Iterable[bytes]) -> None:
        for owner, some in self._by_owner(names, keys.ONCE, "The note "):
            with self._noting(owner.account_id, "its notes of calls"):
                await self._weights.add_notes(owner.account_id, some)

    def _by_owner(
        self, names: Iterable[bytes], kind: str, prefix: str
    ) -> Iterator[tuple[Owner, list[bytes]]]:
        """The local ids of keys of a kind, by the accounts that have them, without those that are
        being deleted."""
        by_account: dict[Owner, list[bytes]] = {}
        for name in names:
            base, below = keys.split(name)
            owner, local = self._owners.get(text(base)), below.removeprefix(kind.encode())
            if owner is not None:
                by_account.setdefault(owner, []).append(local)
            elif not text(name).startswith(tuple(self._unlisted)):
                self._found.append(f"{prefix}{text(local)} belongs to no account ({text(name)})")
        return ((owner, some) for owner, some in by_account.items() if not owner.leaving)

    async def _stored_of(self, owner: Owner, names: Iterable[bytes]) -> None:
        account_id = owner.account_id
        schedules = self._schedules_among(names, f"{account_id}: among its schedules")
        with self._noting(account_id, "its weight"):
            await self._weights.add(account_id, schedules)
        with self._noting(account_id, "the places of its schedules"):
            await self._inspect(owner, schedules)
        with self._noting(account_id, "its schedules"):
            await self._requests(owner, schedules)

    async def _requests(self, owner: Owner, schedules: list[str]) -> None:
        while schedules:
            whole = (*FIELDS, RESPONSE)
            rows = await read_rows(self._server, owner.base, schedules, fields=whole)
            for schedule, fields in zip(schedules, rows, strict=False):
                what = ids.schedule_id(schedule)
                with noting_damage(self._found, f"{owner.account_id}: {what}"):
                    if fields.packed is not None and lacks_callback(
                        stored.schedule(what, fields, self._server.secrecy)
                    ):
                        self._found.append(
                            f"{owner.account_id}: {what} has ended, and its callback is missing"
                        )
            self._slots.note(owner.account_id, zip(schedules, rows, strict=False))
            self._weigh_heads(owner, zip(schedules, rows, strict=False))
            for look in (unreferred, misplaced, misplaced_callbacks):
                async for fault in look(
                    self._server, owner.base, zip(schedules, rows, strict=False)
                ):
                    self._found.append(f"{owner.account_id}: {fault}")
            schedules = schedules[len(rows) :]

    def _weigh_heads(self, owner: Owner, rows: Iterable[tuple[str, Fields]]) -> None:
        for schedule, fields in rows:
            lane, head, _, _ = heads_of(fields.packed or b"")
            if lane and fields.outcome is None:
                self._weights.add_lane(owner.account_id)
            with suppress(Unreadable):
                if head and fields.outcome and ended_status(fields.outcome) is Status.FAILED:
                    self._weights.refer_letter(owner.account_id, schedule, head)

    def _schedules_among(self, members: Iterable[bytes], where: str) -> list[str]:
        """Those that can be schedules, as the store spells them; the others are faults."""
        schedules = []
        for member in members:
            schedule = schedule_or_none(member)
            if schedule is None:
                self._found.append(f"{where} is {text(member)!r}, which can be no schedule")
            else:
                schedules.append(schedule)
        return schedules

    async def _inspect(self, owner: Owner, schedules: list[str]) -> None:
        if not schedules:
            return
        now_ms, oldest, rows = await read_stands(self._server, owner.base, schedules)
        letters = Letters(float(oldest[1]) if oldest else None, self._kept)
        for schedule, row in zip(schedules, rows, strict=True):
            about, noted = f"{owner.account_id}: {ids.schedule_id(schedule)}", row[-1]
            if not (noted or b"0").isdigit():
                self._found.append(f"{about} has attempts that are no number: {text(noted)!r}")
                continue
            with suppress(Unreadable):  # `_requests` reports damage
                faults = faults_of(stand_of(row, now_ms), letters, stopped=owner.stopped)
                self._found += [f"{about} {fault}" for fault in faults]
