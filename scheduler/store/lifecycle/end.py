"""Ends schedules: on their worker's word, or on their owner's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from scheduler.models import Invocation
from scheduler.store import keys
from scheduler.store.lifecycle.end_rows import Ack, group_of, groups_of
from scheduler.store.retention import Retention
from scheduler.store.server import Argument, Script, Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.verdict import AGAIN, DONE, ENDED, VERDICTS, Verdict

_END = Script("lifecycle/end")


class Ends:
    """Records outcomes, and attempts that are made again."""

    def __init__(self, server: Server, clock: StoreClock, retention: Retention) -> None:
        self._server = server
        self._clock = clock
        self._retention = retention
        # Of a group. The script trims dead letters by those that are there, not by those that come.
        self.most = retention.failed_most

    async def ack(self, shard: int, acks: Sequence[Ack]) -> list[Verdict]:
        """Records outcomes, with log and statistics; of those that are to be tried again, the
        attempt and when the next one is due. Safe to repeat. A verdict for each: DONE, ENDED
        (before), HELD (by another worker now), or DAMAGED: it, or a key of its account. Then
        nothing of that account was recorded, and claims pass it over until something can be."""
        left: dict[Invocation, Ack] = {}
        for ack in acks:
            left.setdefault(ack.invocation, ack)
        found: dict[Invocation, Verdict] = {}
        while left:
            found |= await self._ack(shard, list(left.values()))
            left = {each: ack for each, ack in left.items() if found[each] is AGAIN}
        verdicts = []
        for ack in acks:
            verdict = found[ack.invocation]
            verdicts.append(verdict)
            if verdict is DONE:  # the same one, later in the list, had ended by then
                found[ack.invocation] = ENDED
        return verdicts

    async def _ack(self, shard: int, acks: Sequence[Ack]) -> dict[Invocation, Verdict]:
        groups = groups_of(acks, self.most)
        arguments: list[Argument] = []
        for group in groups:
            arguments += group_of(group, self._server.secrecy)
        verdicts = await self.run(shard, arguments, self._server.run)
        sent = (ack.invocation for group in groups for ack in group)
        return dict(zip(sent, verdicts, strict=True))

    async def run(
        self,
        shard: int,
        groups: Sequence[Argument],
        send: Callable[[Script, str, Sequence[Argument]], Awaitable[Any]],
    ) -> list[Verdict]:
        """The script's verdicts on the rows of groups (`end_rows`), in order."""
        kept = self._retention
        arguments: list[Argument] = [kept.schedule_ms, kept.log_ms, kept.log_entries]
        arguments += (kept.seconds_ms, kept.failed_kept_ms, kept.failed_ms, kept.failed_most)
        now_us, verdicts = await send(_END, keys.shard(shard), [*arguments, *groups])
        self._clock.observe(now_us)
        return [VERDICTS[each] for each in verdicts]
