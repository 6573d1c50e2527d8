"""Which fault comes when, and to whom: all by the seed. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

STORM_S = 14.0
CALM_S = 8.0
ALL_LINES = "all lines"
SERVICE = "service"
_GAP_S = (0.3, 1.8)
_FIRST_S = 1.0
_HOLDS_AT_S = (3.0, STORM_S + 0.5)
_HOLD_S = 5.0
# In the calms and storms that have no hold.
_FILLS_AT_S = (STORM_S + 0.5, 6.0)
_FILL_S = 5.0
# Before a hold begins, and late enough that what was lost comes again in the calm.
_KILLS_AT_S = (2.5, STORM_S - 2.0)
_KILL_S = 0.3
_APART_S = 1.0
_ON_LINES = frozenset({"cut", "silence", "slow", "reset", "lose replies"})


class Step(msgspec.Struct, frozen=True):
    """At `at_s` after the start, `what` happens to `target` for so long. `detail` is the delay of
    a slow line in seconds, or how many replies a losing one loses."""

    at_s: float
    what: str
    target: str
    lasts_s: float
    detail: float = 0.0

    @property
    def until_s(self) -> float:
        return self.at_s + self.lasts_s


class Nemesis(msgspec.Struct, frozen=True):
    """A kind of fault: how often among all, to whom, for how long, how bad."""

    what: str
    targets: tuple[str, ...]
    weight: int
    lasts_s: tuple[float, float]
    detail: tuple[float, float] = (0.0, 0.0)


def nemeses(
    workers: list[str],
    apis: list[str],
    servers: list[str],
    lines: list[str],
    servers_frozen_s: tuple[float, float] = (0.2, 4.0),
    replicated: bool = False,
) -> list[Nemesis]:
    """What may happen to these processes, store servers and lines. Servers that are `replicated`
    may fail over."""
    every = (*lines, ALL_LINES) if lines else ()
    found = [
        Nemesis("kill", tuple(workers), 4, (0.2, 3.0)),
        Nemesis("freeze", tuple(workers), 3, (0.3, 6.0)),
        Nemesis("stop", tuple(workers), 2, (0.2, 1.0)),
        Nemesis("kill", tuple(apis), 2, (0.2, 2.0)),
        Nemesis("freeze", tuple(apis), 2, (0.3, 3.0)),
        Nemesis("kill", tuple(servers), 2, (0.1, 2.5)),
        Nemesis("freeze", tuple(servers), 2, servers_frozen_s),
        Nemesis("fail over", tuple(servers) if replicated else (), 3, (1.0, 3.0)),
        Nemesis("cut", every, 2, (0.2, 4.0)),
        Nemesis("silence", every, 2, (0.3, 7.0)),
        Nemesis("slow", every, 2, (1.0, 5.0), (0.02, 0.4)),
        Nemesis("reset", every, 4, (0.0, 0.0)),
        Nemesis("lose replies", tuple(lines), 4, (0.5, 2.0), (1, 12)),
    ]
    return [nemesis for nemesis in found if nemesis.targets]


def plan(seed: int, seconds: float, among: list[Nemesis]) -> list[Step]:
    """The faults of a run, by time. Storms of so many seconds, several faults at once, with a calm
    between them in which everything has to recover; no target has two faults at a time."""
    random = Random(f"{seed}:plan")
    steps: list[Step] = []
    for at_s in _moments(random, seconds):
        [nemesis] = random.choices(among, [each.weight for each in among])
        target = random.choice(nemesis.targets)
        end_s = _end_of_storm(at_s, seconds)
        lasts_s = min(random.uniform(*nemesis.lasts_s), max(0.0, end_s - at_s))
        detail = random.uniform(*nemesis.detail)
        step = Step(round(at_s, 3), nemesis.what, target, round(lasts_s, 3), round(detail, 3))
        if not any(_meet(step, before) for before in steps):
            steps.append(step)
    return steps


def holds(seconds: float) -> list[Step]:
    """The service on hold, in every second storm, and in the calms of the others: a hold puts off
    what a fault has cost, and hides what comes again without one."""
    return _in_turn("hold", [SERVICE], seconds, _HOLDS_AT_S, _HOLD_S)


def fills(seconds: float, servers: list[str]) -> list[Step]:
    """A server of the store has no room: it refuses what is new, and has to record what is under
    way."""
    return _in_turn("fill", servers, seconds, _FILLS_AT_S, _FILL_S)


def kills(seconds: float, workers: list[str]) -> list[Step]:
    """All workers at once, so that all that is under way is lost and comes again at one time."""
    every_s = STORM_S + CALM_S
    steps = [
        Step(whole * every_s + at_s, "kill workers", worker, _KILL_S)
        for whole in range(int(seconds // every_s) + 1)
        for at_s in _KILLS_AT_S
        for worker in workers
    ]
    return [step for step in steps if step.until_s < seconds]


def _in_turn(
    what: str, targets: list[str], seconds: float, at_s: tuple[float, float], lasts_s: float
) -> list[Step]:
    """Once in each storm and the calm after it, by turns early and late."""
    every_s = STORM_S + CALM_S
    wholes = range(int(seconds // every_s) + 1)
    steps = [
        Step(whole * every_s + at_s[whole % 2], what, targets[whole % len(targets)], lasts_s)
        for whole in wholes
    ]
    return [step for step in steps if step.until_s < seconds]


def _moments(random: Random, seconds: float) -> Iterator[float]:
    at_s = _FIRST_S
    while at_s < seconds:
        if at_s % (STORM_S + CALM_S) < STORM_S:
            yield at_s
        at_s += random.uniform(*_GAP_S)


def _end_of_storm(at_s: float, seconds: float) -> float:
    whole = at_s // (STORM_S + CALM_S) * (STORM_S + CALM_S)
    return min(whole + STORM_S, seconds)


def _meet(one: Step, other: Step) -> bool:
    """Whether two steps would be on one target at one time, with a moment to recover between."""
    lines = {one.what, other.what} <= _ON_LINES and ALL_LINES in (one.target, other.target)
    if one.target != other.target and not lines:
        return False
    return one.at_s < other.until_s + _APART_S and other.at_s < one.until_s + _APART_S
