"""The trace that a create is part of."""

from __future__ import annotations

import msgspec
import pytest

from api.reading import sampled
from tests.api.conftest import URL, Api, past, payload

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
KEPT = bytes.fromhex(TRACE + SPAN)


@pytest.mark.parametrize(
    ("traceparent", "kept"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{'0' * 32}-{SPAN}-01", False),
        (f"00-{TRACE.upper()}-{SPAN}-01", False),
        ("", False),
    ],
)
def test_it_is_kept_if_it_is_well_formed_and_sampled(traceparent: str, kept: bool) -> None:
    assert sampled(traceparent.encode()) == (KEPT if kept else None)


async def test_creates_and_batches_leave_it_and_a_change_keeps_it(api: Api) -> None:
    service = api.app.state.service
    service.settings = msgspec.structs.replace(service.settings, trace_ratio=0.0)
    answer = await api.client.post("/schedule", json=payload(), headers=SAMPLED)
    schedule_id = answer.json()["scheduleId"]
    await api.client.patch(f"/schedule/{schedule_id}", json={"triggerAt": past()})
    await api.client.post(
        "/schedule/batch", json={"schedules": [payload(triggerAt=past())]}, headers=SAMPLED
    )
    assert [each.request.trace for each in await api.claim()] == [KEPT, KEPT]


async def test_occurrences_have_the_trace_of_their_rules_create(api: Api) -> None:
    """A deploy that sets the same again under another trace changes nothing."""
    service = api.app.state.service
    service.settings = msgspec.structs.replace(service.settings, trace_ratio=0.0)
    rule = {"targetUrl": URL, "every": "1h"}
    path, later = "/recurring/by-name/report", {"traceparent": f"00-{SPAN * 2}-{SPAN}-01"}
    first = await api.client.put(path, json=rule, headers=SAMPLED)
    again = await api.client.put(
        path, json=rule, headers=later | {"If-Match": first.headers["etag"]}
    )
    other = await api.client.put(path, json=rule, headers=later | {"If-Match": '"old"'})
    assert [each.status_code for each in (first, again, other)] == [201, 200, 200]
    assert {each.headers["etag"] for each in (again, other)} == {first.headers["etag"]}
    await api.client.put(path, json=rule | {"retries": 1}, headers=later)
    due = {"triggerAt": past()}
    await api.client.patch(f"/schedule/{first.json()['scheduleId']}", json=due)
    assert [each.request.trace for each in await api.claim()] == [KEPT]


async def test_where_nothing_is_traced_nothing_is_kept(api: Api) -> None:
    await api.client.post("/schedule", json=payload(triggerAt=past()), headers=SAMPLED)
    assert [each.request.trace for each in await api.claim()] == [None]
