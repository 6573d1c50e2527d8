"""One timer for all that is in flight."""

from __future__ import annotations

import asyncio
import time

from tests.worker.scripted import until
from worker.deadlines import Deadlines


class Entry:
    def __init__(self, deadline_s: float, *, is_sent: bool = True) -> None:
        self.deadline_s = deadline_s
        self.is_sent = is_sent


def entries_in(*delays_s: float) -> list[Entry]:
    now = time.monotonic()
    return [Entry(now + delay_s) for delay_s in delays_s]


async def test_each_expires_once_and_not_early() -> None:
    loop = asyncio.get_running_loop()
    expired: list[tuple[Entry, bool]] = []
    deadlines: Deadlines[Entry] = Deadlines(
        loop, lambda entry: expired.append((entry, time.monotonic() >= entry.deadline_s))
    )
    entries = entries_in(0.0, 0.02, 0.02, 0.04)
    for entry in entries:
        deadlines.add(entry)
    await until(lambda: len(deadlines) == 0)
    assert expired == [(entry, True) for entry in entries]


async def test_what_has_ended_does_not_expire_and_holds_up_nobody() -> None:
    expired: list[Entry] = []
    deadlines: Deadlines[Entry] = Deadlines(asyncio.get_running_loop(), expired.append)
    entries = entries_in(0.01, 0.02, 0.03)
    for entry in entries:
        deadlines.add(entry)
    deadlines.discard(entries[0])
    deadlines.discard(entries[1])
    deadlines.discard(entries[1])
    assert len(deadlines) == 1
    await until(lambda: bool(expired))
    assert expired == [entries[2]]


async def test_one_that_expires_may_end_another() -> None:
    expired: list[Entry] = []
    entries = entries_in(0.01, 0.01)

    def expire(entry: Entry) -> None:
        expired.append(entry)
        deadlines.discard(entries[1])

    deadlines: Deadlines[Entry] = Deadlines(asyncio.get_running_loop(), expire)
    for entry in entries:
        deadlines.add(entry)
    await until(lambda: len(deadlines) == 0)
    assert expired == entries[:1]


async def test_clearing_returns_what_was_left() -> None:
    deadlines: Deadlines[Entry] = Deadlines(asyncio.get_running_loop(), lambda entry: None)
    entries = entries_in(1, 1)
    for entry in entries:
        deadlines.add(entry)
    assert deadlines.clear() == entries
    assert len(deadlines) == 0


async def test_a_pause_of_the_process_is_not_charged_to_what_was_not_sent() -> None:
    expired: list[Entry] = []
    deadlines: Deadlines[Entry] = Deadlines(asyncio.get_running_loop(), expired.append)
    sent, unsent = entries_in(1.0, 1.1)
    unsent.is_sent = False
    deadlines.add(sent)
    deadlines.add(unsent)
    await asyncio.sleep(0)
    time.sleep(1.5)

    await asyncio.sleep(0.01)
    assert expired == [], "what came meanwhile is read from the sockets first"
    await until(lambda: len(deadlines) == 1)
    assert expired == [sent]
    assert unsent.deadline_s - time.monotonic() > 0.5
    deadlines.clear()
