"""The one of the three clients that needs no network; `make clients` checks all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.generated.clients import python
from tests.support.deployment import Deployment
from tests.support.receiver import Receiver


@pytest.mark.skipif(not os.environ.get("CI"), reason="needs CI=1: make clients runs it, too")
def test_a_python_client_of_the_document_works(tmp_path: Path) -> None:
    with Deployment() as running, Receiver() as target:
        running.api()
        running.worker()
        python(running.customer(), tmp_path, f"{target.url}/hook")
