"""One timer for all that is in flight."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from worker.send.deadlines import Deadlines


class Entry:
    def __init__(self, deadline_s: float, is_sent: bool, limit_ms: int) -> None:
        self.deadline_s = deadline_s
        self.limit_ms = limit_ms
        self.is_sent = is_sent


class Watch:
    """Deadlines over a loop and its clock that a test moves, and what expired when."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.expired: list[Entry] = []
        self.deadlines = Deadlines(cast("Any", self), cast("Any", self._expire))
        self._calls: list[tuple[float, Callable[[], None]]] = []
        monkeypatch.setattr("worker.send.deadlines.time", self)

    def monotonic(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, call: Callable[[], None]) -> object:
        self._calls.append((self.now_s + delay_s, call))
        return SimpleNamespace(cancel=self._calls.clear)

    def add(self, in_s: float, *, is_sent: bool = True, limit_ms: int = 30_000) -> Any:
        entry = Entry(self.now_s + in_s, is_sent, limit_ms)
        self.deadlines.add(cast("Any", entry))
        return entry

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

    def _expire(self, entry: Entry) -> None:
        assert self.now_s >= entry.deadline_s
        self.expired.append(entry)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def test_each_expires_once_and_what_has_ended_does_not(watch: Watch) -> None:
    first, ended, second, last = (watch.add(in_s) for in_s in (0.0, 1.0, 2.0, 2.0))
    for _ in range(2):
        watch.deadlines.discard(ended)
    watch.run_for(1.9)
    assert watch.expired == [first]
    watch.run_for(0.2)
    assert watch.expired == [first, second, last]
    assert len(watch.deadlines) == 0


def test_a_shorter_limit_ends_first_though_it_came_second(watch: Watch) -> None:
    long = watch.add(30.0)
    short = watch.add(1.0, limit_ms=1000)
    ended = watch.add(1.0, limit_ms=1000)
    assert len(watch.deadlines) == 3
    watch.deadlines.discard(ended)
    watch.run_for(1.1)
    assert watch.expired == [short]
    watch.run_for(30.0)
    assert watch.expired == [short, long]
    assert watch.deadlines.clear() == []


def test_a_pause_of_the_process_is_not_charged_to_what_was_not_sent(watch: Watch) -> None:
    sent = watch.add(2.0)
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
    sent = watch.add(2.0)
    watch.stand_still(60.0)
    watch.run_for(0.09)
    assert watch.expired == []
    watch.deadlines.discard(sent)
    watch.run_for(10.0)
    assert watch.expired == []


def test_a_loop_that_is_a_little_late_gives_nothing_for_it(watch: Watch) -> None:
    unsent = watch.add(2.0, is_sent=False)
    for _ in range(3):
        watch.stand_still(0.9)
    assert watch.expired == [unsent]
