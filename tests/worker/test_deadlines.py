"""One timer for all that is in flight."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

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


class Standstill:
    """A loop and its clock that a test moves: callbacks due by then are called late."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self._calls: list[tuple[float, Callable[[], None]]] = []
        monkeypatch.setattr("worker.deadlines.time", self)

    def monotonic(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, call: Callable[[], None]) -> object:
        self._calls.append((self.now_s + delay_s, call))
        return SimpleNamespace(cancel=self._calls.clear)

    def stand_still(self, pause_s: float) -> None:
        """Earlier timers come late by that much at most; its own timer waits."""
        self.now_s += pause_s
        due = [call for at_s, call in self._calls if at_s <= self.now_s]
        self._calls = [each for each in self._calls if each[0] > self.now_s]
        for call in due:
            call()

    def run_for(self, span_s: float) -> None:
        """As a process does that gets its time: every call in its moment."""
        end_s = self.now_s + span_s
        while self._calls and min(self._calls)[0] <= end_s:
            self.stand_still(max(0.0, min(self._calls)[0] - self.now_s))
        self.now_s = end_s


class Watch(Standstill):
    """Deadlines over a loop that stands still, and what expired."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.expired: list[Entry] = []
        loop = cast("asyncio.AbstractEventLoop", self)
        self.deadlines: Deadlines[Entry] = Deadlines(loop, self.expired.append)

    def add(self, in_s: float, *, is_sent: bool) -> Entry:
        entry = Entry(self.now_s + in_s, is_sent=is_sent)
        self.deadlines.add(entry)
        return entry


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def test_a_pause_of_the_process_is_not_charged_to_what_was_not_sent(watch: Watch) -> None:
    sent = watch.add(2.0, is_sent=True)
    unsent = watch.add(2.1, is_sent=False)
    watch.run_for(0.1)
    watch.stand_still(60.0)
    assert watch.expired == [], "what came meanwhile is read from the sockets first"
    watch.run_for(0.2)
    assert watch.expired == [sent]
    # Of its 2.1 seconds at least those are left that it had before the pause.
    watch.run_for(1.8)
    assert watch.expired == [sent]
    watch.run_for(1.0)
    assert watch.expired == [sent, unsent]


def test_what_is_answered_right_after_a_pause_has_not_expired(watch: Watch) -> None:
    sent = watch.add(2.0, is_sent=True)
    watch.stand_still(60.0)
    watch.run_for(0.09)
    assert watch.expired == []
    watch.deadlines.discard(sent)
    watch.run_for(10.0)
    assert watch.expired == []


def test_a_pause_with_nothing_in_flight_is_nothing(watch: Watch) -> None:
    watch.deadlines.discard(watch.add(2.0, is_sent=True))
    watch.stand_still(60.0)
    late = watch.add(2.0, is_sent=True)
    watch.run_for(2.1)
    assert watch.expired == [late]


def test_after_a_pause_each_has_its_own_deadline_whatever_the_order_was(watch: Watch) -> None:
    unsent = watch.add(1.0, is_sent=False)
    sent = watch.add(2.0, is_sent=True)
    watch.stand_still(1.5)
    watch.run_for(0.6)
    assert watch.expired == [sent]
    watch.run_for(1.0)
    assert watch.expired == [sent, unsent]


def test_a_loop_that_is_a_little_late_gives_nothing_for_it(watch: Watch) -> None:
    unsent = watch.add(2.0, is_sent=False)
    for _ in range(3):
        watch.stand_still(0.9)
    assert watch.expired == [unsent]
