"""The plan is the seed's, and keeps within its bounds."""

from __future__ import annotations

from itertools import combinations

from tests.chaos.plan import (
    ALL_LINES,
    CALM_S,
    STORM_S,
    Step,
    after,
    holds,
    long_freeze,
    nemeses,
    plan,
)

WORKERS, APIS = ["worker 1", "worker 2"], ["api 1", "api 2"]
LINES = [f"line of {name}" for name in WORKERS + APIS]
AMONG = nemeses(WORKERS, APIS, ["store"], LINES)
SECONDS = 300.0


def test_the_same_seed_plans_the_same_and_another_one_does_not() -> None:
    assert plan(7, SECONDS, AMONG) == plan(7, SECONDS, AMONG)
    assert plan(7, SECONDS, AMONG) != plan(8, SECONDS, AMONG)


def test_a_long_run_sees_every_fault() -> None:
    seen = {(step.what, step.target.split()[0]) for step in plan(1, SECONDS, AMONG)}
    assert {(each.what, target.split()[0]) for each in AMONG for target in each.targets} - seen <= {
        (each.what, "all") for each in AMONG
    }


def test_between_storms_and_at_the_end_nothing_is_broken() -> None:
    for step in plan(3, SECONDS, AMONG):
        assert step.at_s % (STORM_S + CALM_S) < STORM_S
        assert step.until_s <= step.at_s // (STORM_S + CALM_S) * (STORM_S + CALM_S) + STORM_S + 0.01
        assert step.until_s <= SECONDS


def test_no_target_has_two_faults_at_a_time() -> None:
    for seed in range(20):
        for one, other in combinations(plan(seed, SECONDS, AMONG), 2):
            meet = one.at_s < other.until_s and other.at_s < one.until_s
            lines = "line" in one.target and "line" in other.target
            same = one.target == other.target or (lines and ALL_LINES in (one.target, other.target))
            assert not (meet and same), (one, other)


def test_a_long_freeze_comes_first_and_the_workers_have_nothing_else_meanwhile() -> None:
    freezes = long_freeze(34.0, WORKERS)
    steps = after(plan(1, SECONDS, AMONG), freezes)
    assert steps[:2] == freezes
    until_s = freezes[0].until_s
    assert [s for s in steps if "worker" in s.target.split()[0] and s.at_s < until_s] == freezes


def test_without_lines_and_servers_only_processes_are_broken() -> None:
    steps = plan(1, SECONDS, nemeses(WORKERS, APIS, [], []))
    assert steps
    assert all(isinstance(step, Step) and step.what in ("kill", "freeze", "stop") for step in steps)


def test_it_is_on_hold_in_one_storm_and_in_the_next_calm() -> None:
    for seconds, count in ((8.0, 0), (10.0, 1), (22.0, 1), (60.0, 3)):
        steps = holds(seconds)
        assert len(steps) == count
        assert all(step.what == "hold" and step.until_s <= seconds for step in steps)
