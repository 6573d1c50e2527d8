"""What store tests say over and over: an account, schedules that are due, outcomes; and what must
hold of an account at any moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec
import pytest

from scheduler import ids
from scheduler.callbacks import Callback
from scheduler.lane_settings import LaneSettings, Pause
from scheduler.models import Invocation, LogEntry, Outcome, Plan, Request, Schedule, Status
from scheduler.store import Store, keys
from scheduler.store.lifecycle.callback.callbacks import CallbackAck
from scheduler.store.lifecycle.claim.claim import Batch, Look
from scheduler.store.lifecycle.end import cancel
from scheduler.store.lifecycle.end.cancel import Cancellations
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.log.logs import LogQuery
from scheduler.store.log.overview import ChartRange, Series
from scheduler.store.preconditions import ALWAYS, Precondition
from scheduler.store.queries.listing import Selection
from scheduler.store.queries.reading import read_by_id
from scheduler.store.verdict import Verdict
from tests.store.clocks import START_MS, Clock
from tests.support.plain import redis_of

CREDITS = 100
LEASE_MS = 15_000
_AT_ONCE = 1000
URL = "https://example.com/hook"
OWN = Callback("https://example.com/ended")
COMPLETED = Outcome(Status.COMPLETED, 200, 12, "")
FAILED = Outcome(Status.FAILED, 503, 30, "Service Unavailable")


class Holdings(msgspec.Struct, frozen=True):
    """All that an account owns, as a test compares it: before an act, and after."""

    credits: int
    spent: int
    waiting: int
    held: int
    log: dict[str, int]


class Scene:
    """One store with one account in it, its clock, and the verbs of the store in short."""

    def __init__(self, store: Store, clock: Clock, account_id: str) -> None:
        self.store = store
        self.clock: Any = clock  # fakeredis's can be set, too
        self.account_id = account_id

    @classmethod
    async def of(cls, store: Store, clock: Clock, credits: int = CREDITS) -> Scene:
        account = await store.accounts.create("first", credits=credits, plan=Plan.FREE)
        return cls(store, clock, account.account_id)

    @property
    def shard(self) -> int:
        return keys.parts(self.account_id).shard

    @property
    def base(self) -> str:
        """The prefix of the account's keys."""
        return keys.account(self.account_id)

    @property
    def redis(self) -> Any:
        """A client of the server, to look behind the store."""
        return redis_of(self.store)

    def key(self, schedule_id: str) -> str:
        return keys.schedule(self.account_id, schedule_id)

    async def account(self, name: str, credits: int = CREDITS) -> str:
        """Another account, in whatever shard is emptiest."""
        account = await self.store.accounts.create(name, credits=credits, plan=Plan.FREE)
        return account.account_id

    async def neighbours(self, count: int, credits: int = CREDITS) -> list[str]:
        """Other accounts in the same shard."""
        found: list[str] = []
        while len(found) < count:
            account_id = await self.account(ids.new_operation(), credits)
            if keys.parts(account_id).shard == self.shard:
                found.append(account_id)
        return found

    async def create(
        self, due_in_ms: int = -1000, *, account_id: str | None = None, **fields: Any
    ) -> str:
        """A schedule that has been due for a second, or is due so much later than now."""
        trigger_at_ms = await self.clock.now_ms() + due_in_ms
        return await self.create_at(trigger_at_ms, account_id=account_id, **fields)

    async def create_at(
        self, trigger_at_ms: int, *, account_id: str | None = None, **fields: Any
    ) -> str:
        request = Request(trigger_at_ms, "POST", **({"url": URL} | fields))
        return await self.store.schedules.create(
            self.account_id if account_id is None else account_id, request
        )

    async def create_many(
        self, count: int, due_ms: int, *, account_id: str | None = None, url: str = URL
    ) -> list[str]:
        """Schedules of one moment, with the credits for them, in a few steps."""
        owner = self.account_id if account_id is None else account_id
        await self.store.accounts.grant(owner, count)
        made: list[str] = []
        while len(made) < count:
            requests = [Request(due_ms, "POST", url)] * min(_AT_ONCE, count - len(made))
            made += (await self.store.schedules.create_all(owner, requests)).schedule_ids
        return made

    async def claim(self, shard: int | None = None, **options: Any) -> list[Invocation]:
        return (await self.batch(shard, **options)).invocations

    async def batch(self, shard: int | None = None, **options: Any) -> Batch:
        options = {"lease_ms": LEASE_MS, "most": 128} | options
        return await self.store.claims.claim(self.shard if shard is None else shard, **options)

    async def look(self) -> Look:
        """At the scene's own shard."""
        return (await self.store.claims.look([self.shard]))[self.shard]

    async def claim_one(self, **options: Any) -> Invocation:
        [invocation] = await self.claim(**options)
        return invocation

    async def held(self, lease_ms: int = LEASE_MS, **fields: Any) -> Invocation:
        """A schedule created and claimed; nothing else may be due."""
        await self.create(**fields)
        return await self.claim_one(lease_ms=lease_ms)

    async def lapsed(self, **fields: Any) -> Invocation:
        """The same, and its lease has ended."""
        invocation = await self.held(lease_ms=5, **fields)
        await self.clock.pass_ms(6)
        return invocation

    async def extend(self, lease_ms: int, held: list[Invocation]) -> list[Invocation]:
        """Those that are lost."""
        return await self.store.claims.extend(self.shard, lease_ms, held)

    async def release(self, held: list[Invocation]) -> None:
        await self.store.claims.release(self.shard, held)

    async def claim_nothing_before(self, moment_ms: float, **options: Any) -> None:
        """A machine that was slow may claim after that moment: then all is given back."""
        claimed = await self.claim(**options)
        assert all(lease_end_ms(each) - LEASE_MS >= moment_ms for each in claimed)
        await self.release(claimed)

    async def ack(
        self,
        invocations: Sequence[Invocation],
        outcome: Outcome = COMPLETED,
        late_ms: int | None = 0,
    ) -> list[int]:
        acks = [Ack(each, outcome, late_ms) for each in invocations]
        return await self.store.ends.ack(self.shard, acks)

    async def retry(
        self, invocations: Sequence[Invocation], wait_ms: int, outcome: Outcome = FAILED
    ) -> list[int]:
        """Their attempts have failed, and the next ones are so much later than now."""
        due_ms = await self.clock.now_ms() + wait_ms
        acks = [Ack(each, outcome, 0, due_ms) for each in invocations]
        return await self.store.ends.ack(self.shard, acks)

    async def run(self, outcome: Outcome = COMPLETED, **fields: Any) -> str:
        """A schedule created, claimed and acked; nothing else may be due."""
        schedule_id = await self.create(**fields)
        invocation = await self.claim_one()
        assert invocation.schedule_id == schedule_id
        assert await self.ack([invocation], outcome) == [1]
        return schedule_id

    async def get(self, schedule_id: str) -> Schedule:
        return await self.store.schedules.get(self.account_id, schedule_id)

    async def change(self, schedule_id: str, **fields: Any) -> Schedule:
        changed = await self.store.schedules.change(
            self.account_id, schedule_id, lambda old: msgspec.structs.replace(old, **fields)
        )
        return changed.schedule

    async def settings(self, lane: str | None = None) -> Any:
        """Those of a lane, or of the account itself."""
        if lane is None:
            return await self.store.pauses.read(self.account_id)
        return (await self.store.lanes.read(self.account_id, lane)).settings

    async def set(self, lane: str | None, changed: Any, wanted: Precondition = ALWAYS) -> Any:
        """The same, once `changed` has changed them."""
        if lane is None:
            return await self.store.pauses.change(self.account_id, changed, wanted)
        return (await self.store.lanes.change(self.account_id, lane, changed, wanted)).settings

    async def pause(
        self,
        lane: str | None = None,
        until_ms: int | None = None,
        by: str = "a key",
        note: str = "",
    ) -> Any:
        pause = Pause(by, until_ms, note or None)
        return await self.set(lane, lambda old: msgspec.structs.replace(old, pause=pause))

    async def resume(self, lane: str | None = None) -> Any:
        return await self.set(lane, lambda old: msgspec.structs.replace(old, pause=None))

    async def limit(self, lane: str = "a", **limits: int) -> None:
        await self.store.lanes.put(self.account_id, lane, LaneSettings(**limits))

    async def answer(
        self, call: Invocation, outcome: Outcome = COMPLETED, wait_ms: int | None = None
    ) -> Verdict:
        """To a callback, which is tried again so much later than now; with None never."""
        due_ms = None if wait_ms is None else await self.clock.now_ms() + wait_ms
        [verdict] = await self.store.callbacks.ack(self.shard, [CallbackAck(call, outcome, due_ms)])
        return verdict

    async def ended(self, count: int, **fields: Any) -> None:
        """So many schedules have ended, and are to be called back; nothing else may be due."""
        await self.store.accounts.grant(self.account_id, count)
        for _ in range(count):
            await self.create(**({"callback": OWN} | fields))
        while count > 0:
            held = [each for each in await self.claim() if not each.is_callback]
            await self.ack(held)
            count -= len(held)

    async def spoil(self, key: str) -> None:
        """A key is of a type that the store never gives it."""
        await self.redis.delete(key)
        await self.redis.set(key, "none of ours")

    async def cancel(self, schedule_id: str) -> Cancellations:
        return await self.store.canceller.cancel(self.account_id, schedule_id)

    async def cancel_all(self, schedule_ids: Sequence[str]) -> Cancellations:
        return await self.store.canceller.by_id(self.account_id, schedule_ids)

    async def credits(self) -> int:
        return (await self.store.accounts.get(self.account_id)).credits

    async def log(self, cursor: str | None = None, **query: Any) -> list[LogEntry]:
        """Every entry that the query finds, page by page."""
        entries: list[LogEntry] = []
        while True:
            asked = LogQuery(**({"limit": 100} | query), cursor=cursor)
            page = await self.store.logs.page(self.account_id, asked)
            entries += page.entries
            cursor = page.next_cursor
            if cursor is None:
                return entries

    async def listed(
        self, source: Any, *statuses: Sequence[Status], descending: bool = False, **selected: Any
    ) -> list[Schedule]:
        """Every schedule of a list that is selected, page by page."""
        found, cursor = list[Schedule](), None
        while True:
            asked = Selection(**selected, cursor=cursor)
            page = await source.page(self.account_id, *statuses, asked, descending=descending)
            assert len(page.schedules) <= asked.limit
            found += page.schedules
            cursor = page.next_cursor
            if cursor is None:
                return found

    async def visible_at_ms(self, schedule_id: str) -> float | None:
        places = (self.base + "waiting", self.base + "laned")
        scores = await self.store.server.reads([("ZSCORE", p, schedule_id[4:]) for p in places])
        return next((float(score) for score in scores if score is not None), None)

    async def status(self, schedule_id: str) -> Status:
        return (await self.get(schedule_id)).status

    async def holdings(self) -> Holdings:
        account = await self.store.accounts.get(self.account_id)
        log = Counter(str(entry.status) for entry in await self.log())
        places = (self.base + "waiting", self.base + "laned", self.base + "held")
        waiting, laned, held = await self.store.server.reads([("ZCARD", p) for p in places])
        return Holdings(
            credits=account.credits,
            spent=account.spent,
            waiting=waiting + laned,
            held=held,
            log=dict(log),
        )

    async def assert_sound(self) -> None:
        """No invariant is broken: those that `postdate check` knows, and that ledger, log and
        statistics tell the same story."""
        told = await self.store.check()
        assert told == [], told
        found = await self.holdings()
        await self.store.tick()
        usage = await self.store.stats.usage(self.account_id, 0, await self.clock.now_ms() + 1)
        executed = (usage.completed, usage.failed)
        assert executed == (found.log.get("completed", 0), found.log.get("failed", 0))
        assert found.waiting == found.log.get("scheduled", 0)
        assert found.spent == found.waiting + usage.executed


