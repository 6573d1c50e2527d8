"""A mutant whose passage has moved would break nothing, and prove nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.defects import DEFECTS
from tests.chaos.verdict.books import BOOKS
from tests.chaos.verdict.promises import PROMISES
from tests.mutants.mutants import MUTANTS, Mutant

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", [*MUTANTS, *DEFECTS], ids=lambda mutant: mutant.name)
def test_its_passage_stands_in_its_file_exactly_once(mutant: Mutant) -> None:
    assert (_ROOT / mutant.file).read_text().count(mutant.text) == 1


def test_a_defect_breaks_a_promise_that_there_is() -> None:
    assert {defect.tests[0] for defect in DEFECTS} <= {title for title, _ in (*PROMISES, *BOOKS)}


def test_each_write_of_the_dashboard_has_a_mutant_without_its_check() -> None:
    files = (_ROOT / "api/dashboard").rglob("*.py")
    writes = sum(path.read_text().count(" = await written(") for path in files)
    assert writes == sum(
        " from any page" in m.name and "= await written(" in m.text for m in MUTANTS
    )
