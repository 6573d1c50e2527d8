"""Fields of which one may be given: the document's schema and the API agree, nulls included."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.api.conftest import NEW_YEAR, URL, Api
from tests.support.apps import built

_DOCUMENT: dict[str, Any] = built().state.document
_TIMES = {"triggerAt": NEW_YEAR, "delay": "1h"}
_BODIES = {"targetBody": {"a": 1}, "targetBodyText": "a", "targetBodyBase64": "YQ=="}
_RULES = {"cron": "0 9 * * *", "every": "1h"}
_ABSENT = object()


def fits(schema: str, payload: dict[str, Any]) -> bool:
    named = {"$ref": f"#/components/schemas/{schema}"}
    return Draft202012Validator(_DOCUMENT | named).is_valid(payload)


def ways(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """Each field as it is, null or absent."""
    rows = product(*[(value, None, _ABSENT) for value in fields.values()])
    every = [zip(fields, row, strict=True) for row in rows]
    return [{name: value for name, value in row if value is not _ABSENT} for row in every]


@pytest.mark.parametrize(
    ("path", "schema", "usual", "fields"),
    [
        ("/schedule", "ScheduleRequest", {}, _TIMES),
        ("/schedule", "ScheduleRequest", {"delay": 5}, _BODIES),
        ("/recurring", "RecurringRequest", {}, _RULES),
        ("/recurring", "RecurringRequest", {"every": 60}, _BODIES),
    ],
)
async def test_a_create_is_taken_if_it_fits(
    api: Api, path: str, schema: str, usual: dict[str, Any], fields: dict[str, Any]
) -> None:
    for way in ways(fields):
        payload = {"targetUrl": URL, **usual, **way}
        answer = await api.client.post(path, json=payload)
        assert answer.status_code == (201 if fits(schema, payload) else 400), payload


@pytest.mark.parametrize(
    ("path", "schema", "usual", "fields"),
    [
        ("/schedule", "ChangeRequest", {"delay": 5}, _TIMES),
        ("/schedule", "ChangeRequest", {"delay": 5}, _BODIES),
        ("/recurring", "RecurringChangeRequest", {"every": 60}, _RULES),
        ("/recurring", "RecurringChangeRequest", {"every": 60}, _BODIES),
    ],
)
async def test_a_change_that_gives_two_neither_fits_nor_is_taken(
    api: Api, path: str, schema: str, usual: dict[str, Any], fields: dict[str, Any]
) -> None:
    created = (await api.client.post(path, json={"targetUrl": URL, **usual})).json()
    one = f"{path}/{created.get('recurringId') or created['scheduleId']}"
    for way in ways(fields):
        given = [value for value in way.values() if value is not None]
        assert fits(schema, way) == (way != {} and len(given) < 2), way
        if given:
            answer = await api.client.patch(one, json=way)
            assert answer.status_code == (200 if len(given) == 1 else 400), answer.text
