"""Dead letters that their owner lets go."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from scheduler import ids
from scheduler.errors import FieldError, InvalidRequest
from scheduler.models import Schedule, Status
from scheduler.store import keys
from scheduler.store.heads import letter_member
from scheduler.store.lifecycle.end.end_rows import parts_of
from scheduler.store.queries.reading import Stored, read_by_id
from scheduler.store.retention import Retention
from scheduler.store.server import Script, Server
from scheduler.store.verdict import Verdict

_FORGET = Script("lifecycle/end/forget")
# So many at once are no long script.
_FEW = 20


class Letters:
    def __init__(self, server: Server, retention: Retention) -> None:
        self._server = server
        self._retention = retention

    async def among(
        self, account_id: str, schedule_ids: Sequence[str], most_bytes: int
    ) -> list[Schedule]:
        """The dead letters among these: those that have failed, and were neither replayed nor
        forgotten. In order. Raises InvalidRequest if they are larger than `most_bytes`. Read-only.
        """
        key, found, read_bytes = keys.account(account_id) + keys.FAILED, list[Schedule](), 0
        async for chunk in read_by_id(self._server, account_id, schedule_ids):
            kept = [each for each in chunk if isinstance(each, Stored)]
            failed = [each.schedule for each in kept if each.schedule.status is Status.FAILED]
            if failed:
                [scores] = await self._server.reads([("ZMSCORE", key, *map(_member, failed))])
                listed = (score is not None for score in scores)
                found += compress(failed, listed)
            read_bytes += sum(len(each.packed) for each in kept)
            if read_bytes > most_bytes:
                message = f"Together they are larger than {most_bytes:,} bytes; name fewer."
                raise InvalidRequest([FieldError("ids", message)])
        return found

    async def forget(self, account_id: str, letters: Sequence[Schedule]) -> list[bool]:
        """Takes them off the list of dead letters, and says for each whether it was there. Its
        schedule is kept as long as others from its end on; log and statistics stay. Safe to repeat.
        """
        shard, account = keys.parts(account_id)
        gone = list[bool]()
        for part in parts_of(letters, _FEW):
            words = (account, ids.new_operation(), self._retention.schedule_ms)
            came = await self._server.write_until_answered(
                _FORGET, keys.shard(shard), (*words, *map(_member, part))
            )
            gone += [verdict == Verdict.DONE for verdict in came]
        return gone


def _member(letter: Schedule) -> str:
    return letter_member(letter.request.reference, ids.local(letter.schedule_id))
