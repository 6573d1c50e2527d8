"""What tests of a customer's commands start from."""

from __future__ import annotations

import pytest

from tests.support.commands import own_account
from tests.support.servers import PostdateProcess


@pytest.fixture
def settings(postdate_up: PostdateProcess) -> dict[str, str]:
    """Of an account of its own, with ten credits and the key `deploys`."""
    return own_account(postdate_up, 10)
