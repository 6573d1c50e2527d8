"""The hold: while it lasts workers claim nothing, and everything else goes on.

A restored store knows the schedules that were due at its backup, not those fired since: they would
go out again. An operator can end them here instead, while the store is on hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import structlog

from scheduler.errors import StoreRefused
from scheduler.models import Outcome, Status
from scheduler.store import keys
from scheduler.store.check.damage import accounts_of, noting_damage
from scheduler.store.lifecycle.claim.claim import Claims, UnreadClaim
from scheduler.store.lifecycle.end.end_rows import Ack, Ends
from scheduler.store.recurring.tending import Tending
from scheduler.store.server import Argument, Script, Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.server.writes import note_write
from scheduler.store.shards import Shards
from scheduler.store.verdict import Verdict

NOT_SENT_AGAIN = "Not sent after a restore; it may have been sent before"
_OUTCOME = Outcome(Status.FAILED, 0, 0, NOT_SENT_AGAIN)
_LEASE_MS = 60_000
_MOST_AT_ONCE = 128
_LOOK_AGAIN_S = 1.0

_HOLD, _UNLEASE = Script("operators/hold"), Script("operators/unlease")
_log = structlog.get_logger(__name__)


class Held(NamedTuple):
    """Since when it is on hold (ms; None: not all of it is), and how many of its shards are; some
    of them, where a `begin` or `end` was cut off. `latest_ms`: the last of these moments."""

    since_ms: int | None
    on_hold: int
    shards: int
    latest_ms: int | None = None


class Hold:
    """On all shards. After a StoreError `begin` or `end` may have done a part: repeat it."""

    def __init__(self, server: Server, clock: StoreClock, shards: Shards) -> None:
        self._server = server
        self._clock = clock
        self._shards = shards

    async def begin(self) -> int:
        """From now on nothing is claimed. Returns since when (ms). Safe to repeat."""
        return max(await self._each("1"))

    async def end(self, begun_by_ms: int | None = None) -> None:
        """Workers claim again within half a second. Ends only holds that had begun by a moment (by
        the server's clock), if one is given. Safe to repeat."""
        await self._each("0", "" if begun_by_ms is None else begun_by_ms)

    async def look(self) -> Held:
        """Read-only."""
        names = [keys.shard(each) + keys.HOLD for each in range(await self._shards.newest())]
        stored = await self._server.reads([("GET", name) for name in names])
        since = [-1 if each is None else int(each) for each in stored]
        on_hold = sum(each >= 0 for each in since)
        latest_ms = max(since) if on_hold else None
        whole = on_hold == len(since)
        return Held(latest_ms if whole else None, on_hold, len(since), latest_ms)

    async def _each(self, what: str, by: Argument = "") -> list[int]:
        found = []
        for shard in range(await self._shards.newest()):
            now_us, since_ms = await self._server.run(_HOLD, keys.shard(shard), (what, by))
            note_write()
            self._clock.observe(now_us)
            found.append(int(since_ms))
        return found


class Restore:
    """Use it on hold. `damaged` has a sentence for each account that a walk could not read."""

    def __init__(
        self,
        server: Server,
        clock: StoreClock,
        shards: Shards,
        claims: Claims,
        ends: Ends,
        recurring: Tending,
    ) -> None:
        self._server = server
        self._clock = clock
        self._shards = shards
        self._claims = claims
        self._ends = ends
        self._recurring = recurring
        self.damaged: list[str] = []

    async def last_entry_ms(self, by_ms: int) -> int | None:
        """The moment of the newest entry in any account's log up to then; None if there is none."""
        newest = None
        async for account_id in self._accounts():
            with self._sound(account_id):
                log = keys.account(account_id) + keys.LOG
                last = ("XREVRANGE", log, by_ms, "-", "COUNT", 1)
                for stream_id, _ in await self._server.read(*last):
                    newest = max(newest or 0, int(stream_id.split(b"-")[0]))
        return newest

    async def due(self, by_ms: int) -> int:
        """How many due by then still wait, of suspended accounts and paused lanes too; call
        `take_back` first."""
        count = 0
        async for account_id in self._accounts():
            with self._sound(account_id):
                places = (keys.account(account_id) + each for each in (keys.WAITING, keys.LANED))
                due = await self._server.reads([("ZCOUNT", each, "-inf", by_ms) for each in places])
                count += sum(due)
        return count

    async def take_back(self) -> None:
        """Schedules that workers held as the store was saved are due as they were before. Returns
        once their leases have ended, in case one of them is alive. Safe to repeat."""
        async for account_id in self._accounts():
            with self._sound(account_id):
                await self._take_back_from(*keys.parts(account_id))

    async def _take_back_from(self, shard: int, account: str) -> None:
        left = True
        while left:
            now_us, given_back, last_end_ms = await self._server.run(
                _UNLEASE, keys.shard(shard), (account, _MOST_AT_ONCE)
            )
            self._clock.observe(now_us)
            left = given_back == _MOST_AT_ONCE or last_end_ms >= 0
            if left and not given_back:
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def expire(self, by_ms: int, ended: Callable[[int], None]) -> None:
        """Ends all that was due by then as failed, unsent, and logs it. No credit moves but for the
        next occurrences of recurring schedules. Calls `ended` after each step with how many it
        ended. Safe to repeat; after a crash, schedules claimed by then are held for a minute."""
        async for account_id in self._accounts():
            with self._sound(account_id):
                await self._expire_of(account_id, by_ms, ended)

    async def _expire_of(self, account_id: str, by_ms: int, ended: Callable[[int], None]) -> None:
        shard, looking = keys.parts(account_id).shard, True
        while looking:
            batch = await self._claims.claim_of(
                account_id, by_ms=by_ms, lease_ms=_LEASE_MS, most=_MOST_AT_ONCE
            )
            if batch.broken:
                raise StoreRefused("something of it is damaged")
            await self._put_off(shard, batch.unread, by_ms)
            found = batch.invocations
            if found:
                await self._recurring.advance(found)
                acks = [Ack(each, _OUTCOME, None) for each in found]
                verdicts = await self._ends.ack(shard, acks)
                ended(sum(each in (Verdict.DONE, Verdict.ENDED) for each in verdicts))
            looking = bool(found or batch.unread)

    @contextmanager
    def _sound(self, account_id: str) -> Iterator[None]:
        """Around a look at one account: damage is noted once, and the walk goes on."""
        found: list[str] = []
        with noting_damage(found, account_id):
            yield
        self.damaged += [each for each in found if each not in self.damaged]

    async def _put_off(self, shard: int, unread: Sequence[UnreadClaim], by_ms: int) -> None:
        """Gives back unreadable schedules, their attempt unused: due right after the ended ones."""
        for each in unread:
            what = each.invocation.schedule_id
            _log.error("not ended: it cannot be read", schedule=what, error=each.why)
            each.invocation.due_at_ms = by_ms + 1
        if unread:
            await self._claims.release(shard, [each.invocation for each in unread])

    def _accounts(self) -> AsyncIterator[str]:
        return accounts_of(self._server, self._shards, self.damaged)
