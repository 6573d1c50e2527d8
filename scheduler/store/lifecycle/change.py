"""Changing what a waiting schedule asks for, and when."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from scheduler import ids
from scheduler.errors import StoreUnavailable
from scheduler.models import Request, Schedule, Status
from scheduler.store import keys, stored
from scheduler.store.lifecycle.part import Part
from scheduler.store.lifecycle.refusals import refusal
from scheduler.store.queries.reading import read_one, whole
from scheduler.store.server import Argument, Script
from scheduler.store.verdict import Verdict

_MOST_CHANGES_MET = 20

_CHANGE = Script("lifecycle/change")


class Changing(Part):
    """Changes schedules that wait."""

    async def change(
        self,
        account_id: str,
        schedule_id: str,
        changed: Callable[[Request], Request],
        operation: str | None = None,
    ) -> Schedule:
        """Replaces what a waiting schedule asks for; `changed` makes the new request of the old.
        Between two attempts a new triggerAt moves the next one.

        Raises NotFound, Conflict if it has ended or a worker holds it, QuotaExceeded, Damaged, and
        whatever `changed` raises; then nothing was changed. Two changes are applied one after the
        other. Safe to repeat after a lost reply. With the name of an `operation`, once for all
        calls of that name within an hour.
        """
        operation = operation or ids.new_operation()
        server, secrecy = self._server, self._secrecy
        shard, account = keys.parts(account_id)
        for _ in range(_MOST_CHANGES_MET):
            with whole(schedule_id):
                found = await read_one(server, account_id, schedule_id)
                before = stored.open_request(found.packed, secrecy)
                # The answer has to be readable before anything is changed.
                self._waiting(schedule_id, before, found.attempt, found.said)
            request = changed(before)
            moved = request.trigger_at_ms != before.trigger_at_ms
            read = hashlib.sha1(found.packed, usedforsecurity=False).hexdigest()
            arguments: list[Argument] = [account, ids.local(schedule_id), operation, read]
            arguments.append(stored.seal_request(request, secrecy))
            arguments.append(request.trigger_at_ms if moved else "")
            arguments += self._retention.quotas
            verdict, said = await server.write_until_answered(_CHANGE, keys.shard(shard), arguments)
            if verdict == Verdict.DONE:
                return self._waiting(schedule_id, request, said, found.said)
            if verdict != Verdict.CHANGED:
                with whole(schedule_id):
                    ended = stored.ended_status(said) if said else Status.SCHEDULED
                    raise refusal(schedule_id, Verdict(verdict), ended)
        raise StoreUnavailable("The schedule keeps changing; try again")

    def _waiting(
        self, schedule_id: str, request: Request, attempt: bytes | None, said: bytes | None
    ) -> Schedule:
        """Raises Unreadable."""
        return stored.schedule(
            schedule_id, request, attempt=attempt, said=said, secrecy=self._secrecy
        )
