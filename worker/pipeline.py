"""The way of an invocation through a worker, from its claim to its outcome. Each room passes it on
to one next room, and its stage (`scheduler/stages.py`) says how far it is:

    take       from the claimer; an occurrence waits in `Occurrences` until its rule has advanced
    sign       its account's signing secrets are read, if they are not here
    TimerWheel keeps it until it is due; `SendBatch` spreads what is due over rounds of the loop
    start      what has expired ends here; `LaneStarts` gives back what comes too late for its slot
    Firer      sends it
    Endings    records the outcome

Two ways lead aside. `Unsure` has those of which nothing was sent because the lease may have ended:
the store is asked, and `confirm` lets them go on. `Unreadables` gives back what this worker cannot
read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from scheduler.callbacks import MOST_HEADER_BYTES
from scheduler.errors import StoreError
from scheduler.models import Invocation, Outcome
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.store.lifecycle.claim.claim import Batch, UnreadClaim
from worker.claimer import ClaimSoon
from worker.endings import Endings
from worker.holdings import Holdings
from worker.lane_starts import LaneStarts, crowding
from worker.leases import Leases, Touch
from worker.loop_budget import SendBatch
from worker.occurrences.advance import Occurrences
from worker.occurrences.unreadable import Unreadables
from worker.presence import Presence
from worker.send.fire import NOT_SENT
from worker.send.firer import Firer
from worker.send.outcome import unsent_outcome
from worker.send.sockets import fires_at_once
from worker.signatures import Signatures
from worker.timer_wheel import TimerWheel
from worker.unsure import Unsure
from worker.upkeep import Background

if TYPE_CHECKING:
    from worker.traces import Traces

_log = structlog.get_logger(__name__)


class Pipeline:
    """All rooms, and what they hold. To be made inside a running loop."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        touch: Touch,
        presence: Presence,
        traces: Traces | None,
    ) -> None:
        self._clock = store.clock
        self.slots = fires_at_once(settings.concurrency)
        response_bytes = MOST_HEADER_BYTES + settings.callback_body_bytes
        self.holdings = holdings = Holdings(self.slots, settings.held_bytes, response_bytes)
        self.soon = ClaimSoon()
        self.background = Background()
        self.leases = Leases(store, holdings, touch, settings.lease_ms)
        self.unsure = Unsure(holdings, self.leases, touch)
        self.unreadables = Unreadables(store, self.leases, touch, presence)
        self.signatures = Signatures(store, holdings, touch)
        self.is_closed = False
        # From the last room to the first.
        self.endings = Endings(store, holdings, touch, traces, self.soon)
        sign = self.signatures.header_lines
        self.firer = Firer(
            settings,
            sign=traces.traced(sign) if traces else sign,
            unsent=self._unsent,
            resent=lambda each: self.background.start(self.leases.note_attempt(each)),
            unsure=self.unsure.put,
        )
        self.lane_starts = LaneStarts(
            store.clock, self.leases, touch, self.unsure, self.soon, self.background
        )
        self._batch = SendBatch(self._start)
        self.wheel = TimerWheel(
            store.clock, one_clock=not store.server.routed, fire=self._batch.fire
        )
        self.occurrences = Occurrences(
            store, touch, self.unreadables, self.unsure, self.background, ready=self._sign
        )

    def take(self, batch: Batch) -> None:
        """What claims brought. Once the pipeline is closed, all goes back to the store."""
        if self.is_closed:
            self.background.start(self._give_back(batch.invocations))
        elif batch.invocations:
            ordinary = [each for each in batch.invocations if each.request.recurring is None]
            if len(ordinary) < len(batch.invocations):
                occurrences = [each for each in batch.invocations if each.request.recurring]
                self.occurrences.put(occurrences, batch.reading)
            self._sign(ordinary, batch.reading)
        if batch.unread or batch.broken:
            self.unreadables.note_broken(batch.broken)
            self.unreadables.put(batch.unread)
            self.background.start(self.unreadables.settle())

    def looked(self) -> None:
        """The claimer has a fresh reading of the store's clock."""
        self.wheel.refresh()

    def crowding(self) -> list[str]:
        """Accounts of which enough waits here: claims are to bring none of theirs."""
        rated = crowding(self.wheel.slotted() + self._batch.rated())
        return rated + self.occurrences.crowding()

    def _sign(self, invocations: list[Invocation], reading: int) -> None:
        """Those without a signing secret get theirs in the background. `reading`: of the store's
        clock, at their claim."""
        if self.is_closed:
            self.background.start(self._give_back(invocations))
            return
        unread = self.signatures.missing(invocations)
        ready = [each for each in invocations if each.account_id not in unread]
        if ready:
            self.wheel.add(ready, reading)
        if unread:
            others = [each for each in invocations if each.account_id in unread]
            self.background.start(self._read_and_sign(others, reading))

    async def _read_and_sign(self, invocations: list[Invocation], reading: int) -> None:
        """Schedules claimed ahead have the time for it."""
        await self._time(await self.signatures.read_for(invocations), reading)

    async def _time(self, invocations: list[Invocation], reading: int) -> None:
        """Those whose secrets are here wait until they are due. Others are put off, or go back to
        the store if their secrets cannot be read here."""
        if self.is_closed:
            await self._give_back(invocations)
            return
        unread = self.signatures.missing(invocations)
        for each in invocations:
            if each.account_id in unread:
                fault = self.signatures.faults.get(each.account_id)
                if fault is None:
                    self.unsure.put(each)
                else:
                    self.unreadables.put([UnreadClaim(each, *fault)])
        self.wheel.add([each for each in invocations if each.account_id not in unread], reading)

    def _start(self, invocation: Invocation) -> None:
        """It is due."""
        unsent = self._unsent(invocation)
        if unsent is not None:
            self.endings.note(invocation, unsent, NOT_SENT)
        elif invocation.lane is None or self.lane_starts.may_start(invocation):
            self.firer.fire(invocation, self.endings.note)

    def _unsent(self, invocation: Invocation) -> Outcome | None:
        """The outcome of one that is not to be sent any more."""
        if invocation.attempt == 1 and invocation.request.expires_at_ms is None:
            return None
        now_ms = self._clock.now_ms()
        if invocation.slot_us is not None:
            # One that expires before it may start has no place in its lane: whatever this clock
            # says, it is not sent.
            now_ms = max(now_ms, invocation.slot_us // 1000)
        unsent = unsent_outcome(invocation, now_ms)
        if unsent is not None:
            invocation.attempt -= 1  # the one that is not made
        return unsent

    async def confirm(self) -> None:
        """Asks the store about those that are unsure; they go on where they are ours."""
        for shard in self.unsure.shards:
            ours = await self.unsure.confirmed(shard)
            reading = self._clock.readings
            if ours and not self.is_closed:
                ours = await self.occurrences.advance(await self.signatures.read_for(ours))
            await self._time(ours, reading)  # some may be not due yet

    def close(self) -> None:
        """From here on it takes nothing."""
        self.is_closed = True

    async def emptied(self) -> None:
        """Gives back what has not been sent, and waits for the outcomes of the rest. It is closed,
        and no claim is on its way."""
        self.firer.give_up_unbegun()
        for room in (self.occurrences, self.wheel, self._batch, self.unsure, self.unreadables):
            room.clear()
        # A lease that is another worker's by now stays so.
        await self._give_back(self.holdings.unsent())
        await self.background.done()
        await self.holdings.emptied()

    async def aclose(self) -> None:
        """Cuts off what is still on its way: its lease runs out."""
        self.wheel.close()
        await self.firer.aclose()

    async def _give_back(self, invocations: list[Invocation]) -> None:
        try:
            for shard in {each.shard for each in invocations}:
                theirs = [each for each in invocations if each.shard == shard]
                try:
                    await self.leases.release(shard, theirs)
                except StoreError as error:
                    _log.warning("not given back; the leases will end", error=str(error))
        finally:
            self.holdings.remove(invocations)
