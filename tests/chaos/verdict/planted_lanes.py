"""Lanes in a sound history, and breaches of their promises, for `test_verdict`."""

from __future__ import annotations

from msgspec import structs

from tests.chaos.history import Asked, Limits
from tests.chaos.verdict.evidence import CALM_MS
from tests.chaos.verdict.planted import START_MS, History, Plant

# Of schedules in lanes: long after the faults and the hold of the history.
LANES_MS = START_MS + 60_000
_PAUSED_UNTIL_MS = START_MS + 18_000
_SLOW_MS = 2500  # the slowest target
# A worker is killed that has some of two lanes under way; they come again when its lease has ended.
_LOST_MS = 12_000
_AGAIN_MS = _LOST_MS + 3500


def _in(lane: str, tag: str, after_ms: int = 0, behaviour: str = "ok") -> Asked:
    return Asked(tag, behaviour, LANES_MS + after_ms, lane=lane)


def sound_lanes(it: History) -> None:
    """Each lane keeps its limits."""
    it.call("lane", limits=Limits("rated", rate=4, burst=1))
    it.call("lane", limits=Limits("single", parallelism=1))
    it.call("lane", limits=Limits("both", rate=4, paused_until_ms=_PAUSED_UNTIL_MS))
    for number in range(6):
        it.fire(_in("rated", f"rated-{number}", 250 * number), at_ms=LANES_MS + 2000)
    calming = _in("both", "calming", behaviour="calming")
    it.fire(calming, "failed", 429, "Too Many Requests", at_ms=LANES_MS + 10)
    it.fire(_in("both", "after", 10), at_ms=LANES_MS + CALM_MS)
    it.arrivals[-1] = structs.replace(it.arrivals[-1], at_ms=LANES_MS + CALM_MS + 5)
    for number in range(3):
        each = _in("single", f"single-{number}", _SLOW_MS * number, "slow")
        it.fire(each, at_ms=LANES_MS + 3 * _SLOW_MS)

    for lane, number in (("single", 0), ("rated", 0), ("rated", 1)):
        _is_lost(it, lane, number)
    it.fault("kill workers", "worker 1", LANES_MS + _LOST_MS + 900, LANES_MS + _LOST_MS + 1900)


def _is_lost(it: History, lane: str, number: int) -> None:
    """One arrives, its worker is killed, and it arrives again."""
    each = _in(lane, f"lost-{lane}-{number}", _LOST_MS + 250 * number, "long")
    again_ms = LANES_MS + _AGAIN_MS + 250 * number
    it.call("create", [each])
    it.arrive(each)
    it.arrive(each, 2, again_ms)
    it.store(each, at_ms=again_ms + _SLOW_MS, attempt=2)


def too_many_in_a_second(it: History) -> None:
    for number in range(4):
        it.fire(_in("rated", f"more-{number}", 100 * number), at_ms=LANES_MS + 2000)


def after_a_change_too_many(it: History) -> None:
    it.call("lane", limits=Limits("rated", rate=1, burst=1))


def two_at_once(it: History) -> None:
    it.fire(_in("single", "second", 1, "slow"), at_ms=LANES_MS + _SLOW_MS)


def one_starts_beside_what_a_worker_had_lost(it: History) -> None:
    it.fire(_in("single", "second", _AGAIN_MS + 100, "slow"), at_ms=LANES_MS + _AGAIN_MS + _SLOW_MS)


def all_that_was_lost_comes_at_once(it: History) -> None:
    for number in range(2, 6):
        _is_lost(it, "rated", number)
    it.arrivals = [
        structs.replace(each, at_ms=LANES_MS + _AGAIN_MS) if each.attempt == 2 else each
        for each in it.arrivals
    ]


def what_was_lost_comes_in_a_pause(it: History) -> None:
    until_ms = round(LANES_MS + _AGAIN_MS + 5000)
    it.call("lane", limits=Limits("single", paused_until_ms=until_ms))
    it.events[-1] = structs.replace(it.events[-1], wall_ms=LANES_MS + _LOST_MS + 1000.0)


def a_callback_calms_a_lane(it: History) -> None:
    limits = Limits("both", paused_until_ms=_PAUSED_UNTIL_MS)
    it.call("lane", limits=limits, calm_until="2100-01-01T00:00:00Z")


def one_starts_in_a_pause(it: History) -> None:
    it.fire(Asked("paused", "ok", _PAUSED_UNTIL_MS - 5000, lane="both"), at_ms=LANES_MS)


def one_starts_while_all_is_paused(it: History) -> None:
    it.call("lane", limits=Limits("", paused_until_ms=_PAUSED_UNTIL_MS))
    it.fire(Asked("paused", "ok", _PAUSED_UNTIL_MS - 5000), at_ms=_PAUSED_UNTIL_MS)


def one_starts_in_a_calm(it: History) -> None:
    it.fire(_in("both", "hurried", CALM_MS - 500), at_ms=LANES_MS + CALM_MS)


def one_is_overtaken(it: History) -> None:
    late = _in("rated", "late", -1000)
    it.call("create", [late])
    it.arrive(late, at_ms=LANES_MS + 3500)
    it.store(late, at_ms=LANES_MS + 3600)


PLANTED_IN_LANES: dict[str, list[Plant]] = {
    "a lane's rate: no second has more": [
        too_many_in_a_second,
        after_a_change_too_many,
        all_that_was_lost_comes_at_once,
    ],
    "a lane's parallelism: no more at once": [
        two_at_once,
        one_starts_beside_what_a_worker_had_lost,
    ],
    "paused: nothing starts": [
        one_starts_in_a_pause,
        one_starts_while_all_is_paused,
        what_was_lost_comes_in_a_pause,
    ],
    "calm: nothing starts in the lane": [one_starts_in_a_calm, a_callback_calms_a_lane],
    "a lane's order: by due time": [one_is_overtaken],
}
