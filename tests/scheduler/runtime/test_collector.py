"""The garbage collector of a process that serves for a long time."""

from __future__ import annotations

import weakref

import pytest

from scheduler.runtime.collector import spare_the_collector


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_garbage_of_the_start_is_not_kept_with_what_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    garbage = weakref.ref(Cycle())
    kept = list[Cycle | None]()
    monkeypatch.setattr("gc.freeze", lambda: kept.append(garbage()))
    spare_the_collector()
    assert kept == [None]
