"""What the driver asks of a peer's program: one JSON object, the same for every peer.

The programs run in the environments of the peers, so this imports nothing but the standard
library: `python PROGRAM work|add '{"socket": …}'`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

BATCH = 1000


class Plan(NamedTuple):
    """Where the store is, what to send, and for `add`: how many, for when, and how. `tcp` is the
    store's URL for a system without Unix sockets; `api` and `key` are Postdate's. `batches` is how
    many calls of `add_batches` are under way."""

    socket: str
    url: str
    headers: dict[str, str]
    body: str
    count: int = 0
    due_ms: int = 0
    every_us: int = 0
    bulk: bool = False
    lanes: int = 64
    batches: int = 1
    tcp: str = ""
    api: str = ""
    key: str = ""

    def due_at_ms(self, number: int) -> int:
        return self.due_ms + number * self.every_us // 1000

    def url_of(self, number: int) -> str:
        """The number is what the receiver's log tells a request by."""
        return f"{self.url}{number:08}"


def read() -> tuple[str, Plan]:
    """The role, `work` or `add`, and the plan."""
    return sys.argv[1], Plan(**json.loads(sys.argv[2]))


def ready() -> None:
    print("ready", flush=True)


def added(count: int, took_s: float) -> None:
    print(json.dumps({"count": count, "took_s": took_s}), flush=True)


async def add_all(plan: Plan, add: Callable[[int], Awaitable[object]]) -> None:
    """Adds `count`, one by one on each of `lanes`; connecting before is not counted."""
    import asyncio

    left = iter(range(plan.count))

    async def lane() -> None:
        for number in left:
            await add(number)

    began_s = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(plan.lanes)))
    added(plan.count, time.perf_counter() - began_s)


async def add_batches(plan: Plan, add: Callable[[range], Awaitable[object]]) -> None:
    """Adds `count`, `BATCH` a call, `batches` calls at a time."""
    import asyncio

    left = iter(range(0, plan.count, BATCH))

    async def lane() -> None:
        for first in left:
            await add(range(first, min(first + BATCH, plan.count)))

    began_s = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(plan.batches)))
    added(plan.count, time.perf_counter() - began_s)
