"""Differences where `CI` is set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.processes import ROOT

LACKS_A_PROGRAM = """
import pytest

def test_that_needs_a_program():
    pytest.skip("there is no such program")

@pytest.mark.skipif(True, reason="there is none either")
def test_that_is_marked():
    pass

@pytest.mark.xfail(reason="known")
def test_that_is_expected_to_fail():
    assert False
"""


def test_a_skipped_test_fails_there(tmp_path: Path) -> None:
    (tmp_path / "test_tools.py").write_text(LACKS_A_PROGRAM)
    words = ["-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", os.devnull]
    done = subprocess.run(
        [sys.executable, *words, "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'clients/python'}", "CI": "1"},
        check=False,
    )
    assert "1 failed, 1 xfailed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "there is no such program" in done.stdout
