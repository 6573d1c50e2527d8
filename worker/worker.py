"""One worker process: how it starts, what it does all the time, and how it drains."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog

from metrics.port import serving_metrics
from scheduler.errors import SettingsError, StoreError, StoreMisconfigured
from scheduler.runtime.collector import spare_the_collector
from scheduler.runtime.settings import Settings
from scheduler.runtime.version import version
from scheduler.store import Store
from scheduler.store.operators.heartbeats import STORE_ID, VERSION
from scheduler.store.operators.reseal import KEYS_READ_EVERY_S
from scheduler.store.server.failures import Unreachable
from worker.claimer import REALIGN_EVERY_S, Claimer
from worker.leases import WATCH_EVERY_S, ClockSteps, Touch
from worker.metrics_source import WorkerSource
from worker.occurrences.tending import RENEW_EVERY_S, TEND_EVERY_S, Tends
from worker.pipeline import Pipeline
from worker.presence import BEAT_EVERY_S, Presence
from worker.send.handshakes import map_large_blocks
from worker.signatures import READ_EVERY_S
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
    """Turns the loops that bring schedules to the pipeline and keep them: each has a file of its
    own."""

    def __init__(
        self, store: Store, settings: Settings, touch: Touch, traces: Traces | None = None
    ) -> None:
        self.store = store
        self._settings = settings
        self.touch = touch
        self._worker_id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._presence = Presence(store, self._worker_id, self._says)
        self.pipeline = Pipeline(store, settings, touch, self._presence, traces)
        self.claimer = Claimer(store, self.pipeline, self._presence, touch, settings)
        self.tends = Tends(store, self._presence, touch)
        self._clock_steps = ClockSteps(store, settings.lease_ms)

    async def run(self, stopping: asyncio.Event, on_ready: Callable[[], None]) -> None:
        with contextlib.suppress(StoreError):  # the heartbeat's own loop goes on trying
            await self._presence.beat()
        rhythm_s = self._settings.lease_ms / 3000
        loops = [
            asyncio.create_task(keep_up(name, every_s, step), name=name)
            for name, every_s, step in (
                ("claim", 0.0, self.claimer.step),
                ("extend", rhythm_s, self.pipeline.leases.extend_all),
                ("sign", READ_EVERY_S, self.pipeline.signatures.read_all),
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
            await self.pipeline.aclose()

    @property
    def unready(self) -> str | None:
        """Why this worker fires nothing, as a sentence; None if it does. Without I/O."""
        if self.pipeline.is_closed:
            return "This worker is about to end."
        if len(self.touch.lost) == self.store.shards.count:
            return "The store cannot be reached."
        return f"{replaced}." if (replaced := self.store.shards.replaced) else None

    async def _recover(self) -> None:
        await asyncio.gather(*(self._regain(shard) for shard in self.touch.lost))
        await self.pipeline.unreadables.settle()
        await self.pipeline.confirm()

    async def _regain(self, shard: int) -> None:
        """After a shard was away: first prolong and ack held schedules, then claim again."""
        look = (await self.store.claims.look([shard]))[shard]
        if isinstance(look, StoreError):
            self.touch.remind(look)
            return
        try:
            # A script: a shard that moves to another node can be read all the time.
            await self.store.claims.realign(shard)
            await self.pipeline.leases.extend(shard)
        except StoreError as error:  # it reads and does not write: not yet
            self.touch.remind(error)
            return
        await self.pipeline.endings.settle(shard, _ACKS_FIRST_S)
        self.touch.regain(shard)
        self.claimer.wake()

    async def _drain(self) -> None:
        """Claims no more, gives back what has not started, and finishes the rest."""
        holdings = self.pipeline.holdings
        _log.info("draining", held=len(holdings))
        self.pipeline.close()
        limit_s = self._settings.fire_timeout_ms / 1000 + _DRAIN_EXTRA_S
        try:
            async with asyncio.timeout(limit_s):
                await self.claimer.stop()
                await self.pipeline.emptied()
                await self.store.workers.leave(self._worker_id)
        except TimeoutError:
            _log.warning("drain took too long; leases will end", held=len(holdings))
        except StoreError as error:
            _log.warning("left without a good-bye", error=str(error))

    def _says(self) -> dict[str, Any]:
        slots, endings = self.pipeline.slots, self.pipeline.endings
        fires_per_s, mean_s = self._settings.fires_per_worker, endings.tally.recent_mean_s()
        if mean_s:  # slots bound it where targets are slow
            fires_per_s = min(fires_per_s, round(slots / mean_s))
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            STORE_ID: self.store.shards.store_id,
            VERSION: version(),
            "inFlight": len(self.pipeline.holdings),
            "concurrency": slots,
            "fired": endings.fired,
            "firesPerS": fires_per_s,
            "worstLatenessMs": endings.tally.worst_lateness_ms(),
        }
