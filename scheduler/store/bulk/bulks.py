"""Bulk actions as they are kept: added, taken up a step at a time, stopped and read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from scheduler import ids
from scheduler.errors import NotFound, StoreError, UnknownAccount, Unreadable
from scheduler.models import Status
from scheduler.store import keys
from scheduler.store.bulk.records import (
    Asked,
    Bulk,
    Group,
    Progress,
    State,
    bulk_of,
    group_of,
    packed,
)
from scheduler.store.server import Argument, Script, Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.shards import Shards
from scheduler.store.stored import ended_status
from scheduler.store.verdict import Verdict

# How many an account may have. Those that are done are deleted for newer ones.
MOST_BULKS = 20
KEPT_MS = 30 * 86_400_000
# A step takes a second at most, unless the store is slow.
LEASE_MS = 15_000
# An account's steps are so far apart: 200 schedules each, so 2,000 a second.
PACE_MS = 100
_SUSPENDED_MS = 30_000
# A turn lies no further ahead, unless the clock was set back.
_FAR_MS = 600_000
_DUE_AT_ONCE = 50

_ADD = Script("bulk/add")
_TAKE = Script("bulk/take")
_STEP = Script("bulk/step")
_STOP = Script("bulk/stop")
_log = structlog.get_logger(__name__)


class Bulks:
    """A process takes an action, acts on it, and notes how far it is before its lease ends. It
    notes the schedules of a step before it acts on them: if it dies, the next process acts on the
    same ones."""

    def __init__(self, server: Server, clock: StoreClock, shards: Shards) -> None:
        self._server = server
        self._clock = clock
        self._shards = shards

    async def add(self, account_id: str, action_id: str, asked: Asked) -> bool:
        """Safe to repeat with the same id. False: MOST_BULKS are under way. Raises NotFound (the
        account)."""
        shard, account = keys.parts(account_id)
        about = (account, action_id, packed(asked), packed(Progress()), State.RUNNING)
        verdict = await self._server.write_until_answered(
            _ADD, keys.shard(shard), (*about, MOST_BULKS, KEPT_MS)
        )
        if verdict == Verdict.UNKNOWN:
            raise UnknownAccount(account_id)
        return bool(verdict == Verdict.DONE)

    async def due(self) -> list[str]:
        """Accounts with a bulk action that is due, the longest due first; of each shard at most a
        page. Shards that cannot be read have none. Read-only."""
        now_ms = self._clock.now_ms()
        pages = [
            ("ZRANGE", keys.shard(shard) + keys.BULK_DUE, 0, _DUE_AT_ONCE - 1, "WITHSCORES")
            for shard in range(self._shards.count)
        ]
        try:
            replies = await self._server.reads(pages, damaged=True)
        except StoreError:
            if not self._server.routed:
                raise
            # Of a cluster a part may be away.
            replies = await asyncio.gather(
                *(self._server.read(*each) for each in pages), return_exceptions=True
            )
        found = list[tuple[float, str]]()
        for shard, reply in enumerate(replies):
            if isinstance(reply, BaseException):
                continue
            for local, score in zip(reply[::2], reply[1::2], strict=True):
                at_ms, account_id = float(score), ids.account_id(shard, local.decode())
                if not now_ms < at_ms <= now_ms + _FAR_MS:
                    found.append((at_ms, account_id))
        return [account_id for _, account_id in sorted(found)]

    async def take(self, account_id: str) -> Bulk | None:
        """The account's action whose turn it is, for LEASE_MS; None if there is none, or another
        process has it. Raises Unreadable; then the action is put off, and the others go on."""
        shard, account = keys.parts(account_id)
        words = (account, LEASE_MS, _SUSPENDED_MS, _FAR_MS)
        reply = await self._server.write_until_answered(_TAKE, keys.shard(shard), words)
        if not reply:
            return None
        action_id = reply[0].decode()
        try:
            return bulk_of(action_id, reply[1:])
        except Unreadable:
            await self.defer(account_id, action_id)
            raise

    async def note(
        self,
        account_id: str,
        bulk: Bulk,
        progress: Progress,
        state: State,
        next_ms: int | None,
        groups: Mapping[int, Group] | None = None,
    ) -> Bulk | None:
        """The action as it is then, due again in `next_ms` (None: it has nothing left to do), with
        groups by their places. With LEASE_MS the caller keeps the account's turn. None if another
        process noted something since `bulk` was read; then nothing was changed."""
        shard, account = keys.parts(account_id)
        words: list[Argument] = [account, bulk.action_id, bulk.version, ids.new_operation()]
        words += (packed(progress), state, "" if next_ms is None else next_ms)
        keeps = next_ms == LEASE_MS
        words += (LEASE_MS if keeps else PACE_MS, KEPT_MS, "1" if keeps else "")
        for place, group in sorted((groups or {}).items()):
            words += (place, packed(group))
        reply = await self._server.write_until_answered(_STEP, keys.shard(shard), words)
        if reply[0] != Verdict.DONE:
            return None
        stands = State(reply[1].decode())
        return bulk._replace(progress=progress, state=stands, version=bulk.version + 1)

    async def stop(self, account_id: str, action_id: str) -> None:
        """It ends with the step that was begun, and is due at once if there is none. Safe to
        repeat. Raises NotFound."""
        await self._tell(account_id, action_id, "stop")

    async def close(self, account_id: str, action_id: str) -> None:
        """The pages do not show it any more. Safe to repeat. Raises NotFound."""
        await self._tell(account_id, action_id, "close")

    async def defer(self, account_id: str, action_id: str) -> None:
        """For ten minutes it has no turn: this process cannot read it, a newer one may. Safe to
        repeat. Raises NotFound."""
        await self._tell(account_id, action_id, "defer")

    async def _tell(self, account_id: str, action_id: str, what: str) -> None:
        shard, account = keys.parts(account_id)
        words = (account, action_id, what, _FAR_MS)
        verdict = await self._server.write_until_answered(_STOP, keys.shard(shard), words)
        if verdict != Verdict.DONE:
            raise NotFound("There is no such bulk action")

    async def all(self, account_id: str) -> list[Bulk]:
        """The newest first, without those that are damaged, which the log names. Read-only."""
        base = keys.account(account_id)
        names = await self._server.read("ZREVRANGE", base + keys.BULKS, 0, MOST_BULKS - 1)
        fields = ("r", "p", "s", "v", "c", "n")
        rows = await self._server.reads(
            [("HMGET", base + keys.BULK + each.decode(), *fields) for each in names], damaged=True
        )
        found = list[Bulk]()
        for name, row in zip(names, rows, strict=True):
            try:
                if isinstance(row, Unreadable):
                    raise row
                if row[0] is not None:
                    found.append(bulk_of(name.decode(), row))
            except Unreadable as error:
                _log.error("a bulk action is damaged", account=account_id, error=str(error))
        return found

    async def groups(self, account_id: str, action_id: str, first: int, most: int) -> list[Group]:
        """The groups of its replays from a place on. Raises Unreadable. Read-only."""
        key = keys.account(account_id) + keys.BULK_MADE + action_id
        found = await self._server.read("LRANGE", key, first, first + most - 1)
        return [group_of(each) for each in found]

    async def statuses(self, account_id: str, schedule_ids: Sequence[str]) -> list[Status | None]:
        """Of a group: how each stands; None: it is kept no more, or damaged. Read-only."""
        names = [keys.schedule(account_id, each) for each in schedule_ids]
        commands = [command for name in names for command in _standing(name)]
        replies = await self._server.reads(commands, damaged=True)
        return [_status(*row) for row in zip(replies[::2], replies[1::2], strict=True)]


def _standing(name: str) -> tuple[tuple[Argument, ...], ...]:
    return ("HGET", name, "o"), ("HEXISTS", name, "r")


def _status(outcome: Any, is_kept: Any) -> Status | None:
    if isinstance(outcome, Unreadable) or is_kept != 1:
        return None
    try:
        return Status.SCHEDULED if outcome is None else ended_status(outcome)
    except Unreadable:
        return None
