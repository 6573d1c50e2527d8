"""A scripted store, for tests of the worker's own rules."""

from __future__ import annotations

import asyncio
import math
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from scheduler.callers import SigningSecret
from scheduler.errors import StoreError, StoreUnavailable, anew
from scheduler.models import Invocation, Outcome, Request, Status
from scheduler.runtime.elapsed import elapsed_s
from scheduler.runtime.settings import Settings
from scheduler.stages import Stage
from scheduler.store import Store
from scheduler.store.lifecycle.callback.callbacks import CallbackAck
from scheduler.store.lifecycle.claim.claim import Batch, ClaimOrder, Look, UnreadClaim
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.operators.heartbeats import Process
from scheduler.store.server.clock import StoreClock
from scheduler.store.verdict import Verdict
from worker.claimer import Claimer, ClaimSoon
from worker.holdings import Holdings
from worker.leases import Touch
from worker.presence import Presence

LEASE_MS = 15_000
COMPLETED = Outcome(Status.COMPLETED, 200, 1, "")
AWAY = StoreUnavailable("away")


class Invocations:
    """Makes invocations, each with an id of its own; their leases end at given times."""

    def __init__(self) -> None:
        self._number = 0

    def one(
        self,
        shard: int = 0,
        account: str = "x",
        *,
        lease_until_s: float = math.inf,
        attempt: int = 1,
        size_bytes: int = 0,
        **request: Any,
    ) -> Invocation:
        self._number += 1
        fields = {"trigger_at_ms": 0, "method": "GET", "url": "http://example.com/"} | request
        schedule_id = f"sch_{self._number:026}"
        account_id = f"acc_{shard:02d}_{account}"
        wanted = Request(**fields)
        return Invocation(
            shard,
            account_id,
            schedule_id,
            "1",
            attempt,
            lease_until_s,
            wanted,
            wanted.trigger_at_ms,
            size_bytes,
        )

    def many(self, count: int, *place: Any, **fields: Any) -> list[Invocation]:
        return [self.one(*place, **fields) for _ in range(count)]


