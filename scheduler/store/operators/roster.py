"""All accounts at a glance, for operators: their state, their ledger, and what they do of late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from scheduler import ids
from scheduler.errors import UnknownAccount
from scheduler.models import Plan
from scheduler.rollups import HOUR_MS
from scheduler.store import keys
from scheduler.store.server import Argument, Script, Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.shards import Shards

_ROSTER = Script("operators/roster")
# One takes the store some 20 us.
_AT_ONCE = 50


class AccountRow(NamedTuple):
    """`state` is 'suspended', 'paused' or ''. Due for more than a second, and not held back by that
    or by a lane's limits, are `overdue` ones, the oldest since `overdue_since_ms`. `fired`,
    `failed` and `created` are of this clock hour and the one before. `stored_bytes` as its plan
    counts."""

    account_id: str
    name: str
    plan: str
    operator: bool
    state: str
    credits: int
    granted: int
    spent: int
    waiting: int
    overdue: int
    overdue_since_ms: float | None
    stored_bytes: int
    fired: int
    failed: int
    created: int


class RosterLook(NamedTuple):
    """`looked_at` of `total` accounts; damaged ones among them, by id, have no row."""

    rows: list[AccountRow]
    damaged: list[str]
    total: int
    since_ms: int

    @property
    def looked_at(self) -> int:
        return len(self.rows) + len(self.damaged)


class Roster:
    """Read-only."""

    def __init__(self, server: Server, clock: StoreClock, shards: Shards) -> None:
        self._server = server
        self._clock = clock
        self._shards = shards

    async def look(self, most: int) -> RosterLook:
        """The same number of each shard, the oldest first: `most` in all, or one of each shard."""
        numbers = range(await self._shards.newest())
        of_each = max(1, most // len(numbers))
        found = RosterLook([], [], 0, (self._clock.now_ms() // HOUR_MS - 1) * HOUR_MS)
        for shard in numbers:
            size, first = 1, 0
            while first < min(size, of_each):
                wanted = min(_AT_ONCE, of_each - first)
                _, size, *rows = await self._read(shard, (first, wanted))
                _add(found, shard, rows)
                if not rows:
                    break
                first += len(rows)
            found = found._replace(total=found.total + size)
        return found

    async def of(self, account_id: str) -> AccountRow:
        """Of one account. Raises NotFound, of a damaged one too."""
        shard, local = keys.parts(account_id)
        found = RosterLook([], [], 0, 0)
        _, _, *rows = await self._read(shard, ("", "", local))
        _add(found, shard, rows)
        if not found.rows:
            raise UnknownAccount(account_id)
        return found.rows[0]

    async def _read(self, shard: int, arguments: Sequence[Argument]) -> Any:
        now_us, *rest = await self._server.run(_ROSTER, keys.shard(shard), arguments)
        self._clock.observe(now_us)
        return now_us, *rest


def _add(found: RosterLook, shard: int, rows: Sequence[Sequence[Any]]) -> None:
    for local, *row in rows:
        account_id = ids.account_id(shard, local.decode(errors="replace"))
        parsed = _parsed(account_id, row) if row else None
        if parsed is None:
            found.damaged.append(account_id)
        else:
            found.rows.append(parsed)


def _parsed(account_id: str, row: Sequence[Any]) -> AccountRow | None:
    """None if it is damaged."""
    name, plan, operator, state, credits, granted, spent, *rest = row
    waiting, overdue, since, stored, fired, failed, created = rest
    try:
        return AccountRow(
            account_id,
            name.decode(),
            Plan(plan.decode()),
            operator == b"1",
            state.decode(),
            credits,
            granted,
            spent,
            waiting,
            overdue,
            float(since) if since else None,
            int(stored),
            fired,
            failed,
            created,
        )
    except ValueError:
        return None
