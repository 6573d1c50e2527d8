"""`timeout`: how long one attempt may take."""

from __future__ import annotations

from typing import Any

import pytest

from api.schema.rules import NO_DURATION
from tests.api.conftest import Api, payload

NOT_SO_LONG = "It must be whole seconds from 1s to 30s."


@pytest.mark.parametrize(
    ("given", "shown"),
    [("1s", "1s"), ("0.5m", "30s"), ("2000ms", "2s"), (5, "5s"), (5.0, "5s"), (None, "30s")],
)
async def test_it_is_stored_and_shown_in_seconds(api: Api, given: Any, shown: str) -> None:
    answer = await api.client.post("/schedule/batch", json={"schedules": [payload(timeout=given)]})
    [in_batch] = [each["scheduleId"] for each in answer.json()["schedules"]]
    for schedule_id in (in_batch, await api.create_id(timeout=given)):
        assert (await api.read(schedule_id))["timeout"] == shown
        assert f"{(await api.stored(schedule_id)).timeout_s}s" == shown
    assert [each["timeout"] for each in await api.listed()] == [shown] * 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        *((each, NOT_SO_LONG) for each in (0, 31, "31s", "30s1ms", "1500ms", "1d", 10**14)),
        *((each, NO_DURATION) for each in ("", "5", -1, 1.5, True, ["5s"], 10**15)),
    ],
)
async def test_any_other_is_a_400(api: Api, given: Any, says: str) -> None:
    answer = await api.create(timeout=given)
    assert answer.status_code == 400
    assert answer.json()["details"] == [{"field": "timeout", "message": says}]


async def test_a_change_sets_and_clears_it_and_leaves_it_alone(api: Api) -> None:
    schedule_id = await api.create_id(timeout="5s")
    for change, shown in (
        ({"retries": 1}, "5s"),
        ({"timeout": 7}, "7s"),
        ({"timeout": None}, "30s"),
    ):
        answer = await api.client.patch(f"/schedule/{schedule_id}", json=change)
        assert answer.json()["timeout"] == shown
        assert (await api.read(schedule_id))["timeout"] == shown
