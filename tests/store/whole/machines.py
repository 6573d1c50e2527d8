"""What the model machines share: a store on a fake server, whose clock stands still, to itself; and
the life of what workers claim."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule

from scheduler.errors import OutcomeUnknown, StoreError
from scheduler.models import Invocation
from scheduler.runtime.settings import Settings
from tests.store.clocks import FakeClock, fakeredis_time
from tests.store.conftest import open_fake
from tests.store.losses import COMMAND, REPLY, losing
from tests.store.scene import settled
from tests.support.plain import redis_of

schedules, invocations = Bundle("schedules"), Bundle("invocations")
losses = st.sampled_from(["nothing", "nothing", REPLY, COMMAND])
leases = st.sampled_from([5, 50, 1000])


@contextmanager
def ids_in_order() -> Iterator[None]:
    """What stands at the same moment is taken in the order of its name: that of one run is that of
    its repeat."""
    numbers = itertools.count(1)

    def first_of(_: int, now_ms: int) -> int:
        return now_ms << 80 | next(numbers) << 20

    with (
        patch("scheduler.ids._sequence.first_of", first_of),
        patch("scheduler.ids._random", lambda length: f"{next(numbers):0{length}d}"),
    ):
        yield


class Machine(RuleBasedStateMachine):
    """`begin` is called by the first step; `at_the_end` compares the store with the model."""

    def begin(self) -> None:
        self.clock = FakeClock()
        self.stack = ExitStack()
        self.stack.enter_context(fakeredis_time(self.clock))
        self.stack.enter_context(ids_in_order())
        self.runner = self.stack.enter_context(asyncio.Runner())
        self.store = self.run(open_fake(Settings(shards=1)))

    def run(self, call: Awaitable[Any]) -> Any:
        async def awaited() -> Any:
            return await call

        return self.runner.run(awaited())

    def repeated(self, call: Callable[[], Awaitable[Any]], lost: str) -> Any:
        """What came of a call; of its repeat, if something of it was lost."""
        with losing(self.store, lost):
            found = self.run(settled(call))
        return self.run(settled(call)) if isinstance(found, StoreError) else found

    def scores(self, key: str) -> dict[str, float]:
        """The members of a sorted set."""
        found = self.run(redis_of(self.store).zrange(key, 0, -1, withscores=True))
        return {member.decode(): score for member, score in found}

    def at_the_end(self) -> None:
        raise NotImplementedError

    def teardown(self) -> None:
        if not hasattr(self, "stack"):
            return
        with self.stack:
            try:
                self.at_the_end()
            finally:
                self.run(self.store.aclose())


class Life(msgspec.Struct):
    """What workers claim, as it should be: a schedule, or its callback. `visible_at_us` is its
    lease's end while it is `held` by a worker, and else when it is due."""

    due_at_ms: int
    visible_at_us: int = 0
    held: bool = False
    attempts: int = 0
    is_open: bool = True

    def __post_init__(self) -> None:
        self.wait(self.due_at_ms)

    def wait(self, due_at_ms: int) -> None:
        self.held, self.due_at_ms, self.visible_at_us = False, due_at_ms, due_at_ms * 1000

    def is_held_by(self, invocation: Invocation) -> bool:
        tokens = map(int, invocation.token.split(":"))
        return self.held and self.visible_at_us in tokens

    def begin(self, invocation: Invocation) -> None:
        """A worker claims it."""
        assert invocation.due_at_ms == self.due_at_ms
        self.held, self.visible_at_us = True, int(invocation.token)

    def give_back(self) -> None:
        self.wait(self.due_at_ms)


class LifeMachine(Machine):
    """Claims, leases and time, for whatever has a life: `model` has them by the schedule's id."""

    model: dict[str, Any]

    def open(self) -> list[tuple[str, Any]]:
        return [each for each in self.model.items() if each[1].is_open]

    def due(self, by_ms: int = 2**53, ahead_ms: int = 0) -> set[str]:
        """Those that a claim may take; of held ones, those that it may take over."""
        now_us = self.clock.us
        by_us = min(now_us, by_ms * 1000)
        return {
            name
            for name, each in self.open()
            if each.visible_at_us <= (by_us if each.held else 2**60)
            and each.visible_at_us <= now_us + ahead_ms * 1000
        }

    @rule(invocation=invocations, lease_ms=leases, lost=losses)
    def extend(self, invocation: Invocation, lease_ms: int, lost: str) -> None:
        self.clock.more_us += 1  # no two leases end at the same moment
        life = self.model[invocation.schedule_id]
        holds, ends_us = life.is_held_by(invocation), self.clock.us + lease_ms * 1000
        with losing(self.store, lost):
            gone = self.run(settled(lambda: self.store.claims.extend(0, lease_ms, [invocation])))
        if holds and lost != COMMAND:
            life.visible_at_us = ends_us
        if lost == "nothing":
            assert (gone == []) == holds
            assert not holds or invocation.token == str(ends_us)
        else:
            assert isinstance(gone, OutcomeUnknown)
            assert life.is_held_by(invocation) == holds

    @rule(invocation=invocations)
    def release(self, invocation: Invocation) -> None:
        life = self.model[invocation.schedule_id]
        holds = life.is_held_by(invocation)
        self.run(self.store.claims.release(0, [invocation]))
        if holds:
            life.give_back()

    @rule(ms=st.integers(1, 60))
    def time_passes(self, ms: int) -> None:
        self.clock.ms += ms


def as_tests(machine: type[Machine], steps: int = 40) -> Any:
    """For pytest. Thousands of calls: on a busy machine that takes a while."""
    examples = settings().max_examples
    if examples == 30 and not os.environ.get("CI"):  # of the short profile
        examples = 10
    made: Any = machine.TestCase
    made.settings = settings(
        max_examples=examples,
        stateful_step_count=steps,
        # How many steps a rule refuses is chance, and so is how long one takes.
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    return pytest.mark.timeout(600)(pytest.mark.slow(made))
