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
    not os.environ.get("CI"), reason="what generators make of the document is judged with CI=1"
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
    body = models.ScheduleRequestTargetBodyType0.from_dict({"n": 1, "deep": {"list": [None]}})
    least = models.ScheduleRequest(target_url=URL, trigger_at=in_hours(1))
    assert set(least.to_dict()) == {"targetUrl", "triggerAt"}
    assert models.ChangeRequest().to_dict() == {}
    headers = models.ScheduleRequestTargetHeadersType0.from_dict({"X-Order": "ord_8412"})
    full = models.ScheduleRequest(
        target_url=URL,
        trigger_at=in_hours(1),
        target_method=models.TargetMethod.PUT,
        target_headers=headers,
        target_body=body,
        delivery=models.Delivery.AT_MOST_ONCE,
        expires_at=in_hours(9),
    )
    for request, method, delivery in (
        (least, models.TargetMethod.GET, models.Delivery.AT_LEAST_ONCE),
        (full, models.TargetMethod.PUT, models.Delivery.AT_MOST_ONCE),
    ):
        status, created = call("schedules.create_schedule", body=request)
        assert status == 201
        _, before = call("schedules.get_schedule", created.schedule_id)
        assert (before.target_method, before.delivery) == (method, delivery)
    assert before.target_body.to_dict() == body.to_dict()

    moved_to = in_hours(2)
    change = models.ChangeRequest(trigger_at=moved_to)
    status, changed = call("schedules.change_schedule", created.schedule_id, body=change)
    assert (status, changed.trigger_at) == (200, moved_to)
    before.trigger_at = moved_to
    assert changed == before
    assert call("schedules.get_schedule", created.schedule_id) == (200, before)


def test_a_batch_is_answered_in_its_types(call: Any, generated: Any) -> None:
    models = generated("models")
    good = models.ScheduleRequest(target_url=URL, trigger_at=in_hours(1))
    bad = models.ScheduleRequest(target_url="ftp://example.com", trigger_at=in_hours(1))
    status, answer = call(
        "schedules.create_schedules", body=models.BatchRequest(schedules=[good, bad])
    )
    assert status == 200
    assert [type(each) for each in answer.schedules] == [models.AcceptedBody, models.RefusedBody]
    assert answer.schedules[1].details[0].field == "targetUrl"


def test_a_list_is_gone_through_page_by_page(call: Any, generated: Any) -> None:
    models = generated("models")
    for hours in (3, 4, 5):
        request = models.ScheduleRequest(target_url=URL, trigger_at=in_hours(hours))
        call("schedules.create_schedule", body=request)
    order = models.ListSchedulesOrder.DESC
    seen: list[str] = []
    page: dict[str, Any] = {}
    while page != {"cursor": None}:
        status, answer = call("schedules.list_schedules", order=order, limit=2, **page)
        assert status == 200
        seen += [each.schedule_id for each in answer.schedules]
        page = {"cursor": answer.next_cursor}
    assert len(seen) == len(set(seen)) >= 3


def test_a_refusal_is_told_in_its_type(call: Any, generated: Any) -> None:
    unknown = "sch_01jd3v9x8kfw3s9s2m2v2v2v2v"
    status, refusal = call("schedules.cancel_schedule", unknown)
    assert (status, type(refusal)) == (404, generated("models").ErrorBody)
