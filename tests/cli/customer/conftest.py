"""What tests of a customer's commands start from."""

from __future__ import annotations

from secrets import token_hex

import pytest

from tests.support.servers import PostdateProcess, postdate_json


@pytest.fixture
def settings(postdate_up: PostdateProcess) -> dict[str, str]:
    """Of an account of its own, with ten credits and the key `deploys`."""
    up, name = postdate_up, f"customer {token_hex(4)}"
    create = ("account", "create", name, "--credits", "10", "--plan", "unlimited")
    postdate_json(*create, data_dir=up.data_dir)
    key = postdate_json("key", "create", name, "--name", "deploys", data_dir=up.data_dir)["key"]
    return {"url": up.base_url, "api_key": key}
