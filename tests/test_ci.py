"""Differences where `CI` is set."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

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


def test_a_skipped_test_fails_there(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "1")
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.makepyfile(LACKS_A_PROGRAM)
    done = pytester.runpytest_inprocess("-p", "tests.conftest", "-p", "no:cacheprovider")
    done.assert_outcomes(failed=1, xfailed=1, errors=1)
    done.stdout.fnmatch_lines(["*there is no such program*"])
