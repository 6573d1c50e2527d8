"""What a fork inherits stays its parent's: gunicorn with --preload, Celery, multiprocessing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from tests.client.line import CREDITS, Line
from tests.worker.send.firing import server_context


def told(scenario: str, *urls: str, **environment: str) -> list[str]:
    """What the processes print; nothing else is said, as of connections that were not closed."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-m", "tests.client.forking", scenario, *urls],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("scenario", ["blocking", "awaiting"])
def test_a_child_has_connections_of_its_own_and_the_parent_keeps_its(
    scenario: str, tmp_path: Path
) -> None:
    """In the clear, by TLS and by a proxy. The child of a closed client has a closed one."""
    authority, trusted = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(trusted))
    with (
        Line(CREDITS) as plain,
        Line(CREDITS, tls=server_context(authority.issue_cert("127.0.0.1"))) as secure,
        Line(CREDITS) as proxy,
    ):
        urls = (plain.url, secure.url, "http://postdate.invalid")
        said = told(scenario, *urls, SSL_CERT_FILE=str(trusted), HTTP_PROXY=proxy.url)
    assert said == (["The client has been closed."] * 3 if scenario == "blocking" else [])
    for line in (plain, secure, proxy):
        before, child, after = line.carried_by
        assert child not in (before, after)


def test_the_http_client_of_a_caller_is_not_used_in_a_child() -> None:
    with Line(CREDITS) as line:
        [error] = told("given", line.url)
        assert len(line.requests) == 2
    assert "was used before a fork" in error


def test_a_child_sends_only_what_came_to_its_buffer_after_the_fork() -> None:
    assert told("buffered") == ["[['child']]", "[['b'], ['c']]"]
