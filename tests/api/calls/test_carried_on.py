"""What a schedule was made with goes on, whatever becomes of it: its labels, after which answers it
is sent again, and the value of another door of the API, which nothing here reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from scheduler.models import Request, RetryOn
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft, Rule
from tests.api.conftest import URL, Api, bad_fields
from tests.api.letters import BROKEN

MADE: dict[str, Any] = {"labels": ("mail", "eu west"), "retry_on": RetryOn.ANY, "door": b"\x90"}
HOURLY = Timing(every_ms=3_600_000)


async def make(api: Api, in_ms: int = 3_600_000, **fields: Any) -> str:
    request = Request(api.store.clock.now_ms() + in_ms, "GET", URL, **MADE, **fields)
    return str(await api.store.schedules.create(api.account_id, request))


async def send(api: Api, method: str, path: str, body: Any = None) -> Any:
    answer = await api.client.request(method, path, json=body)
    assert answer.status_code < 300, answer.text
    return answer.json()


async def changed(api: Api) -> str:
    made = await make(api)
    await send(api, "PATCH", f"/schedule/{made}", {"timeout": "7s", "targetMethod": "PUT"})
    return made


async def moved(api: Api) -> str:
    made = await make(api, lane="a")
    await send(api, "PATCH", f"/schedule/{made}", {"lane": "b"})
    return made


async def replayed(api: Api) -> str:
    made = await make(api)
    await send(api, "DELETE", f"/schedule/{made}")
    again = await send(api, "POST", f"/schedule/{made}/replay", {"timeout": "7s"})
    return str(again["scheduleId"])


async def replayed_with_many(api: Api) -> str:
    await make(api, -1000)
    await api.execute(BROKEN)
    done = await send(api, "POST", "/schedule/replay", {"status": "failed", "label": "mail"})
    return str(done["schedules"][0]["scheduleId"])


async def ruled(api: Api) -> Rule:
    draft = Draft(Request(0, "GET", URL, **MADE), HOURLY, "ours")
    return (await api.store.recurring.create(api.account_id, draft)).rule


async def as_occurrence(api: Api) -> str:
    return str((await ruled(api)).schedule_id)


async def as_occurrence_of_a_changed_rule(api: Api) -> str:
    rule = await ruled(api)
    await send(api, "PATCH", f"/recurring/{rule.recurring_id}", {"every": "2h", "timeout": "7s"})
    return str((await api.store.recurring.read(api.account_id, rule.recurring_id)).schedule_id)


async def as_triggered(api: Api) -> str:
    rule = await ruled(api)
    done = await send(api, "POST", f"/recurring/{rule.recurring_id}/trigger")
    return str(done["scheduleId"])


ACTS = (
    *(make, changed, moved, replayed, replayed_with_many),
    *(as_occurrence, as_occurrence_of_a_changed_rule, as_triggered),
)


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
async def test_it_goes_on(api: Api, act: Callable[[Api], Awaitable[str]]) -> None:
    schedule_id = await act(api)
    request = await api.stored(schedule_id)
    assert {name: getattr(request, name) for name in MADE} == MADE
    shown = await api.read(schedule_id)
    assert (shown["labels"], shown["retryOn"]) == (["mail", "eu west"], "any")
    assert "door" not in shown


async def test_a_create_that_replaces_it_has_its_own(api: Api) -> None:
    made = await make(api, reference="r")
    again = await api.create(reference="r", onExisting="replace", labels=["new"])
    assert again.json()["scheduleId"] == made
    request = await api.stored(made)
    assert (request.labels, request.retry_on, request.door) == (("new",), RetryOn.TRANSIENT, None)


@pytest.mark.parametrize("path", ["/schedule", "/recurring"])
async def test_no_call_sets_the_value_of_a_door(api: Api, path: str) -> None:
    body = {"targetUrl": URL, "door": "x"} | ({"delay": 1} if path == "/schedule" else {"every": 9})
    assert bad_fields(await api.client.post(path, json=body)) == ["door"]
