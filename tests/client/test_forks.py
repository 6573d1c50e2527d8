"""What a fork inherits stays its parent's: gunicorn with --preload, Celery, multiprocessing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from tests.client.line import Line, answer
from tests.client.test_lost import server_context

CREDITS = answer(200, {"creditsRemaining": 7})


def told(scenario: str, url: str = "", **environment: str) -> list[str]:
    """What the processes print; nothing else is said, as of connections that were not closed."""
    program = [sys.executable, "-m", "tests.client.forking", scenario, url]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        program,
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


both = pytest.mark.parametrize("scenario", ["blocking", "awaiting"])


@both
def test_a_child_has_connections_of_its_own_and_the_parent_keeps_its(scenario: str) -> None:
    with Line(CREDITS) as line:
        told(scenario, line.url)
    assert_parted(line)


@both
def test_so_it_is_with_tls(scenario: str, tmp_path: Path) -> None:
    authority, trusted = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(trusted))
    with Line(CREDITS, tls=server_context(authority)) as line:
        told(scenario, line.url, SSL_CERT_FILE=str(trusted))
    assert_parted(line)


@both
def test_so_it_is_by_way_of_a_proxy(scenario: str) -> None:
    with Line(CREDITS) as proxy:
        told(scenario, "http://postdate.invalid", HTTP_PROXY=proxy.url)
    assert_parted(proxy)


def assert_parted(line: Line) -> None:
    before, child, after = line.carried_by
    assert child not in (before, after)


def test_a_child_of_a_closed_client_has_a_closed_one() -> None:
    with Line(CREDITS) as line:
        assert told("closed", line.url) == ["The client has been closed."]
        assert len(line.requests) == 1


def test_the_http_client_of_a_caller_is_not_used_in_a_child() -> None:
    with Line(CREDITS) as line:
        [error] = told("given", line.url)
        assert len(line.requests) == 2
    assert "was used before a fork" in error


def test_a_child_sends_only_what_came_to_its_buffer_after_the_fork() -> None:
    assert told("buffered") == ["[['child']]", "[['b'], ['c']]"]
