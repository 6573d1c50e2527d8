"""Schedules as their owners see them: created, read, listed, changed, cancelled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from scheduler import ids
from scheduler.errors import (
    Conflict,
    InsufficientCredits,
    KeyReused,
    NotFound,
    StoreUnavailable,
)
from scheduler.models import Idempotency, Request, Schedule, Status
from scheduler.store import keys, packing
from scheduler.store.clock import StoreClock
from scheduler.store.coalesce import Coalescer
from scheduler.store.connection import Client, translated
from scheduler.store.items import CreateGroup, CreateItem, CreateReply, Once
from scheduler.store.repeat import repeated
from scheduler.store.scripts import Scripts
from scheduler.store.timeline import encode_cursor, merge, span
from scheduler.store.unended import Unended

# What one script stores, as `_weight` counts it: about 3 ms in which the server does nothing else.
_MOST_AT_ONCE = 500
_BYTES_LIKE_ONE_MORE = 2048
_MOST_CHANGES_MET = 20

# What the scripts answer; their headers say it at length.
_STORED, _ASKED_BEFORE, _KEY_REUSED = 1, 2, 3
_DONE, _NO_SUCH, _ENDED, _HELD = 1, 0, -1, -2


class Created(NamedTuple):
    """The ids of what is stored, in order: all that was asked for, or the first ones if the
    credits did not reach. `replayed`: they were stored by an earlier call with the same key."""

    schedule_ids: list[str]
    replayed: bool = False


class SchedulePage(NamedTuple):
    """`next_cursor` is None at the end."""

    schedules: list[Schedule]
    next_cursor: str | None


class Schedules:
    """Creates, reads, lists, changes and cancels schedules."""

    def __init__(self, client: Client, scripts: Scripts, clock: StoreClock) -> None:
        self._client = client
        self._scripts = scripts
        self._clock = clock
        self._unended = Unended(scripts)
        self._creating: dict[int, Coalescer[CreateGroup, CreateReply]] = {}

    async def create(self, account_id: str, request: Request) -> str:
        """Stores a schedule, takes its credit, and returns its new id.

        Raises InsufficientCredits, NotFound (the account), StoreUnavailable (nothing was
        changed) or OutcomeUnknown. Each call makes another schedule; within one call, repeats
        after a lost reply do not.
        """
        created = await self.create_all(account_id, [request])
        return created.schedule_ids[0]

    async def create_all(
        self, account_id: str, requests: Sequence[Request], once: Idempotency | None = None
    ) -> Created:
        """Stores schedules in one step, with one debit; as many as the credits reach for.

        With `once`, safe to repeat for 24 hours: a later call with the same key is answered with
        what the first one stored. Raises as `create` does, and KeyReused if the key came with
        another fingerprint. InsufficientCredits only if not even one could be stored.
        """
        shard, account = keys.parts(account_id)
        new = [ids.new_schedule_id() for _ in requests]
        items = [
            CreateItem(schedule_id[4:], each.trigger_at_ms, packing.pack_request(each))
            for schedule_id, each in zip(new, requests, strict=True)
        ]
        note = _once(once, new)
        reply = await self._creator(shard).submit(CreateGroup(account, items, note))
        if reply.code == _ASKED_BEFORE:
            before = _noted(reply)
            # Our own ids: this call's first attempt did it, and its reply was lost.
            return Created(before, replayed=before != new[: reply.stored])
        if reply.code == _KEY_REUSED:
            raise KeyReused
        if reply.code != _STORED:
            raise NotFound(f"There is no account {account_id}.")
        if reply.stored == 0:
            raise InsufficientCredits
        return Created(new[: reply.stored])

    async def created_before(self, account_id: str, once: Idempotency) -> Created | None:
        """What an earlier call with this key stored, or None. Raises KeyReused. Read-only."""
        key = f"{keys.account(account_id)}once:{_digest(once.key)}"
        with translated():
            known = await self._client.hmget(key, "fingerprint", "stored", "note")
        if known[0] is None:
            return None
        if known[0].decode() != once.fingerprint:
            raise KeyReused
        return Created(_noted(CreateReply(_ASKED_BEFORE, int(known[1]), known[2])), replayed=True)

    async def get(self, account_id: str, schedule_id: str) -> Schedule:
        """The schedule as it stands. Raises NotFound for an unknown one or another account's."""
        packed, created, status, token, outcome, ended = await self._stored(account_id, schedule_id)
        final = Status(status.decode()) if status else Status.SCHEDULED
        return Schedule(
            schedule_id=schedule_id,
            created_at_ms=int(created),
            request=packing.unpack_request(packed),
            status=final,
            executing=bool(token),
            outcome=packing.unpack_outcome(final, outcome) if outcome else None,
            ended_at_ms=int(ended) if ended else None,
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
        url_part: str = "",
    ) -> SchedulePage:
        """Those that have not ended, by triggerAt and id, a page at a time. Read-only.

        With `url_part`, only those with it in their URL; a page may then be short before the end.

        Raises InvalidRequest for a bad cursor. What stays as it is meanwhile is neither skipped
        nor repeated, though thousands share a millisecond and others come and go.
        """
        stretch = span(from_ms, to_ms, cursor, down=descending)
        found = await self._unended.read(
            account_id, stretch, limit + 1, lambda each: url_part in each.request.url
        )
        page = merge([found], limit, stretch)
        return SchedulePage(page.entries, encode_cursor(page.next) if page.next else None)

    async def change(
        self, account_id: str, schedule_id: str, changed: Callable[[Request], Request]
    ) -> Schedule:
        """Replaces what a waiting schedule asks for; `changed` makes the new request of the old.

        Raises NotFound, Conflict if it has ended or a worker holds it, and whatever `changed`
        raises; then nothing was changed. Two changes are applied one after the other. Safe to
        repeat after a lost reply.
        """
        operation = ids.new_token()
        for _ in range(_MOST_CHANGES_MET):
            packed, created, *_rest = await self._stored(account_id, schedule_id)
            request = changed(packing.unpack_request(packed))
            change = partial(
                self._scripts.change,
                account_id,
                schedule_id[4:],
                operation,
                before=packed,
                after=packing.pack_request(request),
                trigger_at_ms=request.trigger_at_ms,
            )
            code, status = await repeated(change)
            if code == _DONE:
                return Schedule(schedule_id, int(created), request, Status.SCHEDULED)
            _refuse(code, status)
        raise StoreUnavailable("The schedule keeps changing; try again")

    async def cancel(self, account_id: str, schedule_id: str) -> int:
        """Cancels a waiting schedule, gives its credit back, and returns the credits then left.

        Raises NotFound, or Conflict if it has ended or a worker holds it. Refunds once, however
        often it is called or a reply is lost.
        """
        operation = ids.new_token()
        for _ in range(_MOST_CHANGES_MET):
            packed, created, *_rest = await self._stored(account_id, schedule_id)
            request = packing.unpack_request(packed)
            line = packing.log_line(schedule_id, int(created), request, None)
            code, credits, status = await repeated(
                partial(self._scripts.cancel, account_id, schedule_id[4:], operation, packed, line)
            )
            if code == _DONE:
                return credits
            _refuse(code, status)
        raise StoreUnavailable("The schedule keeps changing; try again")

    async def _stored(self, account_id: str, schedule_id: str) -> list[bytes]:
        """Packed request, created, status, token, packed outcome, ended. Raises NotFound."""
        if not ids.is_schedule_id(schedule_id):
            raise _unknown()
        key = keys.schedule(account_id, schedule_id)
        with translated():
            stored: list[bytes] = await self._client.hmget(key, "r", "c", "s", "t", "o", "e")
        if stored[0] is None:
            raise _unknown()
        return stored

    def _creator(self, shard: int) -> Coalescer[CreateGroup, CreateReply]:
        creator = self._creating.get(shard)
        if creator is None:
            creator = Coalescer(lambda groups: self._create(shard, groups), _MOST_AT_ONCE, _weight)
            self._creating[shard] = creator
        return creator

    async def _create(self, shard: int, groups: list[CreateGroup]) -> list[CreateReply]:
        now_us, replies = await repeated(lambda: self._scripts.create(shard, groups))
        self._clock.observe(now_us)
        return replies


def _weight(group: CreateGroup) -> int:
    return sum(1 + len(item.request) // _BYTES_LIKE_ONE_MORE for item in group.items)


def _once(once: Idempotency | None, new: list[str]) -> Once | None:
    if once is None:
        return None
    return Once(_digest(once.key), once.fingerprint, "".join(each[4:] for each in new).encode())


def _noted(reply: CreateReply) -> list[str]:
    """The ids that were stored under a once-key, from its note."""
    width = ids.SUFFIX_CHARACTERS
    places = range(0, reply.stored * width, width)
    return ["sch_" + reply.note[at : at + width].decode() for at in places]


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _refuse(code: int, status: bytes) -> None:
    """Raises what a change that did not happen means; returns if it may be tried again."""
    if code == _NO_SUCH:
        raise _unknown()
    if code == _ENDED:
        ended = Status(status.decode())
        raise Conflict(f"The schedule is {ended} already", ended)
    if code == _HELD:
        raise Conflict("Execution has started", Status.SCHEDULED)


def _unknown() -> NotFound:
    return NotFound("There is no such schedule")
