"""Many creates, sent together."""

from __future__ import annotations

from functools import partial
from typing import Self, Unpack

from postdate.batcher import BATCH_ITEMS, Batcher
from postdate.client import AsyncPostdate
from postdate.new import NewSchedule, ScheduleOptions
from postdate.per_process import PerProcess
from postdate.results import Created


class Buffer:
    """Collects schedules and sends them in batches; each caller gets its own result.

    A batch goes `linger` seconds after its first item, or once it has `batch_size` items (at most
    1,000) or 16 MiB; at most `in_flight` are on their way at once. Up to `waiting` items (or 64
    MiB) are held; further callers wait in order.

    Each batch keeps its idempotency key when it is repeated, so that none costs a second credit.
    Use it with `async with`, inside that of its client: at its end everything is sent and answered.
    A forked process starts with an empty buffer; the parent sends what it holds.
    """

    def __init__(
        self,
        client: AsyncPostdate,
        *,
        linger: float = 0.005,
        batch_size: int = BATCH_ITEMS,
        in_flight: int = 4,
        waiting: int = 10_000,
    ) -> None:
        if not 1 <= batch_size <= BATCH_ITEMS:
            raise ValueError(f"batch_size must be 1 to {BATCH_ITEMS:,}, not {batch_size}.")
        if linger < 0 or in_flight < 1 or waiting < 1:
            raise ValueError(
                "linger must not be negative; in_flight and waiting must be 1 or more."
            )
        make = partial(Batcher, client, linger, batch_size, in_flight, waiting)
        self._batchers = PerProcess(make, "The buffer has been closed.")

    async def schedule(self, url: str, **options: Unpack[ScheduleOptions]) -> Created:
        """As `AsyncPostdate.schedule`, without `idempotency_key`; `message` is empty.

        Raises PostdateError, for this schedule or for its whole batch; if `maybe_done` is true, a
        repeat may store it twice. A cancelled call stores nothing before it is sent; later it may.
        """
        payload = NewSchedule(url, **options).payload()
        return await self._batchers.get().create(payload)

    async def aclose(self) -> None:
        """Sends what waits without lingering, and returns when all of it has been answered."""
        if (batcher := self._batchers.close()) is not None:
            await batcher.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
