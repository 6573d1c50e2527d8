"""The API keeps to its own OpenAPI document, whatever is asked of it: schemathesis asks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.servers import Deployment, ValkeyProcess

_CONFIG = Path(__file__).parent / "conformance" / "schemathesis.toml"
_PATIENCE_S = 280


def test_no_request_gets_an_answer_that_the_document_does_not_know(
    own_valkey: ValkeyProcess, tmp_path: Path
) -> None:
    """Examples, the edges of every rule, random requests good and bad, and calls that follow from
    one another; their answers' status, headers and body, and that the good ones are accepted and
    the bad ones refused."""
    with Deployment(own_valkey) as postdate:
        url = postdate.api().base_url
        key = postdate.customer(credits=100_000).key
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(_CONFIG)),
                *("run", f"{url}/schema/openapi.json", "--no-color"),
                *("--header", f"x-api-key: {key}"),
            ],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        problems = postdate.problems()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout
    assert problems == []
