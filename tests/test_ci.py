"""Where `CI` is set, a skipped test fails: one that lacks its program would prove nothing."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


def test_a_skipped_test_fails_there(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "1")
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    skips = "import pytest\ndef test_a():\n    pytest.skip('there is no such program')\n"
    marked = "@pytest.mark.skipif(True, reason='there is none either')\ndef test_b():\n    pass\n"
    pytester.makepyfile(skips + marked)
    done = pytester.runpytest_inprocess("-p", "tests.conftest", "-p", "no:cacheprovider")
    done.assert_outcomes(failed=1, errors=1)
