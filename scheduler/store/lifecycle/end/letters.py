"""Dead letters that their owner lets go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from scheduler import ids
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
        self, account_id: str, schedule_ids: Sequence[str]
    ) -> AsyncIterator[list[Schedule]]:
        """The dead letters among these: those that have failed, and were neither replayed nor
        forgotten. In order, as many at a time as are within the bytes of a chunk. Read-only."""
        key = keys.account(account_id) + keys.FAILED
        async for chunk in read_by_id(self._server, account_id, schedule_ids):
            found = [each.schedule for each in chunk if isinstance(each, Stored)]
            failed = [each for each in found if each.status is Status.FAILED]
            if failed:
                [scores] = await self._server.reads([("ZMSCORE", key, *map(_member, failed))])
                yield [
                    each for each, score in zip(failed, scores, strict=True) if score is not None
                ]

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
