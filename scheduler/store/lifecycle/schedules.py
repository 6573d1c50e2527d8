"""Schedules as their owners see them: created, replayed, read, changed."""

from __future__ import annotations

from collections.abc import Callable

from scheduler import ids
from scheduler.models import Request, Schedule, Status
from scheduler.store import keys, stored
from scheduler.store.lifecycle.create import Creating
from scheduler.store.queries.reading import read_one, whole
from scheduler.store.server import Argument, Script
from scheduler.store.verdict import MOST_CHANGES_MET, Verdict, refusal

_CHANGE = Script("lifecycle/change")


class Schedules(Creating):
    """Creates, replays, reads and changes schedules."""

    async def get(self, account_id: str, schedule_id: str) -> Schedule:
        """The schedule as it stands. Raises NotFound (also for another account's), Damaged."""
        with whole(schedule_id):
            found = await read_one(self._server, account_id, schedule_id)
            return stored.schedule(schedule_id, found, self._secrecy)

    async def change(
        self,
        account_id: str,
        schedule_id: str,
        changed: Callable[[Request], Request],
        operation: str | None = None,
    ) -> Schedule:
        """Replaces what a waiting schedule asks for; `changed` makes the new request of the old.
        Between two attempts a new triggerAt moves the next one. Two changes are applied one after
        the other. Safe to repeat after a lost reply; with the name of an `operation`, once for all
        calls of that name within an hour.

        Raises NotFound, Conflict if it has ended, a worker holds it or others keep changing it,
        QuotaExceeded, Damaged, and what `changed` raises; then nothing was changed.
        """
        operation = operation or ids.new_operation()
        server, secrecy = self._server, self._secrecy
        shard, account = keys.parts(account_id)
        for _ in range(MOST_CHANGES_MET):
            with whole(schedule_id):
                found = await read_one(server, account_id, schedule_id)
                # The answer has to be readable before anything is changed.
                before = stored.schedule(schedule_id, found, secrecy).request
            request = changed(before)
            packed, due_ms = stored.seal_request(request, secrecy), request.trigger_at_ms
            moved_to = due_ms if due_ms != before.trigger_at_ms else ""
            arguments: list[Argument] = [account, ids.local(schedule_id), operation]
            arguments += (stored.sha1_of(found.packed), packed, moved_to, *self._retention.quotas)
            verdict, said = await server.write_until_answered(_CHANGE, keys.shard(shard), arguments)
            if verdict != Verdict.CHANGED:
                break
        with whole(schedule_id):
            if verdict != Verdict.DONE:
                ended = stored.ended_status(said) if said else Status.SCHEDULED
                raise refusal(schedule_id, Verdict(verdict), ended)
            now = found._replace(packed=packed, outcome=None, attempt=said or None, held=False)
            return stored.schedule(schedule_id, now, secrecy)
