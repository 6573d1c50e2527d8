"""One worker process: what it is made of, how it starts and how it drains."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import structlog

from metrics.port import serving_metrics
from scheduler.errors import SettingsError, StoreError, StoreMisconfigured
from scheduler.models import Invocation, Outcome
from scheduler.runtime.collector import spare_the_collector
from scheduler.runtime.settings import Settings
from scheduler.runtime.version import version
from scheduler.stages import Stage
from scheduler.store import Store
from scheduler.store.lifecycle.claim.claim import Batch, UnreadClaim
from scheduler.store.operators.heartbeats import STORE_ID, VERSION
from scheduler.store.operators.reseal import KEYS_READ_EVERY_S
from scheduler.store.server.failures import Unreachable
from worker.claimer import REALIGN_EVERY_S, Claimer
from worker.endings import Endings
from worker.holdings import Holdings
from worker.lane_starts import LaneStarts, crowding
from worker.leases import WATCH_EVERY_S, ClockSteps, Leases, Touch
from worker.loop_budget import SendBatch
from worker.metrics_source import WorkerSource
from worker.occurrences.advance import Occurrences
from worker.occurrences.tending import RENEW_EVERY_S, TEND_EVERY_S, Tends
from worker.occurrences.unreadable import Unreadables
from worker.presence import BEAT_EVERY_S, Presence
from worker.send.fire import NOT_SENT
from worker.send.firer import Firer
from worker.send.handshakes import map_large_blocks
from worker.send.outcome import unsent_outcome
from worker.send.sockets import fires_at_once
from worker.signatures import READ_EVERY_S, Signatures
from worker.timer_wheel import TimerWheel
from worker.upkeep import Backoff, ended, keep_up

if TYPE_CHECKING:
    from worker.traces import Traces

# How long a drain may take beyond the longest fire: for the last acks.
_DRAIN_EXTRA_S = 5.0
# How long claims wait for the acks that were held up while the store was away.
_ACKS_FIRST_S = 2.0
_RECOVER_EVERY_S = 0.1
_log = structlog.get_logger(__name__)


async def run_worker(
    settings: Settings, *, stopping: asyncio.Event, on_ready: Callable[[], None]
) -> None:
    """Works until `stopping` is set, then drains. Waits for a store that cannot be reached. Raises
    StoreMisconfigured."""
    worker: Worker | None = None
    map_large_blocks()
    traces = _traces(settings)
    async with serving_metrics(settings, lambda pulse: WorkerSource(pulse, lambda: worker)):
        store = await _reached(settings, stopping)
        if store is None:
            return
        try:
            touch = Touch(settings.lease_ms, 1000 * store.uptime_s)
            worker = Worker(store, settings, touch, traces)
            await worker.run(stopping, on_ready)
        finally:
            await store.aclose()
            if traces is not None:
                await asyncio.to_thread(traces.close)


def _traces(settings: Settings) -> Traces | None:
    """Raises SettingsError if fires are to be traced and OpenTelemetry is not installed."""
    if settings.trace_ratio is None:
        return None
    try:
        from worker.traces import Traces
    except ImportError:
        raise SettingsError(
            "POSTDATE_TRACE_RATIO needs OpenTelemetry: pip install 'postdate[otel]'."
        ) from None
    return Traces(settings.trace_ratio)


async def _reached(settings: Settings, stopping: asyncio.Event) -> Store | None:
    backoff, unreachable = Backoff(), Unreachable(settings)
    while not stopping.is_set():
        try:
            store = await Store.open(settings)
        except StoreMisconfigured:
            raise
        except StoreError as error:
            unreachable.note(error)
            await backoff.pause()
        else:
            store.log_opened(settings, role="worker", version=version())
            return store
    return None


class Worker:
    """Ties the loops together; each has a file of its own."""

    def __init__(
        self, store: Store, settings: Settings, touch: Touch, traces: Traces | None = None
    ) -> None:
        self.store = store
        self._settings = settings
        self.touch = touch
        self._worker_id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self.slots = fires_at_once(settings.concurrency)
        self.holdings = Holdings(self.slots, settings.held_bytes)
        self._signatures = Signatures(store, self.holdings, touch)
        sign = self._signatures.header_lines
        self.firer = Firer(
            settings,
            sign=traces.traced(sign) if traces else sign,
            unsent=self._unsent,
            resent=lambda each: self._in_background(self._leases.note_attempt(each)),
            unsure=self._unsure,
        )
        self._batch = SendBatch(self._fire)
        self._wheel = TimerWheel(
            store.clock, one_clock=not store.server.routed, fire=self._batch.fire
        )
        self._presence = Presence(store, self._worker_id, self._says)
        self._clock_steps = ClockSteps(store, settings.lease_ms)
        self._leases = Leases(store, self.holdings, touch, settings.lease_ms)
        self.unreadables = Unreadables(store, self._leases, touch, self._presence)
        self.occurrences = Occurrences(
            store,
            touch,
            self.unreadables,
            ready=self._advanced,
            unsure=self._unsure,
            in_background=self._in_background,
        )
        self.tends = Tends(store, self._presence, touch)
        self.claimer = Claimer(
            store,
            self.holdings,
            self._presence,
            touch,
            settings,
            claimed=self._claimed,
            looked=self._wheel.refresh,
            crowding=self._crowding,
        )
        self.endings = Endings(
            store,
            self.holdings,
            touch,
            traces,
            acked=self.claimer.note_free,
            place_free=self.claimer.claim_soon,
        )
        self.lane_starts = LaneStarts(
            store.clock,
            self._leases,
            touch,
            unsure=self._unsure,
            released=self.claimer.claim_soon,
            in_background=self._in_background,
        )
        self._draining = False
        self._background: set[asyncio.Task[None]] = set()
        self._to_confirm: dict[int, list[Invocation]] = {}

    async def run(self, stopping: asyncio.Event, on_ready: Callable[[], None]) -> None:
        with contextlib.suppress(StoreError):  # the heartbeat's own loop goes on trying
            await self._presence.beat()
        rhythm_s = self._settings.lease_ms / 3000
        loops = [
            asyncio.create_task(keep_up(name, every_s, step), name=name)
            for name, every_s, step in (
                ("claim", 0.0, self.claimer.step),
                ("extend", rhythm_s, self._leases.extend_all),
                ("sign", READ_EVERY_S, self._signatures.read_all),
                ("heartbeat", BEAT_EVERY_S, self._presence.beat),
                ("keys", KEYS_READ_EVERY_S, self.store.sealing_keys.watch),
                ("clock", WATCH_EVERY_S, self._clock_steps.watch),
                ("recover", _RECOVER_EVERY_S, self._recover),
                ("tend", TEND_EVERY_S, self.tends.step),
                ("renew", RENEW_EVERY_S, self.tends.renew),
                ("realign", REALIGN_EVERY_S, self.claimer.realign),
            )
        ]
        try:
            spare_the_collector()
            on_ready()
            await stopping.wait()
            await self._drain()
        finally:
            await ended(loops)
            self._wheel.close()
            await self.firer.aclose()

    @property
    def unready(self) -> str | None:
        """Why this worker fires nothing, as a sentence; None if it does. Without I/O."""
        if self._draining:
            return "This worker is about to end."
        if len(self.touch.lost) == self.store.shards.count:
            return "The store cannot be reached."
        return f"{replaced}." if (replaced := self.store.shards.replaced) else None

    def _claimed(self, batch: Batch) -> None:
        """Fires due schedules, keeps the rest for their moment; during a drain, gives all back."""
        if self._draining:
            self._in_background(self._give_back(batch.invocations))
        elif batch.invocations:
            ordinary = [each for each in batch.invocations if each.request.recurring is None]
            if len(ordinary) < len(batch.invocations):
                occurrences = [each for each in batch.invocations if each.request.recurring]
                self.occurrences.put(occurrences, batch.reading)
            self._keep(ordinary, batch.reading)
        if batch.unread or batch.broken:
            self.unreadables.note_broken(batch.broken)
            self.unreadables.put(batch.unread)
            self._in_background(self.unreadables.settle())

    def _keep(self, invocations: list[Invocation], reading: int) -> None:
        """Until they are due. Invocations without a signing secret get theirs in the background."""
        unread = self._signatures.missing(invocations)
        ready = [each for each in invocations if each.account_id not in unread]
        if ready:
            self._wheel.add(ready, reading)
        if unread:
            others = [each for each in invocations if each.account_id in unread]
            self._in_background(self._read_and_keep(others, reading))

    def _advanced(self, invocations: list[Invocation], reading: int) -> None:
        if self._draining:
            self._in_background(self._give_back(invocations))
        else:
            self._keep(invocations, reading)

    async def _read_and_keep(self, invocations: list[Invocation], reading: int) -> None:
        """Schedules claimed ahead have the time for it."""
        invocations = await self._signatures.read_for(invocations)
        if self._draining:
            await self._give_back(invocations)
        else:
            self._wheel.add(self._signable(invocations), reading)

    def _signable(self, invocations: list[Invocation]) -> list[Invocation]:
        """Those whose secrets are here. Others are put off, or go back to the store if their
        secrets cannot be read here."""
        unread = self._signatures.missing(invocations)
        for each in invocations:
            if each.account_id in unread:
                fault = self._signatures.faults.get(each.account_id)
                if fault is None:
                    self._unsure(each)
                else:
                    self.unreadables.put([UnreadClaim(each, *fault)])
        return [each for each in invocations if each.account_id not in unread]

    def _crowding(self) -> list[str]:
        rated = crowding(self._wheel.slotted() + self._batch.rated())
        return rated + self.occurrences.crowding()

    def _fire(self, invocation: Invocation) -> None:
        unsent = self._unsent(invocation)
        if unsent is not None:
            self.endings.note(invocation, unsent, NOT_SENT)
        elif invocation.lane is None or self.lane_starts.may_start(invocation):
            self.firer.fire(invocation, self.endings.note)

    def _unsent(self, invocation: Invocation) -> Outcome | None:
        if invocation.attempt == 1 and invocation.request.expires_at_ms is None:
            return None
        now_ms = self.store.clock.now_ms()
        if invocation.slot_us is not None:
            # One that expires before it may start has no place in its lane: whatever this clock
            # says, it is not sent.
            now_ms = max(now_ms, invocation.slot_us // 1000)
        unsent = unsent_outcome(invocation, now_ms)
        if unsent is not None:
            invocation.attempt -= 1  # the one that is not made
        return unsent

    def _unsure(self, invocation: Invocation) -> None:
        """Nothing of it was sent. Its lease may have ended, or its secret may be another by now,
        because this process stood still or the store was away. `_confirm` asks the store."""
        invocation.enter(Stage.UNSURE)
        self._to_confirm.setdefault(invocation.shard, []).append(invocation)

    async def _recover(self) -> None:
        await asyncio.gather(*(self._regain(shard) for shard in self.touch.lost))
        await self.unreadables.settle()
        for shard in self._to_confirm.keys() - self.touch.lost:
            await self._confirm(shard)

    async def _confirm(self, shard: int) -> None:
        """Keeps schedules that are certainly ours, and forgets those of other workers."""
        unsure = self._to_confirm.pop(shard)
        try:
            lost = await self._leases.confirm(shard, unsure)
            reading = self.store.clock.readings
        except Exception as error:
            self._to_confirm.setdefault(shard, []).extend(unsure)
            if not isinstance(error, StoreError):
                raise
            self.touch.lose([shard], error)
            return
        self.holdings.remove(lost)
        gone = set(lost)
        ours = [each for each in unsure if each not in gone]
        if ours and not self._draining:
            ours = await self.occurrences.advance(await self._signatures.read_for(ours))
        if self._draining:
            await self._give_back(ours)
        else:
            self._wheel.add(self._signable(ours), reading)  # some may be not due yet

    async def _regain(self, shard: int) -> None:
        """After a shard was away: first prolong and ack held schedules, then claim again."""
        look = (await self.store.claims.look([shard]))[shard]
        if isinstance(look, StoreError):
            self.touch.remind(look)
            return
        try:
            # A script: a shard that moves to another node can be read all the time.
            await self.store.claims.realign(shard)
            await self._leases.extend(shard)
        except StoreError as error:  # it reads and does not write: not yet
            self.touch.remind(error)
            return
        await self.endings.settle(shard, _ACKS_FIRST_S)
        self.touch.regain(shard)
        self.claimer.wake()

    async def _drain(self) -> None:
        """Claims no more, gives back what has not started, and finishes the rest."""
        _log.info("draining", held=len(self.holdings))
        self._draining = True
        limit_s = self._settings.fire_timeout_ms / 1000 + _DRAIN_EXTRA_S
        try:
            async with asyncio.timeout(limit_s):
                await self.claimer.stop()
                self.firer.give_up_unbegun()
                for queue in (
                    self.occurrences,
                    self._wheel,
                    self._batch,
                    self._to_confirm,
                    self.unreadables,
                ):
                    queue.clear()
                # A lease that is another worker's by now stays so.
                await self._give_back(self.holdings.unsent())
                if self._background:
                    await asyncio.wait(self._background)
                await self.holdings.emptied()
                await self.store.workers.leave(self._worker_id)
        except TimeoutError:
            _log.warning("drain took too long; leases will end", held=len(self.holdings))
        except StoreError as error:
            _log.warning("left without a good-bye", error=str(error))

    async def _give_back(self, invocations: list[Invocation]) -> None:
        try:
            for shard in {each.shard for each in invocations}:
                theirs = [each for each in invocations if each.shard == shard]
                try:
                    await self._leases.release(shard, theirs)
                except StoreError as error:
                    _log.warning("not given back; the leases will end", error=str(error))
        finally:
            self.holdings.remove(invocations)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _says(self) -> dict[str, Any]:
        fires_per_s, mean_s = self._settings.fires_per_worker, self.endings.tally.recent_mean_s()
        if mean_s:  # slots bound it where targets are slow
            fires_per_s = min(fires_per_s, round(self.slots / mean_s))
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            STORE_ID: self.store.shards.store_id,
            VERSION: version(),
            "inFlight": len(self.holdings),
            "concurrency": self.slots,
            "fired": self.endings.fired,
            "firesPerS": fires_per_s,
            "worstLatenessMs": self.endings.tally.worst_lateness_ms(),
        }