def reads_of(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[Any]]:
    """The commands that read from now on."""
    reads, asked = scene.store.server.reads, list[Sequence[Any]]()

    async def noting(commands: Sequence[Sequence[Any]], **options: Any) -> list[Any]:
        asked.extend(commands)
        return await reads(commands, **options)

    monkeypatch.setattr(scene.store.server, "reads", noting)
    return asked


def lease_end_ms(invocation: Invocation) -> float:
    """When its lease ends, as the claim or the extension said that brought its token."""
    return int(invocation.token) / 1000


def new_id() -> str:
    """The id of a schedule that is not stored."""
    return ids.new_schedule_ids(1, START_MS)[0]


def ids_of(some: Iterable[Invocation | Schedule | LogEntry]) -> list[str]:
    return [each.schedule_id for each in some]


async def settled(call: Callable[[], Awaitable[Any]]) -> Any:
    """The result of a call, or the error that it raised."""
    try:
        return await call()
    except Exception as error:
        return error


LAST_HOUR, LAST_DAY, LAST_MONTH = (60_000, 60), (3_600_000, 24), (86_400_000, 30)


async def until_now(store: Store, account_id: str, period: tuple[int, int]) -> Series:
    """So many points of so many ms, the one that is not over yet being the last."""
    step_ms, points = period
    to_ms = store.clock.now_ms() // step_ms * step_ms + step_ms
    return await store.overview.past(
        account_id, ChartRange(to_ms - points * step_ms, step_ms, points)
    )


def after_the_first_read(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], Awaitable[None]]
) -> Callable[[], int]:
    """Carries `act` out between the first read of a cancellation and its write; tells how often it
    has read."""
    reads = 0

    async def read(*which: Any) -> AsyncIterator[Any]:
        nonlocal reads
        reads += 1
        first = reads == 1
        async for chunk in read_by_id(*which):
            if first:
                await act()
            yield chunk

    monkeypatch.setattr(cancel, "read_by_id", read)
    return lambda: reads
