"""The examples in the OpenAPI document: each request is sent, and each answer is one that came.

Where an answer has changed on purpose, `RECORD=1 .venv/bin/python -m pytest
tests/api/openapi/test_examples.py` writes `api/openapi/answers.json` anew.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import api.openapi
from api.openapi.operations import LANE, NAME, SCHEDULE_ID
from api.openapi.requests import REQUESTS
from api.schema.fields import SOON
from scheduler.models import Answer, Outcome, Phases, Status
from tests.api.conftest import Api, past
from tests.api.openapi.refused import all_refused

ANSWERS = Path(api.openapi.__file__).with_name("answers.json")
UNAVAILABLE = Outcome(
    Status.FAILED,
    503,
    41,
    "Service Unavailable",
    answer=Answer("application/json", b'{"error": "busy"}'),
    phases=Phases(3, 6, 14, 17, 1),
)
_SECRET = re.compile(r"whsec_[\w+/=]+")
# What is another one each time.
_VOLATILE = re.compile(r"(sch|inv|sec|rec|req)_[0-9a-z]{12,26}|\d{4}-\d\d-\d\dT[\d:.]+Z")


class Examples:
    """Sends the document's examples of requests, and keeps what is answered."""

    def __init__(self, served: Api, document: dict[str, Any]) -> None:
        self._api = served
        self._operations = {
            operation["operationId"]: (method, path, operation)
            for path, item in document["paths"].items()
            for method, operation in item.items()
        }
        self.answers: dict[str, Any] = {}

    @property
    def unsent(self) -> set[str]:
        return self._operations.keys() - self.answers.keys()

    async def send(self, name: str, its_id: str = "", **query: Any) -> dict[str, Any]:
        """`its_id` takes the place of the example's; lanes and names are the examples' own."""
        method, path, operation = self._operations[name]
        sent: dict[str, Any] = {}
        if "requestBody" in operation:
            example = json.dumps(operation["requestBody"]["content"]["application/json"]["example"])
            sent["content"] = example.replace(SCHEDULE_ID["example"], its_id)
        path = path.replace("{scheduleId}", its_id).replace("{recurringId}", its_id)
        path = path.replace("{lane}", LANE["example"]).replace("{name}", NAME["example"])
        answer = await self._api.client.request(method, path, params=query, **sent)
        assert str(answer.status_code) in operation["responses"], answer.text
        assert answer.is_success, answer.text
        self.answers[name] = answer.json()
        return dict(answer.json())


async def fail(served: Api) -> str:
    schedule_id = await served.create_id(
        targetUrl="https://example.com/webhooks/orders", triggerAt=past(), targetBody={"order": 17}
    )
    await served.execute(UNAVAILABLE)
    return schedule_id


async def all_sent(served: Api, document: dict[str, Any]) -> dict[str, Any]:
    """The answer to each operation, as a customer would come to it."""
    examples = Examples(served, document)
    send = examples.send
    for name in ("getHealth", "getReadiness", "getSigningSecrets"):
        await send(name)
    schedule_id = (await send("createSchedule"))["scheduleId"]
    await send("listSchedules")
    await send("changeSchedule", schedule_id)
    await send("cancelSchedule", schedule_id)
    stored = (await send("createSchedules"))["schedules"][0]
    await send("cancelSchedules", stored["scheduleId"])
    failed = await fail(served)
    await send("getSchedule", failed)
    await send("listLogs", scheduleId=failed)
    await send("resendCallback", failed)
    await send("replaySchedule", failed)
    failed = await fail(served)
    for url in ("https://example.com/webhooks/ended", None):
        await served.client.patch("/account", json={"callbackUrl": url})
        if url is not None:
            await send("resendCallbacks", failed)
    await send("replaySchedules")
    for name in ("setLane", "getLane", "listLanes", "changeLane", "pauseLane", "resumeLane"):
        await send(name)
    for name in ("clearLane", "getAccount", "changeAccount", "pauseAccount", "resumeAccount"):
        await send(name)
    rule = (await send("createRecurring"))["recurringId"]
    for name in ("getRecurring", "changeRecurring", "pauseRecurring", "resumeRecurring"):
        await send(name, rule)
    for name in ("setRecurring", "listRecurring"):
        await send(name)
    await send("previewRecurring", cron="0 9 * * 1-5", timeZone="America/New_York")
    for name in ("triggerRecurring", "deleteRecurring"):
        await send(name, rule)
    for name in ("getUsage", "getCredits", "rotateSigningSecret"):
        await send(name)
    assert examples.unsent == set()
    return examples.answers


def steady(answers: Any) -> Any:
    text = _SECRET.sub("whsec_…", json.dumps(answers, ensure_ascii=False))
    return json.loads(_VOLATILE.sub(lambda found: found[1] or "", text))


async def test_each_answer_is_the_one_in_the_document(api: Api) -> None:
    document = (await api.client.get("/schema/openapi.json")).json()
    answers = await all_sent(api, document) | await all_refused(api)
    if os.environ.get("RECORD"):
        text = _SECRET.sub("whsec_…", json.dumps(answers).replace(SOON, "SOON"))
        written = msgspec.json.format(text, indent=1)
        ANSWERS.write_text(f"{written}\n")
        pytest.skip("the answers were recorded")
    for item in document["paths"].values():
        for operation in item.values():
            [shown, *_] = [
                response["content"]["application/json"]["example"]
                for status, response in operation["responses"].items()
                if status.startswith("2")
            ]
            assert steady(shown) == steady(answers[operation["operationId"]])
    for name, response in document["components"]["responses"].items():
        shown = response["content"]["application/json"]["example"]
        assert steady(shown) == steady(answers[name]), name


@pytest.mark.parametrize("name", ["CancelMany", "ReplayMany"])
async def test_the_other_form_of_a_call_of_many_is_taken_too(api: Api, name: str) -> None:
    [_, other] = REQUESTS[f"{name}Request"]["examples"]
    failed, _ = await fail(api), await api.create_id()
    content = json.dumps(other).replace(SCHEDULE_ID["example"], failed)
    path = f"/schedule/{name.removesuffix('Many').lower()}"
    answer = await api.client.post(path, content=content)
    assert answer.status_code == 200
    [item] = answer.json()["schedules"]
    assert "code" not in item


@pytest.mark.parametrize("name", ["Schedule", "Recurring"])
async def test_each_example_of_a_create_is_taken(api: Api, name: str) -> None:
    for example in REQUESTS[f"{name}Request"]["examples"]:
        answer = await api.client.post(f"/{name.lower()}", json=example)
        assert answer.status_code == 201, answer.text
