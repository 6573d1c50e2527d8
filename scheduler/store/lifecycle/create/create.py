"""Schedules as their owners see them: created, replayed, read, changed."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from scheduler import ids
from scheduler.callers import KnownKey, Rate
from scheduler.errors import (
    Damaged,
    FieldError,
    InvalidRequest,
)
from scheduler.models import (
    Idempotency,
    Packed,
    Plan,
    Request,
    Schedule,
    Status,
    Upsert,
    as_occurrence,
)
from scheduler.store import keys, stored
from scheduler.store.heads import names_of
from scheduler.store.idempotency import (
    Made,
    kept,
    once_name,
)
from scheduler.store.lifecycle.create.create_rows import alone_of, group_of, rows_of
from scheduler.store.lifecycle.create.creator import Creator
from scheduler.store.lifecycle.create.replays import (
    CreatePlan,
    Remake,
    Replays,
    asked_for,
    originals_of,
    replays_of,
    rest_of,
)
from scheduler.store.lifecycle.create.results import CreateResult
from scheduler.store.preconditions import ALWAYS, Precondition
from scheduler.store.queries.listing import Failed, Selection
from scheduler.store.queries.reading import (
    Stored,
    read_by_id,
    read_stored,
    whole,
)
from scheduler.store.queries.timeline import cursor_until, until
from scheduler.store.retention import Retention
from scheduler.store.server import Argument, Script, Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.verdict import MOST_CHANGES_MET, Verdict, refusal

# Of a key: `ApiKeys.admit` tells why.
_KEY_REFUSED = frozenset({Verdict.UNKNOWN, Verdict.SUSPENDED, Verdict.LIMITED, Verdict.DAMAGED})

_CHANGE = Script("lifecycle/create/change")


class Begun(NamedTuple):
    """A create that was sent to the store: the new id, its note, and the reply to come, which is a
    verdict if it went `alone`."""

    new: list[str]
    note: bytes
    reply: Future[Any]
    alone: bool = False


class Schedules:
    """Creates, replays, reads and changes schedules; each new one takes a credit.

    What creates raises NotFound (the account), StoreUnavailable (nothing was changed), Unreadable
    (the account is damaged) or OutcomeUnknown. `now_ms`: the moment of creation, if the caller has
    one. With `once`, a call is safe to repeat for 24 hours: a later one with the same key gets the
    result of the first, and raises KeyReused if its fingerprint differs.
    """

    def __init__(
        self,
        server: Server,
        clock: StoreClock,
        retention: Retention,
        failed: Failed,
        rates: Mapping[Plan, int],
    ) -> None:
        self._server = server
        self._secrecy = server.secrecy
        self._clock = clock
        self._retention = retention
        self._failed = failed
        self._creator = Creator(server, clock, retention, rates)

    @property
    def created(self) -> int:
        """By this process, since it began."""
        return self._creator.created

    async def create(self, account_id: str, request: Request) -> str:
        """Stores one, and returns its new id. Raises InsufficientCredits, QuotaExceeded. Each call
        makes another schedule; repeats within it after a lost reply do not."""
        created = await self.create_all(account_id, [request])
        return created.schedule_ids[0]

    async def create_all(
        self,
        account_id: str,
        requests: Sequence[Request | Packed | Upsert],
        once: Idempotency | None = None,
        now_ms: int | None = None,
    ) -> CreateResult:
        """Stores schedules in order, as many as the credits reach for. With an Upsert among them
        each has a result of its own, and no error is raised for one.

        Many are stored in parts, each with its debit in one step. A process that dies in between
        leaves the first ones; with `once`, a repeat finds them `unfinished`, for `finish`.

        Raises InsufficientCredits only if not even one could be stored; QuotaExceeded and
        TooManyLanes if those that the credits reach for would be too much together, or in too many
        lanes; TooManyUpserts.
        """
        what = CreatePlan(requests, b"" if once is None else once.note)
        made = await self._creator.make(account_id, what, once, self._moment(now_ms))
        return CreateResult.of(made)

    async def finish(
        self,
        account_id: str,
        requests: Sequence[Request | Packed | Upsert],
        once: Idempotency,
        begun: Made,
    ) -> CreateResult:
        """Stores the rest of an `unfinished` call, whose requests are these. Safe to repeat, and
        while that call is under way."""
        what = CreatePlan(requests, begun.note)
        created_ms = ids.created_at_ms(begun.schedule_ids[0])
        made = await self._creator.make(account_id, what, once, created_ms, begun)
        return CreateResult.of(made._replace(repeated=True))

    async def create_by_key(
        self,
        key: KnownKey,
        request: Request | Packed,
        once: Idempotency | None,
        now_ms: int,
        on_rate: Callable[[Rate], None],
    ) -> CreateResult | None:
        """`ApiKeys.admit` and `create_all` of one request, in one step. None if `admit` refuses the
        key: nothing was changed then. `on_rate` gets the standing of the account whose plan has a
        rate, before any error is raised."""
        begun = self.begin_by_key(key, request, once, now_ms)
        return self.end_by_key(begun, await begun.reply, on_rate)

    def begin_by_key(
        self, key: KnownKey, request: Request | Packed, once: Idempotency | None, now_ms: int
    ) -> Begun:
        """The first half of `create_by_key`, for callers without a task."""
        new = ids.new_schedule_ids(1, now_ms)
        if once is None and request.lane is None and request.reference is None:
            packed = stored.seal_request(request, self._secrecy)
            group = alone_of(key.sha256, new[0], request, packed)
            return Begun(new, b"", self._creator.submit(key.shard, group), alone=True)
        what = CreatePlan([request], b"" if once is None else once.note)
        rows = list(rows_of(new, what, now_ms, self._secrecy))
        group = group_of(("", key.sha256), what, once, new[0], rows)
        return Begun(new, what.note, self._creator.submit(key.shard, group, once))

    def end_by_key(
        self, begun: Begun, reply: Any, on_rate: Callable[[Rate], None]
    ) -> CreateResult | None:
        """The second half, with what `begun.reply` has."""
        if isinstance(reply, list):
            reply, *standing = reply
            on_rate(Rate(*standing))
        verdict = reply if isinstance(reply, int) else reply[0]
        if verdict in _KEY_REFUSED:
            return None
        if begun.alone:
            self._creator.stored_alone(verdict)
            return CreateResult(begun.new)
        return CreateResult.of(self._creator.made(reply, begun.new, begun.note))

    async def created_before(self, account_id: str, once: Idempotency) -> CreateResult | None:
        """What an earlier call with this key stored, or None. Raises KeyReused. Read-only."""
        made = await self._made_before(account_id, once)
        return made and CreateResult.of(made)

    async def replay(
        self,
        account_id: str,
        schedule_id: str,
        remake: Remake,
        once: Idempotency | None = None,
        now_ms: int | None = None,
    ) -> Replays:
        """Replays one that has ended, also if it was replayed before. Without `once`, each call
        makes another. Raises NotFound, Conflict, Damaged, InsufficientCredits, QuotaExceeded, and
        what `remake` raises."""
        if not ids.is_schedule_id(schedule_id):
            raise refusal(schedule_id, Verdict.UNKNOWN)
        found = await self._read(account_id, [schedule_id])
        what = (await asked_for([schedule_id], found, remake))._replace(again=True)
        done = await self._replay(account_id, what, remake, once, now_ms)
        [replay] = done.each
        if replay.verdict is not Verdict.DONE:
            raise refusal(schedule_id, replay.verdict)
        return done

    async def replay_all(
        self,
        account_id: str,
        schedule_ids: Sequence[str],
        remake: Remake,
        once: Idempotency | None = None,
        now_ms: int | None = None,
        *,
        most_bytes: int,
    ) -> Replays:
        """Replays those of them that can be, each at most once; as many as the credits reach for.
        Many are replayed in parts. Safe to repeat: REPLAYED is the verdict on those that were
        replayed before; with `once`, a repeat completes a call that was cut off. Raises
        InvalidRequest if they are larger than `most_bytes`."""
        if (made := await self._made_before(account_id, once)) is not None:
            return await self._completed(account_id, made, remake, once)
        found = await self._read(account_id, schedule_ids, most_bytes)
        what = await asked_for(schedule_ids, found, remake)
        return await self._replay(account_id, what, remake, once, now_ms)

    async def replay_failed(
        self,
        account_id: str,
        selected: Selection,
        remake: Remake,
        once: Idempotency | None = None,
        now_ms: int | None = None,
    ) -> Replays:
        """Replays dead letters, the oldest first; as `replay_all`. They leave the list, so that a
        repeat goes on with others. What `next_cursor` leads on to ends with what had failed by
        now, as the server's clock says: a replay that fails again meanwhile would have no end.
        Raises InvalidRequest for a bad cursor."""
        if (made := await self._made_before(account_id, once)) is not None:
            return await self._completed(account_id, made, remake, once)
        cursor, until_ms = until(selected.cursor)
        if until_ms is None:
            [time] = await self._server.reads([("TIME",)], at_once=keys.account(account_id))
            # What failed in the millisecond of the beginning is of the walk.
            until_ms = self._clock.observe_reply(time) + 1
        to_ms = until_ms if selected.to_ms is None else min(selected.to_ms, until_ms)
        selected = selected._replace(cursor=cursor, to_ms=to_ms)
        page = await self._failed.page(account_id, selected)
        originals = [each.schedule_id for each in page.schedules]
        next_cursor = cursor_until(page.next_cursor, until_ms)
        what = await asked_for(originals, page.schedules, remake, next_cursor)
        return await self._replay(account_id, what, remake, once, now_ms)

    async def replayed_before(self, account_id: str, once: Idempotency) -> Replays | None:
        """What an earlier `replay` with this key did, or None. Raises KeyReused. Read-only."""
        made = await self._made_before(account_id, once)
        return made and await replays_of(made)

    async def get(self, account_id: str, schedule_id: str) -> Schedule:
        """The schedule as it stands. Raises NotFound (also for another account's), Damaged."""
        return (await self.read(account_id, schedule_id)).schedule

    async def read(self, account_id: str, schedule_id: str) -> Stored:
        """The same, with what is stored of it and its etag."""
        return await read_stored(self._server, account_id, schedule_id)

    async def change(
        self,
        account_id: str,
        schedule_id: str,
        changed: Callable[[Request], Request],
        operation: str | None = None,
        wanted: Precondition = ALWAYS,
    ) -> Stored:
        """Replaces what a waiting schedule asks for; `changed` makes the new request of the old,
        of which it stays an occurrence, if that is one. What is so already is not written.
        Between two attempts a new triggerAt moves the next one. Two changes are applied one after
        the other. Safe to repeat after a lost reply; with the name of an `operation`, once for all
        calls of that name within a minute. Returns it as it then stands.

        Raises NotFound, Conflict if it has ended, a worker holds it or others keep changing it,
        PreconditionFailed, QuotaExceeded, Damaged, and what `changed` raises; then nothing was
        changed.
        """
        named, operation = operation is not None, operation or ids.new_operation()
        server, secrecy = self._server, self._secrecy
        shard, account = keys.parts(account_id)
        for _ in range(MOST_CHANGES_MET):
            # The answer has to be readable before anything is changed.
            found = await self.read(account_id, schedule_id)
            before, packed = found.schedule.request, found.packed
            request = as_occurrence(changed(before), before.recurring)
            if found.schedule.status is Status.SCHEDULED:  # one that has ended is refused as such
                wanted.judge(found.etag, is_so=request == before)
            is_known = not named and not server.wait_replicas  # replicas may lack it yet
            if request == before and found.schedule.waits and is_known:
                return found
            due_ms = request.trigger_at_ms
            moved_to = due_ms if due_ms != before.trigger_at_ms else ""
            arguments: list[Argument] = [account, operation, stored.sha1_of(packed)]
            arguments += (found.fields.attempt or "", *names_of(before.lane, before.reference))
            if request != before:
                packed = stored.seal_request(request, secrecy)
            arguments += (ids.local(schedule_id), moved_to, packed)
            arguments += (*names_of(request.lane, request.reference), *self._retention.quotas)
            verdict, said = await server.write_until_answered(_CHANGE, keys.shard(shard), arguments)
            if verdict != Verdict.CHANGED:
                break
        with whole(schedule_id):
            if verdict != Verdict.DONE:
                ended = stored.ended_status(said) if said else Status.SCHEDULED
                raise refusal(schedule_id, Verdict(verdict), ended)
            now = found.fields._replace(
                packed=packed, outcome=None, attempt=said or None, held=False
            )
            return Stored(stored.schedule(schedule_id, now, secrecy), now)

    async def _made_before(self, account_id: str, once: Idempotency | None) -> Made | None:
        if once is None:
            return None
        key = keys.account(account_id) + keys.ONCE + once_name(once)
        value = await self._server.read("GET", key)
        return value and kept(value, once)

    async def _read(
        self, account_id: str, schedule_ids: Sequence[str], most_bytes: int | None = None
    ) -> list[Schedule | Damaged | None]:
        found: list[Schedule | Damaged | None] = []
        read_bytes = 0
        async for chunk in read_by_id(self._server, account_id, schedule_ids):
            found += [each.schedule if isinstance(each, Stored) else each for each in chunk]
            read_bytes += sum(len(each.packed) for each in chunk if isinstance(each, Stored))
            if most_bytes is not None and read_bytes > most_bytes:
                message = f"Together they are larger than {most_bytes:,} bytes; name fewer."
                raise InvalidRequest([FieldError("ids", message)])
        return found

    async def _replay(
        self,
        account_id: str,
        what: CreatePlan,
        remake: Remake,
        once: Idempotency | None,
        now_ms: int | None,
    ) -> Replays:
        if not what.requests:
            return await replays_of(Made([], note=what.note))
        made = await self._creator.make(account_id, what, once, self._moment(now_ms))
        return await self._completed(account_id, made, remake, once)

    async def _completed(
        self, account_id: str, made: Made, remake: Remake, once: Idempotency | None
    ) -> Replays:
        """The result of a call. Makes the replays first that an earlier call did not reach."""
        if made.is_unfinished:
            found = await self._read(account_id, originals_of(made))
            what = await rest_of(made, found, remake)
            created_ms = ids.created_at_ms(made.schedule_ids[0])
            made = await self._creator.make(account_id, what, once, created_ms, made)
            made = made._replace(repeated=True)
        return await replays_of(made)

    def _moment(self, now_ms: int | None) -> int:
        return self._clock.now_ms() if now_ms is None else now_ms
