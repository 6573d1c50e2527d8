"""The end of an attempt: it is counted and recorded, and may be made again."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scheduler.callbacks import CallbackStatus
from scheduler.models import COMPLETED, Invocation, Outcome
from scheduler.stages import Stage
from scheduler.store import Store
from scheduler.store.lifecycle.callback.callbacks import CallbackAck, Callbacks
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.verdict import Verdict
from worker.acks import Acks
from worker.claimer import ClaimSoon
from worker.holdings import Holdings
from worker.leases import Touch
from worker.send.fire import NOT_SENT
from worker.send.outcome import calm_until_ms, next_attempt_at_ms
from worker.tally import Tally

if TYPE_CHECKING:
    from worker.traces import Traces

_ACKING = Stage.ACKING  # an enum's member takes a tenth of a microsecond to look up
RETRIED = "retried"


class Endings:
    """Of schedules and of their callbacks. `tally` and `fired` count attempts of schedules, and
    `callbacks` those of callbacks, by result."""

    def __init__(
        self,
        store: Store,
        holdings: Holdings,
        touch: Touch,
        traces: Traces | None,
        soon: ClaimSoon,
    ) -> None:
        self._clock = store.clock
        self._traces = traces
        self._schedules = Acks(store.ends, holdings, touch, soon)
        recorder = CallbackRecorder(store.callbacks)
        self._callbacks = Acks(recorder, holdings, touch, soon)
        self.tally = Tally()
        self.fired = 0
        results = (CallbackStatus.DELIVERED.value, RETRIED, CallbackStatus.FAILED.value)
        self.callbacks: Counter[str] = Counter(dict.fromkeys(results, 0))

    def note(self, invocation: Invocation, outcome: Outcome, sent_at_s: float) -> None:
        """Takes an attempt's outcome, and has it recorded."""
        invocation.enter(_ACKING)
        if invocation.is_callback:
            self._note_callback(invocation, outcome, sent_at_s)
            return
        self.fired += 1
        late_ms = None
        if sent_at_s != NOT_SENT:
            is_due = invocation.slot_us is None
            from_us = invocation.due_at_ms * 1000 if is_due else invocation.starts_at_us
            late_us = self._clock.at_us(sent_at_s) - from_us
            late_ms = max(0, late_us // 1000)
        self.tally.note(invocation, outcome, late_ms)
        if self._traces is not None:
            self._traces.ended(invocation, outcome, late_ms)
        again_ms = None
        if invocation.request.retries:
            again_ms = self._again_ms(invocation, outcome, sent_at_s)
        calm_ms = None
        if outcome.retry_after and invocation.lane is not None:
            calm_ms = calm_until_ms(outcome, self._clock.now_ms())
        self._schedules.add(Ack(invocation, outcome, late_ms, again_ms, calm_ms))

    def _note_callback(self, invocation: Invocation, outcome: Outcome, sent_at_s: float) -> None:
        """It has no lane, and is in no statistics of schedules."""
        if self._traces is not None:
            self._traces.ended(invocation, outcome, None)
        again_ms = self._again_ms(invocation, outcome, sent_at_s)
        ended = CallbackStatus.DELIVERED if outcome.status is COMPLETED else CallbackStatus.FAILED
        self.callbacks[ended.value if again_ms is None else RETRIED] += 1
        self._callbacks.add(Ack(invocation, outcome, None, again_ms))

    async def settle(self, shard: int, timeout_s: float) -> None:
        """Returns once all outcomes of a shard so far are recorded, or the time is up."""
        until_s = time.monotonic() + timeout_s
        for acks in (self._schedules, self._callbacks):
            await acks.settle(shard, until_s - time.monotonic())

    def _again_ms(self, invocation: Invocation, outcome: Outcome, sent_at_s: float) -> int | None:
        return next_attempt_at_ms(
            invocation,
            outcome,
            sent=sent_at_s != NOT_SENT,
            now_ms=self._clock.now_ms(),
            chance=random.random(),  # noqa: S311  # no secret
        )


class CallbackRecorder:
    """Records outcomes of callbacks, each shard's in a call of its own."""

    most_shards = 1

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks

    async def ack(self, shard: int, acks: Sequence[Ack]) -> list[Verdict]:
        rows = [
            CallbackAck(each.invocation, each.outcome, each.next_attempt_at_ms) for each in acks
        ]
        return await self._callbacks.ack(shard, rows)
