"""A short run as a test: `make chaos` makes long ones, of any seed and store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.run import Options, run
from tests.chaos.verdict.verdict import table

SHORT = Options(seed=33, seconds=9.0, lease_ms=2000, margin_ms=20_000, fire_timeout_ms=5000)


@pytest.mark.slow
@pytest.mark.usefixtures("store_server")
@pytest.mark.timeout(300)
def test_whatever_breaks_what_was_promised_holds(tmp_path: Path) -> None:
    verdict, directory = run(SHORT, tmp_path)
    assert verdict.held, f"{table(verdict)}\nHistory: {directory}"
    # A run in which little happened proves little.
    assert verdict.row("acknowledged: it is there").looked_at > 20
    assert verdict.row("it ends as the target answered").looked_at > 20