class ScriptedClaims:
    """Shards with so many due each; those in `away` fail. `calls` notes the calls of each
    shard; `raised` has the errors that the next calls of a name end with, None for none; what is in
    `taken` is another worker's by now, its acks end with `verdict`; `given` is handed out by the
    next claims as it is, and so are `unread` and `broken`; shards `on_hold` give nothing; of
    each call for several shards, `together` has them."""

    def __init__(self, clock: StoreClock, due: dict[int, int]) -> None:
        self.clock = clock
        self.due = due
        self.away: set[int] = set()
        self.on_hold: set[int] = set()
        self.late_since_ms: dict[int, float] = {}
        self.backlog_since_ms: dict[int, float] = {}
        self.asked: list[dict[str, Any]] = []
        self.claimed: list[tuple[int, int]] = []
        self.calls: list[tuple[str, int]] = []
        self.most_shards = 32
        self.together: list[list[int]] = []
        self.raised: defaultdict[str, list[Exception | None]] = defaultdict(list)
        self.taken: set[Invocation] = set()
        self.verdict = Verdict.HELD
        self.given: list[Invocation] = []
        self.unread: list[UnreadClaim] = []
        self.broken: list[str] = []
        self.extended: list[Invocation] = []
        self.released: list[Invocation] = []
        self.realigned: list[int] = []
        self.batches: list[list[Ack]] = []
        self.acked: list[Ack] = []
        self.called_back: list[CallbackAck] = []
        self.looking: Callable[[], None] = lambda: None
        self.make = Invocations()
        self._turn_ms = dict.fromkeys(due, 0.0)

    async def realign(self, shard: int) -> None:
        if shard in self.away:
            raise anew(AWAY)
        self.realigned.append(shard)

    async def look(self, shards: Sequence[int], *, backlogs: bool = True) -> dict[int, Any]:
        self.looking()
        looks = {shard: self._look(shard, backlogs) for shard in shards}
        return {shard: AWAY if shard in self.away else look for shard, look in looks.items()}

    def _look(self, shard: int, backlogs: bool) -> Look:
        waits = self.due[shard] or any(each.shard == shard for each in self.given)
        waits = waits or (shard == 0 and bool(self.unread or self.broken))
        next_ms = self.late_since_ms.get(shard, self._turn_ms[shard]) if waits else None
        return Look(next_ms, self.backlog_since_ms.get(shard) if backlogs else None)

    async def claim_each(
        self, orders: Sequence[ClaimOrder], **asked: Any
    ) -> list[Batch | Exception]:
        self.together.append([order.shard for order in orders])
        found: list[Batch | Exception] = []
        for order in orders:
            self.asked.append({**order._asdict(), **asked})
            try:
                found.append(await self._claim(order.shard, order.most))
            except StoreError as error:
                found.append(error)
        return found

    async def _claim(self, shard: int, most: int) -> Batch:
        await self._enter("claim", shard)
        if shard in self.on_hold:
            return Batch([], None, False, self.clock.readings, on_hold=True)
        given = [each for each in self.given if each.shard == shard]
        for each in given:
            each.stage = Stage.CLAIMED  # it may have been here before
        self.given = [each for each in self.given if each.shard != shard]
        unread, self.unread = self.unread, []
        broken, self.broken = self.broken, []
        count = min(most, self.due[shard])
        self.due[shard] -= count
        self.claimed.append((shard, count))
        self._turn_ms[shard] = self.clock.now_us() / 1000
        return Batch(
            given + self.make.many(count, shard),
            self._turn_ms[shard] if self.due[shard] else None,
            self.due[shard] > 0,
            self.clock.readings,
            unread=unread,
            broken=broken,
        )

    async def extend(
        self, shard: int, lease_ms: int, invocations: Sequence[Invocation]
    ) -> list[Invocation]:
        await self._enter("extend", shard)
        self.extended += invocations
        # Half a lease, so that it is prolonged again whenever that is asked for.
        for each in invocations:
            if each not in self.taken:
                each.lease_until_s = elapsed_s() + LEASE_MS / 2000
        return [each for each in invocations if each in self.taken]

    async def release(self, shard: int, invocations: Sequence[Invocation]) -> None:
        assert {each.shard for each in invocations} == {shard}
        await self._enter("release", shard)
        self.released += invocations

    async def ack(self, shard: int, acks: Sequence[Ack]) -> list[Verdict]:
        self.batches.append(list(acks))
        await self._enter("ack", shard)
        self.acked += acks
        taken = [ack.invocation in self.taken for ack in acks]
        return [self.verdict if each else Verdict.DONE for each in taken]

    async def ack_callbacks(self, shard: int, acks: Sequence[CallbackAck]) -> list[Verdict]:
        await self._enter("ack", shard)
        self.called_back += acks
        taken = [ack.invocation in self.taken for ack in acks]
        return [self.verdict if each else Verdict.DONE for each in taken]

    async def ack_each(self, acks: Sequence[Ack]) -> list[Verdict | StoreError]:
        found: list[Verdict | StoreError] = []
        shards = dict.fromkeys(ack.invocation.shard for ack in acks)
        self.together.append(list(shards))
        for shard in shards:
            theirs = [ack for ack in acks if ack.invocation.shard == shard]
            try:
                found += await self.ack(shard, theirs)
            except StoreError as error:
                found += [error] * len(theirs)
        return found

    async def _enter(self, name: str, shard: int) -> None:
        await asyncio.sleep(0)
        self.calls.append((name, shard))
        error = self.raised[name].pop(0) if self.raised[name] else None
        if error is not None or shard in self.away:
            raise error or AWAY


class ScriptedSigning:
    """Every account has one secret, but those that are `gone`; those in `broken` have what that
    says. Keys of the QStash door are in `door`. Shards that are away for claims are away here;
    `asked` notes the reads."""

    def __init__(self, claims: ScriptedClaims) -> None:
        self.claims = claims
        self.secret = "whsec_" + b64encode(b"k" * 32).decode()
        self.gone: set[str] = set()
        self.broken: dict[str, SigningSecret] = {}
        self.door: dict[str, list[SigningSecret]] = {}
        self.asked: list[list[str]] = []
        self.reading: Callable[[], None] = lambda: None

    async def secrets_of(self, account_ids: Collection[str]) -> dict[str, list[SigningSecret]]:
        await asyncio.sleep(0)
        self.asked.append(sorted(account_ids))
        self.reading()
        if any(int(each.split("_")[1]) in self.claims.away for each in account_ids):
            raise AWAY
        good = SigningSecret("sec_1", self.secret, 0)
        found = [each for each in account_ids if each not in self.gone]
        return {each: [self.broken.get(each, good), *self.door.get(each, ())] for each in found}

    async def door_keys(self, account_id: str) -> list[SigningSecret]:
        if int(account_id.split("_")[1]) in self.claims.away:
            raise AWAY
        texts = [f"sig_{n}_{account_id}_".ljust(40, "k") for n in (1, 2)]
        pair = [SigningSecret(f"qsk_{each[4]}", each, 0) for each in texts]
        return self.door.setdefault(account_id, pair)


