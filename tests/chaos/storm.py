"""Carries a plan out: begins and ends each fault in its time, and writes both down."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from tests.chaos.history import Fault, Recorder, now_ms
from tests.chaos.members import Member
from tests.chaos.plan import ALL_LINES, Step
from tests.chaos.stores import ChaosStore
from tests.support.processes import postdate_process
from tests.support.proxy import DroppingProxy

_REOPENED_S = 120.0
_AGAIN_S = 0.3
_AT_ONCE = 16
# What breaks a process or a server, and what heals it.
_ACTS = {
    "kill": ("kill", "start"),
    "kill workers": ("kill_whole", "start"),
    "freeze": ("pause", "resume"),
    "stop": ("stop", "start"),
    "fill": ("fill", "empty"),
    "fail over": ("fail_over", "settle"),
}

Act = Callable[[], None]


class Storm(threading.Thread):
    """A thread of its own, as `start` and `join` have it. When it is joined all is healed, every
    process runs again and is ready."""

    def __init__(
        self, steps: list[Step], members: list[Member], store: ChaosStore, recorder: Recorder
    ) -> None:
        super().__init__(name="storm", daemon=True)
        self._breakable = {**store.servers, **{member.name: member for member in members}}
        self._store = store
        self._recorder = recorder
        self._order = itertools.count()
        self._agenda: list[tuple[float, int, Act]] = []
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        self._returning: list[Future[None]] = []
        self._away: set[str] = set()
        self.failure: BaseException | None = None
        for step in steps:
            self._at(step.at_s, lambda step=step: self._begin(step))  # type: ignore[misc]

    def run(self) -> None:
        try:
            began_s = time.monotonic()
            while self._agenda:
                at_s, _, act = heapq.heappop(self._agenda)
                time.sleep(max(0.0, began_s + at_s - time.monotonic()))
                act()
            for each in self._returning:
                each.result(_REOPENED_S)
            self._store.until_ready()
        except BaseException as failure:
            self.failure = failure

    def _at(self, at_s: float, act: Act) -> None:
        heapq.heappush(self._agenda, (at_s, next(self._order), act))

    def _begin(self, step: Step) -> None:
        if step.target in self._away:
            return  # it has not recovered yet from the fault before
        if step.what == "hold":
            self._returning.append(self._pool.submit(self._hold, step))
        elif step.target in self._breakable:
            self._break(step)
        else:
            self._disturb(step)

    def _break(self, step: Step) -> None:
        """The fault ends when the process or server serves again, which is waited for elsewhere."""
        breaks, heals = (getattr(self._breakable[step.target], act) for act in _ACTS[step.what])
        number = self._write(step)
        self._away.add(step.target)
        breaks()

        def heal() -> None:
            heals()
            self._away.discard(step.target)
            self._write(step, number)

        self._at(step.until_s, lambda: self._returning.append(self._pool.submit(heal)))

    def _hold(self, step: Step) -> None:
        """By the commands of an operator. While it surely is on hold there is a fault in the
        history that is called so."""
        self._away.add(step.target)
        number = self._write(step)
        if postdate_process("hold", redis_url=self._store.url).returncode == 0:
            on_hold = msgspec.structs.replace(step, what="on hold")
            held = self._write(on_hold)
            time.sleep(step.lasts_s)
            self._write(on_hold, held)
        while postdate_process("resume", redis_url=self._store.url).returncode != 0:
            time.sleep(_AGAIN_S)
        self._away.discard(step.target)
        self._write(step, number)

    def _disturb(self, step: Step) -> None:
        every = self._store.lines
        lines = list(every.values()) if step.target == ALL_LINES else [every[step.target]]
        number = self._write(step)
        for line in lines:
            _disturb(line, step)

        def heal() -> None:
            for line in lines:
                line.heal()
            self._write(step, number)

        self._at(step.until_s, heal)

    def _write(self, step: Step, number: int | None = None) -> int:
        given = number or self._recorder.number()
        phase = "begin" if number is None else "end"
        self._recorder.write(Fault(given, step.what, step.target, phase, now_ms()))  # type: ignore[arg-type]
        return given


def _disturb(line: DroppingProxy, step: Step) -> None:
    match step.what:
        case "slow":
            line.slow(step.detail)
        case "lose replies":
            line.drop_reply(b"", times=round(step.detail))
        case _:
            getattr(line, step.what)()
