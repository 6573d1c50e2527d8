"""Sends creates to the store: small ones together, large ones in parts."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Mapping
from functools import cache, partial
from typing import Any, NamedTuple, cast

from scheduler import ids
from scheduler.errors import InsufficientCredits, TooManyUpserts
from scheduler.models import Idempotency, Plan
from scheduler.runtime.pause import collected
from scheduler.store import keys
from scheduler.store.idempotency import ONCE_KEPT_MS, Made, noted, verdicts_of
from scheduler.store.lifecycle.create.create_rows import (
    CreateGroup,
    CreateRow,
    Part,
    Rows,
    group_of,
    part_from,
    plain_rows_of,
    replies_of,
    row_weights,
    rows_of,
    together,
)
from scheduler.store.lifecycle.create.on_existing import bases_of
from scheduler.store.lifecycle.create.replays import CreatePlan
from scheduler.store.lifecycle.create.results import refusal_of_all
from scheduler.store.retention import Retention
from scheduler.store.server import Argument, Script, Server, flat
from scheduler.store.server.clock import StoreClock
from scheduler.store.server.coalescing import Coalescer
from scheduler.store.server.writes import note_write
from scheduler.store.verdict import MOST_CHANGES_MET, Verdict, refusal

# Most that one script stores, by weight: about a millisecond of the server, for which what others
# create waits. Of an account, only one heavier than `_LONG` is on its way.
_MOST_AT_ONCE, _LONG = 200, 50

_CREATE = Script("lifecycle/create/create")


class _Call(NamedTuple):
    """What a call sends in parts; `new`: the ids of all."""

    account_id: str
    what: CreatePlan
    once: Idempotency | None
    created_ms: int
    new: list[str]
    rows: Rows


class Creator:
    """Creates and replays for `Schedules`, whose errors it raises."""

    def __init__(
        self,
        server: Server,
        clock: StoreClock,
        retention: Retention,
        rates: Mapping[Plan, int],
    ) -> None:
        self._server = server
        self._clock = clock
        self._retention = retention
        self._plans = _plans(retention, rates)
        self._of_shard = cache(self._new_creator)
        self._of_shard_and_time = cache(self._new_creator)
        # By this process, since it began.
        self.created = 0

    def submit(
        self, shard: int, group: CreateGroup, once: Idempotency | None = None
    ) -> Future[Any]:
        """The reply to come, for `made`. Groups whose once-keys are kept for different times go in
        scripts of their own."""
        if once is None or once.kept_ms is None:
            return self._of_shard(shard).submit(group)
        return self._of_shard_and_time(shard, once.kept_ms).submit(group)

    def made(self, reply: bytes, new: list[str], note: bytes, account_id: str = "") -> Made:
        """The script's reply to a group."""
        if reply[0] == Verdict.REPEATED:
            made = noted(reply[1:])
            # With our own ids, this call's first attempt did it, and its reply was lost.
            made = made._replace(repeated=made.schedule_ids[0] != new[0])
        elif reply[0] == Verdict.DONE:
            verdicts, placed = verdicts_of(reply[1:])
            made = Made(new, verdicts, note, placed=placed)
        else:
            raise refusal_of_all(account_id, reply[0])
        if not made.repeated:
            self.created += made.verdicts.count(Verdict.DONE)
        return made

    def stored_alone(self, verdict: int) -> None:
        """The script's verdict on a request that went `alone`: counts it, or raises why it was not
        stored."""
        if verdict != Verdict.DONE:
            raise InsufficientCredits if verdict == Verdict.UNPAID else refusal_of_all("", verdict)
        self.created += 1

    async def make(
        self,
        account_id: str,
        what: CreatePlan,
        once: Idempotency | None,
        created_ms: int,
        begun: Made | None = None,
    ) -> Made:
        """Sends one part after the other. `begun`: another call has sent the first ones."""
        new = begun.schedule_ids if begun else ids.new_schedule_ids(len(what.requests), created_ms)
        secrecy = self._server.secrecy
        rows: Rows | None = plain_rows_of(new, what, secrecy)
        if rows is None:
            rows = await collected(rows_of(new, what, created_ms, secrecy))
        call = _Call(account_id, what, once, created_ms, new, rows)
        weights = row_weights(what, rows)
        total = begun.so_far if begun else Made(new, note=what.note)
        earlier, is_noted = b"", once is None or begun is not None
        while len(total.verdicts) < len(new):
            part = part_from(len(total.verdicts), weights, _MOST_AT_ONCE)
            reply = await self._send(call, part._replace(earlier=earlier))
            made = self.made(reply, new, what.note, account_id)
            if made.repeated:
                return made
            if reply[0] == Verdict.REPEATED:
                total, is_noted = made.so_far, True
            else:
                total = total.followed_by(made)
                is_noted = is_noted or total.is_noted
                earlier += reply[2 if made.placed else 1 :]
            earlier = b"" if is_noted else earlier
        return total

    async def _send(self, call: _Call, part: Part) -> bytes:
        """The reply to a part. Rebuilds its requests if the schedules they replace changed."""
        account_id, what, once, created_ms, new, rows = call
        shard, account = keys.parts(account_id)
        sent = slice(part.before, part.until)
        for _ in range(MOST_CHANGES_MET):
            group = group_of((account, ""), what, once, new[0], rows, part)
            if group.weight > _LONG:
                async with self._server.long_script(keys.shard(shard), account_id):
                    reply: bytes = await self.submit(shard, group, once)
            else:
                reply = await self.submit(shard, group, once)
            if reply[0] == Verdict.LIMITED:
                raise TooManyUpserts(int(reply[1:]))
            note_write()
            if reply[0] != Verdict.CHANGED:
                return reply
            again = what._replace(requests=what.requests[sent])
            bases = bases_of(reply[1:])
            anew = rows_of(new[sent], again, created_ms, self._server.secrecy, bases)
            cast("list[CreateRow]", rows)[sent] = await collected(anew)
        raise refusal("", Verdict.CHANGED)

    def _new_creator(self, shard: int, kept_ms: int = ONCE_KEPT_MS) -> Coalescer[CreateGroup, Any]:
        create = partial(self._create, shard, kept_ms)
        return Coalescer(create, _MOST_AT_ONCE, lambda group: group.weight)

    async def _create(self, shard: int, kept_ms: int, groups: list[CreateGroup]) -> list[Any]:
        lasting = self._retention
        arguments: list[Argument] = [lasting.log_ms, kept_ms, lasting.schedule_ms]
        arguments += self._plans
        asked, places = together(groups)
        arguments += asked
        now_us, replies = await self._server.repeated(
            lambda: self._server.write(_CREATE, keys.shard(shard), arguments)
        )
        self._clock.observe(now_us)
        return replies_of(groups, places, replies)


def _plans(retention: Retention, rates: Mapping[Plan, int]) -> list[Argument]:
    """For the script: how many plans have limits; of each its name, bytes and rate."""
    quotas = dict(zip(retention.quotas[::2], retention.quotas[1::2], strict=True))
    limited = [plan for plan in Plan if plan in quotas or plan in rates]
    limits = flat((str(plan), quotas.get(plan, ""), rates.get(plan, "")) for plan in limited)
    return [len(limited), *limits]
