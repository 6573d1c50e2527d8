"""Where `CI` is set, a skipped test fails: one that lacks its program would prove nothing.
Elsewhere the last line of all counts what was skipped for want of what."""

from __future__ import annotations

import re

import pytest

from tests.programs import PACKAGES, closing_line, lack_of
from tests.support.processes import ROOT

pytest_plugins = ["pytester"]


@pytest.mark.slow
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


def test_the_closing_line_counts_what_was_skipped_for_want_of_what() -> None:
    lacks = [lack_of("redis-server")] * 1200 + [lack_of("chromium")] * 2 + [lack_of("promtool")]
    others = [
        "needs Linux: its clocks",
        "needs CI=1: make clients runs it",
        "the answers were recorded",
    ]
    assert closing_line(lacks + others + lacks[-2:]) == (
        "Skipped tests: 1,200 for want of redis-server, 3 for want of chromium,"
        " 2 for want of promtool, 1 for want of Linux, 1 for want of CI=1,"
        " 1 as the answers were recorded."
        " Debian has the programs: apt-get install redis-server chromium prometheus"
    )
    assert closing_line([]) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "ci", "skipped"),
    [
        ((), False, 1),
        (("-k", "test_a"), False, 1),
        (("--slow",), False, 0),
        (("test_it.py",), False, 0),
        ((), True, 0),
    ],
)
def test_slow_tests_run_in_ci_and_where_they_are_asked_for(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    ci: bool,
    skipped: int,
) -> None:
    monkeypatch.setenv("CI", "1" if ci else "")
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\ntestpaths = .")
    body = "def test_a():\n    pass\n"
    pytester.makepyfile(
        test_it=f"import pytest\n{body}@pytest.mark.slow\n{body.replace('_a', '_ab')}"
    )
    arguments = ("-p", "tests.conftest", "-p", "no:cacheprovider", *words)
    done = pytester.runpytest_inprocess(*arguments)
    done.assert_outcomes(passed=2 - skipped, skipped=skipped)
    said = "Skipped tests: 1 for want of --slow. `make test ARGS=--slow` runs all."
    assert (done.outlines[-1] == said) is bool(skipped)


def test_every_program_is_installed_there() -> None:
    script = (ROOT / ".ci/run").read_text()
    for package in " ".join(PACKAGES.values()).split():
        assert re.search(rf"[ (]{package}\b", script), package


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "1"])
def test_the_last_line_says_what_is_missing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, processes: str
) -> None:
    monkeypatch.delenv("CI", raising=False)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    reason = lack_of("curl")
    pytester.makepyfile(
        "import pytest\n@pytest.mark.parametrize('n', range(3))\n"
        f"@pytest.mark.skipif(True, reason={reason!r})\ndef test_a(n):\n    pass\n"
    )
    arguments = ("-p", "tests.conftest", "-p", "no:cacheprovider", "-n", processes)
    done = pytester.runpytest_inprocess(*arguments)
    assert done.outlines[-1] == (
        "Skipped tests: 3 for want of curl. Debian has the programs: apt-get install curl"
    )
