"""A mutant whose passage has moved would break nothing, and prove nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.mutants import MUTANTS, Mutant

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_passage_stands_in_its_file_exactly_once(mutant: Mutant) -> None:
    assert (_ROOT / mutant.file).read_text().count(mutant.text) == 1
