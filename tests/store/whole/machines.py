"""What the model machines share: a store on a fake server, whose clock stands still, to itself."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine

from scheduler.runtime.settings import Settings
from tests.store.clocks import FakeClock, fakeredis_time
from tests.store.conftest import open_fake

EXAMPLES = settings().max_examples
if EXAMPLES == 30 and not os.environ.get("CI"):  # of the short profile
    EXAMPLES = 10


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
