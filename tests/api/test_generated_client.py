"""A client that a generator makes of the OpenAPI document, against a real server."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from tests.customer import Customer

URL = "https://example.com/hook"
PATIENCE_S = 100

pytestmark = pytest.mark.skipif(
    not os.environ.get("CI"), reason="what a generator makes of the document is judged with CI=1"
)


@pytest.fixture(scope="module")
def generated(customer: Customer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The package that was generated, by name of its modules; what a generator cannot make sense
    of is a failure."""
    folder = tmp_path_factory.mktemp("generated")
    config = folder / "config.yml"
    config.write_text("post_hooks: []\n")
    command = Path(sys.executable).with_name("openapi-python-client")
    subprocess.run(
        [
            *(command, "generate", "--fail-on-warning", "--config", config),
            *("--url", f"{customer.base_url}/schema/openapi.json"),
            *("--meta", "none", "--output-path", folder / "generated_postdate"),
        ],
        check=True,
        timeout=PATIENCE_S,
        stdout=subprocess.PIPE,
    )
    sys.path.insert(0, str(folder))
    yield lambda name: importlib.import_module(f"generated_postdate.{name}")
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.startswith("generated_postdate")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def call(customer: Customer, generated: Any) -> Iterator[Any]:
    """Calls an operation by its name, with the customer's key; returns status and answer."""
    client = generated("client").AuthenticatedClient(
        base_url=customer.base_url, token=customer.key, prefix="", auth_header_name="x-api-key"
    )

    def called(name: str, *arguments: Any, **more: Any) -> tuple[HTTPStatus, Any]:
        operation = generated(f"api.{name}")
        response = operation.sync_detailed(*arguments, client=client, **more)
        return response.status_code, response.parsed

    with client:
        yield called


def in_hours(hours: int) -> datetime:
    return (datetime.now(UTC) + timedelta(hours=hours)).replace(microsecond=0)


def test_what_is_left_out_of_a_change_stays_as_it_is(call: Any, generated: Any) -> None:
    models = generated("models")
    assert models.ChangeRequest().to_dict() == {}
    request = models.ScheduleRequest(
        target_url=URL,
        trigger_at=in_hours(1),
        target_method=models.TargetMethod.PUT,
        target_body=models.ScheduleRequestTargetBodyType0.from_dict({"deep": {"list": [None]}}),
        delivery=models.Delivery.AT_MOST_ONCE,
    )
    status, created = call("schedules.create_schedule", body=request)
    assert status == 201
    _, before = call("schedules.get_schedule", created.schedule_id)
    assert before.delivery == models.Delivery.AT_MOST_ONCE
    assert before.target_body.to_dict() == request.target_body.to_dict()

    moved_to = in_hours(2)
    change = models.ChangeRequest(trigger_at=moved_to)
    status, changed = call("schedules.change_schedule", created.schedule_id, body=change)
    assert (status, changed.trigger_at) == (200, moved_to)
    before.trigger_at = moved_to
    assert changed == before
