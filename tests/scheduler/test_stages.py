"""The stages of an invocation: one place writes them, and the table has all. Each test of a whole
worker holds it to the table (`tests/worker/conftest.py`)."""

from __future__ import annotations

import re

from scheduler.models import Invocation, Request
from scheduler.stages import NEXT, UNSENT, Stage
from tests.support.processes import ROOT


def test_each_stage_but_the_first_follows_another() -> None:
    assert set(NEXT) == set(Stage)
    assert set().union(*NEXT.values()) == set(Stage)
    # One that was sent goes nowhere but to its end: nothing gives it back.
    assert not NEXT[Stage.SENT] & UNSENT


def test_an_invocation_alone_writes_its_stage() -> None:
    files = (path for room in ("scheduler", "worker") for path in (ROOT / room).rglob("*.py"))
    writers = [path.name for path in files if re.search(r"\.stage = ", path.read_text())]
    assert writers == ["models.py"]
    invocation = Invocation(0, "acc_1", "sch_1", "t", 1, 0.0, Request(0, "GET", "", {}, None), 0)
    assert invocation.stage is Stage.CLAIMED
    invocation.enter(Stage.TIMED)
    assert invocation.stage is Stage.TIMED
