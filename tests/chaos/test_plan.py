"""The plan is the seed's, and keeps within its bounds."""

from __future__ import annotations

from itertools import combinations

from tests.chaos.plan import ALL_LINES, CALM_S, STORM_S, nemeses, plan

WORKERS, APIS = ["worker 1", "worker 2"], ["api 1", "api 2"]
LINES = [f"line of {name}" for name in WORKERS + APIS]
AMONG = nemeses(WORKERS, APIS, ["store"], LINES)
SECONDS = 300.0


def test_the_same_seed_plans_the_same_and_another_one_does_not() -> None:
    assert plan(7, SECONDS, AMONG) == plan(7, SECONDS, AMONG)
    assert plan(7, SECONDS, AMONG) != plan(8, SECONDS, AMONG)


def test_between_storms_nothing_is_broken_and_no_target_has_two_faults_at_a_time() -> None:
    for seed in range(5):
        steps = plan(seed, SECONDS, AMONG)
        for step in steps:
            storm_s = step.at_s // (STORM_S + CALM_S) * (STORM_S + CALM_S)
            assert storm_s <= step.at_s <= step.until_s <= storm_s + STORM_S + 0.01
        for one, other in combinations(steps, 2):
            meet = one.at_s < other.until_s and other.at_s < one.until_s
            lines = "line" in one.target and "line" in other.target
            same = one.target == other.target or (lines and ALL_LINES in (one.target, other.target))
            assert not (meet and same), (one, other)
