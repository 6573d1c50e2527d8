"""Many creates, sent together."""

from __future__ import annotations

from functools import partial
from typing import Self, Unpack

from postdate.batcher import BATCH_ITEMS, Batcher
from postdate.client import AsyncPostdate
from postdate.new import NewSchedule, ScheduleOptions
from postdate.per_process import PerProcess
from postdate.results import Created

LINGER_S = 0.005
IN_FLIGHT = 4
WAITING_ITEMS = 10_000


class Buffer:
    """Collects what is scheduled and sends it in batches; each caller gets its own result.

    A batch goes when `linger` seconds have passed since its first item came, or as soon as it has
    `batch_size` items (at most 1,000) or 16 MiB; at most `in_flight` of them are on their way at
    once. Up to `waiting` items (or 64 MiB) are held meanwhile; whoever comes then waits to be let
    in, first come, first served.

    Each batch has an idempotency key that its repeats keep, so that none costs a second credit.
    Use it with `async with`, inside that of its client: at the end all that came before is sent
    and answered. A process that is forked meanwhile starts with an empty one: what waits here is
    sent from here.
    """

    def __init__(
        self,
        client: AsyncPostdate,
        *,
        linger: float = LINGER_S,
        batch_size: int = BATCH_ITEMS,
        in_flight: int = IN_FLIGHT,
        waiting: int = WAITING_ITEMS,
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
        """As `AsyncPostdate.schedule`, but for `idempotency_key` (and `message`, which is empty).

        Raises PostdateError: for this schedule alone, or what became of its whole batch. If
        `maybe_done` is true then, a repeat may store it twice. Who is cancelled has not scheduled
        anything if it had not been sent yet; once it is on its way, it may be stored.
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