class ScriptedRecurring:
    """Rules that always advance. Shards that are away for claims are away here, and `on_hold` too.
    `raised` has the errors that the next
    advances end with, None for none; `poison` fails every call that has it. `asked` notes the
    advances, `tended` the shards; `overdue_in` counts overdue rules."""

    def __init__(self, claims: ScriptedClaims) -> None:
        self.claims = claims
        self.poison: Invocation | None = None
        self.raised: list[Exception | None] = []
        self.advancing: Callable[[Sequence[Invocation]], Awaitable[None]] = nothing
        self.asked: list[list[Invocation]] = []
        self.overdue_in: Counter[int] = Counter()
        self.tended: list[int] = []
        self.missed = 0
        self.renewed: list[int] = []
        self.older_tzdata, self.computed_anew = 1, 0
        self.brought_back: list[int] = []
        self.most_tended = 100

    async def advance(self, invocations: Sequence[Invocation]) -> None:
        shards = {each.shard for each in invocations}
        self.asked.append(list(invocations))
        await self.advancing(invocations)
        error = self.raised.pop(0) if self.raised else None
        if error is None and shards & self.claims.away:
            error = AWAY
        if error is None and self.poison in invocations:
            error = ZeroDivisionError("a rule")
        if error is not None:
            raise error

    async def overdue(self, shards: Sequence[int]) -> dict[int, int | StoreError]:
        here = [shard for shard in shards if shard not in self.claims.on_hold]
        return {each: AWAY if each in self.claims.away else self.overdue_in[each] for each in here}

    async def tend_due(self, shard: int) -> int:
        self.tended.append(shard)
        error = self.raised.pop(0) if self.raised else None
        if error is not None:
            raise error
        count = min(self.most_tended, self.overdue_in[shard])
        self.overdue_in[shard] -= count
        return count

    async def bring_back(self, shard: int) -> int:
        if shard in self.claims.away:
            raise AWAY
        self.brought_back.append(shard)
        return 1

    async def renew(self, shard: int) -> int:
        if shard in self.claims.away:
            raise AWAY
        self.renewed.append(shard)
        self.computed_anew += self.older_tzdata
        return 1


async def nothing(_: Sequence[Invocation]) -> None: ...


class ScriptedStore:
    """As much of a store as a worker uses."""

    def __init__(self, due: dict[int, int]) -> None:
        self.clock = StoreClock()
        self.clock.observe(1_795_161_600_000_000)
        self.claims = self.ends = ScriptedClaims(self.clock, due)
        self.callbacks = SimpleNamespace(ack=self.claims.ack_callbacks)
        self.signing = ScriptedSigning(self.claims)
        self.recurring = self.renewal = ScriptedRecurring(self.claims)
        self.server = SimpleNamespace(routed=False)
        self.shards = self
        self.workers = self
        self.count = self.now_count = len(due)
        self.store_id, self.replaced = "scripted", ""
        self.sealing_keys = SimpleNamespace(missing=frozenset(), watch=self.watch)
        self.alive: list[str] = []
        self.others_say: dict[str, dict[str, Any]] = {}
        self.left: list[str] = []
        self.uptime_s = 3600
        self.closed = False

    @property
    def as_store(self) -> Store:
        return cast("Store", self)

    def log_opened(self, *_: object, **process: str) -> None:
        """Not a real store."""

    async def newest(self) -> int:
        """`count` is the last value read, `now_count` the store's current one."""
        self.count = self.now_count
        return self.count

    async def beat(self, worker_id: str, says: dict[str, Any]) -> list[Process]:
        others = [Process(each, 0, self.others_say.get(each, {})) for each in self.alive]
        return [Process(worker_id, 0, says), *others]

    async def aclose(self) -> None:
        self.closed = True

    async def watch(self) -> None: ...

    async def leave(self, worker_id: str) -> None:
        self.left.append(worker_id)


class Desk:
    """A claimer over scripted shards, all its own unless `own` says which; what it claims is held
    until `finish`."""

    def __init__(
        self,
        due: dict[int, int],
        slots: int,
        own: Iterable[int] | None = None,
        room_bytes: int = 10**9,
        ahead_ms: int = 25,
    ) -> None:
        scripted = ScriptedStore(due)
        self.claims = scripted.claims
        self.clock = scripted.clock
        self.store = scripted.as_store
        self.holdings = Holdings(slots, room_bytes)
        self.touch = Touch(LEASE_MS, LEASE_MS)
        shards = frozenset(due if own is None else own)
        presence = cast("Presence", SimpleNamespace(shards=shards))
        self.soon = ClaimSoon()
        self.fired: list[Invocation] = []
        self.crowded: list[str] = []
        settings = Settings(lease_ms=LEASE_MS, claim_ahead_ms=ahead_ms)
        self.claimer = Claimer(self.store, self, presence, self.touch, settings)

    def take(self, batch: Batch) -> None:
        self.fired += batch.invocations

    def looked(self) -> None:
        pass

    def crowding(self) -> list[str]:
        return self.crowded

    async def turn(self) -> None:
        """One step, and the claims it started."""
        await self.claimer.step()
        for _ in range(5):
            await asyncio.sleep(0)

    def finish(self) -> None:
        self.holdings.remove(self.fired)
        self.fired.clear()
        self.claimer.wake()
