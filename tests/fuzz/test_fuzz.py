"""The same inputs at each run: `make fuzz` goes on from here."""

from __future__ import annotations

import pytest

from tests.fuzz.fuzzing import run
from tests.fuzz.subjects import SUBJECTS


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS)
def test_anything_at_all_breaks_no_promise_and_costs_what_its_length_allows(subject: str) -> None:
    run(subject, examples=300)
