"""Carries a plan out: begins and ends each fault in its time, and writes both down."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable

import msgspec

from tests.chaos.history import Fault, Recorder, now
from tests.chaos.members import Member
from tests.chaos.plan import ALL_LINES, Step
from tests.chaos.stores import ChaosStore
from tests.processes import postdate_process
from tests.proxy import DroppingProxy

_FLAP_EVERY_S = 0.25
_REOPENED_S = 60.0
_AGAIN_S = 0.3

Act = Callable[[], None]


class Storm(threading.Thread):
    """A thread of its own, as `start` and `join` have it. When it is joined all is healed, every
    process runs again and is ready."""

    def __init__(
        self, steps: list[Step], members: list[Member], store: ChaosStore, recorder: Recorder
    ) -> None:
        super().__init__(name="storm", daemon=True)
        self._members = {member.name: member for member in members}
        self._store = store
        self._recorder = recorder
        self._order = itertools.count()
        self._agenda: list[tuple[float, int, Act]] = []
        self._returning: list[threading.Thread] = []
        self._away: set[str] = set()
        self.failure: BaseException | None = None
        for step in steps:
            self._at(step.at_s, lambda step=step: self._begin(step))  # type: ignore[misc]

    def run(self) -> None:
        try:
            self._began_s = time.monotonic()
            while self._agenda:
                at_s, _, act = heapq.heappop(self._agenda)
                time.sleep(max(0.0, self._began_s + at_s - time.monotonic()))
                act()
            for each in self._returning:
                each.join(_REOPENED_S)
            self._store.until_ready()
        except BaseException as failure:
            self.failure = failure

    def _at(self, at_s: float, act: Act) -> None:
        heapq.heappush(self._agenda, (at_s, next(self._order), act))

    def _begin(self, step: Step) -> None:
        if step.target in self._away:
            return  # it has not recovered yet from the fault before
        member = self._members.get(step.target)
        server = self._store.servers.get(step.target)
        if step.what == "hold":
            thread = threading.Thread(target=self._hold, args=(step,), daemon=True)
            self._returning.append(thread)
            thread.start()
        elif member is not None:
            acts = _of(step, member.kill, member.start, member.freeze, member.thaw)
            self._break(step, *((member.stop, member.start) if step.what == "stop" else acts))
        elif server is not None:
            self._break(step, *_of(step, server.kill, server.start, server.pause, server.resume))
        else:
            self._disturb(step)

    def _break(self, step: Step, breaks: Act, heals: Act) -> None:
        """A process: its fault ends when it serves again, which is waited for elsewhere."""
        number = self._write(step)
        self._away.add(step.target)
        breaks()

        def heal() -> None:
            heals()
            self._away.discard(step.target)
            self._write(step, number)

        def return_() -> None:
            thread = threading.Thread(target=heal, daemon=True)
            self._returning.append(thread)
            thread.start()

        self._at(step.until_s, return_)

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
        lines = list(self._store.lines.values())
        if step.target != ALL_LINES:
            lines = [self._store.lines[step.target]]
        number = self._write(step)
        for line in lines:
            _disturb(line, step)
        if step.what == "flap":
            self._flap(step, lines)

        def heal() -> None:
            for line in lines:
                line.heal()
            self._write(step, number)

        self._at(step.until_s, heal)

    def _flap(self, step: Step, lines: list[DroppingProxy]) -> None:
        """Away and back, again and again."""
        at_s, away = step.at_s, True
        while at_s < step.until_s:
            at_s += step.detail + _FLAP_EVERY_S * away
            away = not away
            for line in lines:
                self._at(min(at_s, step.until_s), line.cut if away else line.heal)

    def _write(self, step: Step, number: int | None = None) -> int:
        given = number or self._recorder.number()
        phase = "begin" if number is None else "end"
        self._recorder.write(Fault(given, step.what, step.target, phase, **now()))  # type: ignore[arg-type]
        return given


def _of(step: Step, kill: Act, start: Act, freeze: Act, thaw: Act) -> tuple[Act, Act]:
    return (kill, start) if step.what == "kill" else (freeze, thaw)


def _disturb(line: DroppingProxy, step: Step) -> None:
    match step.what:
        case "cut" | "flap":
            line.cut()
        case "silence":
            line.silence()
        case "slow":
            line.slow(step.detail)
        case "reset":
            line.reset()
        case "lose replies":
            line.drop_reply(b"", times=round(step.detail))
