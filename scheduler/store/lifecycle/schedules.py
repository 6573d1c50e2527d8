"""Schedules as their owners see them: created, read, listed, changed, cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from scheduler import ids
from scheduler.errors import (
    Conflict,
    InsufficientCredits,
    KeyReused,
    NotFound,
    QuotaExceeded,
    StoreUnavailable,
    Unreadable,
)
from scheduler.models import Idempotency, Request, Schedule, Status
from scheduler.store import keys, stored
from scheduler.store.lifecycle.cancelling import Cancelled, cancelling
from scheduler.store.lifecycle.change import Changing
from scheduler.store.lifecycle.once import (
    COUNT_BYTES,
    DIGEST_BYTES,
    NO_SCHEDULE,
    ONCE_KEPT_MS,
    Created,
    kept_with,
    noted,
)
from scheduler.store.log.timeline import lowered, span
from scheduler.store.queries.listing import SchedulePage
from scheduler.store.queries.reading import read_one, whole
from scheduler.store.queries.unended import Unended
from scheduler.store.retention import Retention
from scheduler.store.scans import Scans
from scheduler.store.server import Argument, Script, Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.server.coalescing import Coalescer

# What one script stores, as `_Group.weight` counts it: about 3 ms in which the server does nothing
# else.
_MOST_AT_ONCE = 500
_BYTES_LIKE_ONE_MORE = 2048
_MOST_CHANGES_MET = 20

_CREATE = Script("lifecycle/create")
_CANCEL = Script("lifecycle/cancel")
_STOP = Script("lifecycle/stop")

# What the scripts answer; their headers say it at length.
_NO_ACCOUNT, _KEY_REUSED, _TOO_MUCH, _DAMAGED = -1, -2, -3, -4
_DONE, _NO_SUCH, _ENDED, _HELD = 1, 0, -1, -2


class _Group(NamedTuple):
    """Schedules of one account that were asked for together, as the script takes them."""

    arguments: list[Argument]
    weight: int


class Schedules(Changing):
    """Creates, reads, lists, changes and cancels schedules."""

    def __init__(
        self, server: Server, clock: StoreClock, retention: Retention, scans: Scans
    ) -> None:
        super().__init__(server, clock, retention)
        self._scans = scans
        self._unended = Unended(server)
        self._creating: dict[int, Coalescer[_Group, Any]] = {}
        # By this process, since it began.
        self.created = self.cancelled = 0

    async def create(self, account_id: str, request: Request) -> str:
        """Stores a schedule, takes its credit, and returns its new id.

        Raises InsufficientCredits, QuotaExceeded, NotFound (the account), StoreUnavailable
        (nothing was changed), Unreadable (the account is damaged) or OutcomeUnknown. Each call
        makes another schedule; within one call, repeats after a lost reply do not.
        """
        created = await self.create_all(account_id, [request])
        return created.schedule_ids[0]

    async def create_all(
        self,
        account_id: str,
        requests: Sequence[Request],
        once: Idempotency | None = None,
        now_ms: int | None = None,
    ) -> Created:
        """Stores schedules in one step, with one debit; as many as the credits reach for.

        With `once`, safe to repeat for 24 hours: a later call with the same key is answered with
        what the first one stored. Raises as `create` does, and KeyReused if the key came with
        another fingerprint. InsufficientCredits only if not even one could be stored;
        QuotaExceeded if those that the credits reach for would be too much together.

        `now_ms` is when they were asked for, if that was decided before: they are created then.
        """
        shard, account = keys.parts(account_id)
        created_ms = self._clock.now_ms() if now_ms is None else now_ms
        new = ids.new_schedule_ids(len(requests), created_ms)
        arguments: list[Argument] = [account, *kept_with(once, new[0]), len(requests)]
        weight = len(requests)
        for schedule_id, each in zip(new, requests, strict=True):
            packed = stored.seal_request(each, self._secrecy)
            arguments += (ids.local(schedule_id), each.trigger_at_ms, packed)
            weight += len(packed) // _BYTES_LIKE_ONE_MORE
        reply = await self._creator(shard).submit(_Group(arguments, weight))
        if isinstance(reply, list):
            count, kept = reply
            before = noted(count.to_bytes(COUNT_BYTES, "big") + kept)
            # Our own ids: this call's first attempt did it, and its reply was lost.
            replayed = before.schedule_ids[0] != new[0]
            self.created += 0 if replayed else len(before.schedule_ids)
            return before._replace(replayed=replayed)
        if reply == _KEY_REUSED:
            raise KeyReused
        if reply == _NO_ACCOUNT:
            raise NotFound(f"There is no account {account_id}.")
        if reply == _TOO_MUCH:
            raise QuotaExceeded
        if reply == _DAMAGED:
            raise Unreadable(f"Something of {account_id} is damaged")
        if reply == 0:
            raise InsufficientCredits
        self.created += reply
        return Created(new[:reply], note=b"" if once is None else once.note)

    async def created_before(self, account_id: str, once: Idempotency) -> Created | None:
        """What an earlier call with this key stored, or None. Raises KeyReused. Read-only."""
        key, keep = kept_with(once, NO_SCHEDULE)
        [kept] = await self._server.reads([("GET", f"{keys.account(account_id)}{keys.ONCE}{key}")])
        if kept is None:
            return None
        if kept[:DIGEST_BYTES] != keep[:DIGEST_BYTES]:
            raise KeyReused
        return noted(kept[DIGEST_BYTES:])

    async def get(self, account_id: str, schedule_id: str) -> Schedule:
        """The schedule as it stands. Raises NotFound for an unknown one or another account's,
        Damaged."""
        with whole(schedule_id):
            found = await self._stored(account_id, schedule_id)
            return stored.schedule(
                schedule_id,
                stored.open_request(found.packed, self._secrecy),
                found.outcome,
                found.replay,
                attempt=found.attempt,
                said=found.said,
                executing=found.held,
                secrecy=self._secrecy,
            )

    async def page(
        self,
        account_id: str,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        limit: int = 50,
        descending: bool = False,
        cursor: str | None = None,
        url: str | None = None,
        url_part: str = "",
    ) -> SchedulePage:
        """Those that have not ended, by triggerAt and id, a page at a time. Read-only.

        With `url`, only those of this very one, with `url_part`, those that have it in theirs, in
        small letters or large; a page may then be short before the end.

        Raises InvalidRequest for a bad cursor, TooManyScans. What stays as it is meanwhile is
        neither skipped nor repeated, though thousands share a millisecond and others come and go.
        """
        stretch = span(from_ms, to_ms, cursor, down=descending)
        part = lowered(url_part)
        async with self._scans.of(account_id, searches=bool(url is not None or part)) as scan:
            found = await self._unended.read(
                account_id,
                stretch,
                limit + 1,
                lambda each: part in lowered(each.request.url) and url in (None, each.request.url),
                scan,
                part,
            )
        return SchedulePage.of(found, limit, stretch)

    async def cancel(self, account_id: str, schedule_id: str) -> Cancelled:
        """Cancels a schedule before its first attempt and gives its credit back; between two
        attempts it stops the rest, and the schedule has failed as the last one did.

        Raises NotFound, Conflict if it has ended or a worker holds it, or Damaged. Refunds once,
        however often it is called or a reply is lost.
        """
        operation = ids.new_operation()
        for _ in range(_MOST_CHANGES_MET):
            with whole(schedule_id):
                found = await self._stored(account_id, schedule_id)
                arguments = cancelling(
                    schedule_id, operation, found, self._retention, self._secrecy
                )
            script = _STOP if found.attempt else _CANCEL
            code, credits, outcome = await self._written(
                script, keys.account(account_id), arguments
            )
            if code == _DONE:
                done = Cancelled.of(found, int(credits))
                self.cancelled += done.stopped is None
                return done
            with whole(schedule_id):
                _refuse(code, outcome)
        raise StoreUnavailable("The schedule keeps changing; try again")

    async def _written(self, script: Script, key: str, arguments: Sequence[Argument]) -> Any:
        return await self._server.repeated(lambda: self._server.write(script, key, arguments))

    async def _stored(self, account_id: str, schedule_id: str) -> stored.Fields:
        return await read_one(self._server, account_id, schedule_id)

    def _creator(self, shard: int) -> Coalescer[_Group, Any]:
        creator = self._creating.get(shard)
        if creator is None:
            creator = Coalescer(
                lambda groups: self._create(shard, groups),
                _MOST_AT_ONCE,
                lambda group: group.weight,
            )
            self._creating[shard] = creator
        return creator

    async def _create(self, shard: int, groups: list[_Group]) -> list[Any]:
        quotas = self._retention.quotas
        arguments: list[Argument] = [self._retention.log_ms, ONCE_KEPT_MS, len(quotas) // 2]
        arguments += quotas
        for group in groups:
            arguments += group.arguments
        now_us, replies = await self._written(_CREATE, keys.shard(shard), arguments)
        self._clock.observe(now_us)
        return list(replies)


def _refuse(code: int, outcome: bytes) -> None:
    """Raises what a change that did not happen means; returns if it may be tried again."""
    if code == _NO_SUCH:
        raise NotFound("There is no such schedule")
    if code == _ENDED:
        ended = stored.ended_status(outcome)
        raise Conflict(f"The schedule is {ended} already", ended)
    if code == _HELD:
        raise Conflict("Execution has started", Status.SCHEDULED)
