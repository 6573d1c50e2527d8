"""The metrics of a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from metrics.common import LoopLag, common
from metrics.families import Metric, counter, gauge, histogram
from scheduler.stages import Stage
from worker.send.addresses.happy_eyeballs import OutOfPorts, OutOfSockets
from worker.tally import NO_ANSWER

if TYPE_CHECKING:
    from worker.pipeline import Pipeline
    from worker.worker import Worker

_MS = 0.001


class WorkerSource:
    """Of one process; `worker` gives None until its store was reached."""

    def __init__(self, pulse: LoopLag, worker: Callable[[], Worker | None]) -> None:
        self._pulse = pulse
        self._worker = worker

    async def look(self) -> None:
        """No reads: a worker reports only itself."""

    async def unready(self) -> str | None:
        worker = self._worker()
        return worker.unready if worker else "The store has not been reached yet."

    def families(self) -> Iterator[Metric]:
        worker = self._worker()
        yield from common("worker", self._pulse, worker.store if worker else None)
        if worker is not None:
            yield from _fires(worker.pipeline)
            yield from _claims(worker)
            yield from _lanes(worker.pipeline)
            yield _callbacks(worker.pipeline)
            yield from _recurring(worker)


def _fires(pipeline: Pipeline) -> Iterator[Metric]:
    tally = pipeline.endings.tally
    attempts: dict[tuple[str, ...], float] = {("completed",): 0}
    for code, counted in tally.durations_ms.items():
        if code != NO_ANSWER:
            attempts["completed" if code == 2 else f"answered_{code}xx",] = counted.count
    for name, count in tally.failures.items():
        attempts[name,] = count
    yield counter(
        "postdate_attempts",
        "Fires that ended, by what came of them.",
        attempts,
        ("outcome",),
    )
    yield histogram(
        "postdate_lateness_seconds",
        "How long after it was due a request went out; first attempts only, and not the time before"
        " a schedule was made.",
        tally.lateness_ms,
        scale=_MS,
    )
    yield histogram(
        "postdate_target_duration_seconds",
        "How long exchanges with targets took, by class of status code; none: without an answer.",
        {
            (f"{code}xx" if code != NO_ANSWER else "none",): counted
            for code, counted in tally.durations_ms.items()
        },
        ("code",),
        scale=_MS,
    )


def _claims(worker: Worker) -> Iterator[Metric]:
    claimer, pipeline = worker.claimer, worker.pipeline
    held = pipeline.holdings.stages()
    connector, idle = pipeline.firer.connector, pipeline.firer.pool.idle_count
    shortages = connector.shortages
    yield gauge(
        "postdate_held",
        "Schedules that were claimed and have not been recorded, by how far the worker has come.",
        {(stage,): held[stage] for stage in Stage},
        ("stage",),
    )
    yield gauge("postdate_slots", "Schedules that this worker may hold at a time.", pipeline.slots)
    yield gauge(
        "postdate_connections",
        "Connections to targets.",
        {("busy",): connector.sockets - idle, ("idle",): idle},
        ("state",),
    )
    yield counter(
        "postdate_no_socket",
        "Connections to targets that could not begin, because open files or local ports ran out."
        " Their requests wait.",
        {("files",): shortages[OutOfSockets], ("ports",): shortages[OutOfPorts]},
        ("cause",),
    )
    yield gauge(
        "postdate_shards_away",
        "Shards of the store that this worker is out of touch with.",
        len(worker.touch.lost),
    )
    yield counter("postdate_claims", "Claims that were answered.", claimer.claims)
    yield counter("postdate_claimed", "Schedules that claims brought.", claimer.claimed)
    yield counter(
        "postdate_unreadable",
        "Claimed schedules that could not be read here and were put off, each time: without a key,"
        " or damaged; and accounts of which nothing could be claimed.",
        {(what,): count for what, count in pipeline.unreadables.counted.items()},
        ("cause",),
    )
    yield counter(
        "postdate_taken_over",
        "Claimed schedules that another worker had held, which was lost or cut off.",
        claimer.taken_over,
    )


def _lanes(pipeline: Pipeline) -> Iterator[Metric]:
    starts = pipeline.lane_starts
    yield counter(
        "postdate_lane_starts",
        "Requests of schedules with a lane that were handed to the connection pool, retries too.",
        starts.started,
    )
    yield counter(
        "postdate_lane_slots_missed",
        "Schedules that came too late for the slot that the rate of their lane gave them, and went"
        " back for another one.",
        starts.missed,
    )


def _callbacks(pipeline: Pipeline) -> Metric:
    return counter(
        "postdate_callbacks",
        "Attempts of callbacks that ended, by what came of them.",
        {(result,): count for result, count in pipeline.endings.callbacks.items()},
        ("result",),
    )


def _recurring(worker: Worker) -> Iterator[Metric]:
    yield counter(
        "postdate_recurring_advanced",
        "Claimed occurrences of recurring schedules whose next one was made, or was there.",
        worker.pipeline.occurrences.advanced,
    )
    yield counter(
        "postdate_recurring_tended",
        "Recurring schedules that were looked after beside that: one was cancelled, or is late.",
        worker.tends.tended,
    )
    yield counter(
        "postdate_recurring_missed",
        "Times of recurring schedules that passed without an occurrence.",
        worker.store.recurring.missed,
    )
