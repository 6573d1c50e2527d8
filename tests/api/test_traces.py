"""The trace that a create is part of."""

from __future__ import annotations

import msgspec
import pytest
import structlog

from api.reading import sampled
from scheduler.models import Request
from scheduler.store.stored import pack_request, unpack_request
from tests.api.conftest import Api, past, payload

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
KEPT = bytes.fromhex(TRACE + SPAN)


@pytest.mark.parametrize(
    ("traceparent", "kept"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-ff", True),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-01-more", False),
        (f"ff-{TRACE}-{SPAN}-01", False),
        (f"00-{'0' * 32}-{SPAN}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE.upper()}-{SPAN}-01", False),
        ("nonsense", False),
        ("", False),
    ],
)
def test_it_is_kept_if_it_is_well_formed_and_sampled(traceparent: str, kept: bool) -> None:
    assert sampled(traceparent.encode()) == (KEPT if kept else None)


def test_no_header_is_no_trace() -> None:
    assert sampled(None) is None


def test_a_schedule_without_one_has_not_a_byte_of_it() -> None:
    plain = Request(1, "GET", "http://example.com/")
    with_one = msgspec.structs.replace(plain, trace=KEPT)
    assert unpack_request(pack_request(with_one)) == with_one
    assert unpack_request(pack_request(plain)) == plain
    assert KEPT not in pack_request(plain)
    assert len(pack_request(plain)) < 40


def _trace_on(api: Api) -> None:
    service = api.app.state.service
    service.settings = msgspec.structs.replace(service.settings, trace_ratio=0.0)


async def test_creates_and_batches_leave_it_and_a_change_keeps_it(api: Api) -> None:
    _trace_on(api)
    answer = await api.client.post("/schedule", json=payload(), headers=SAMPLED)
    schedule_id = answer.json()["scheduleId"]
    await api.client.patch(f"/schedule/{schedule_id}", json={"triggerAt": past()})
    await api.client.post(
        "/schedule/batch", json={"schedules": [payload(triggerAt=past())]}, headers=SAMPLED
    )
    assert [each.request.trace for each in await api.claim()] == [KEPT, KEPT]


async def test_where_nothing_is_traced_nothing_is_kept(api: Api) -> None:
    await api.client.post("/schedule", json=payload(triggerAt=past()), headers=SAMPLED)
    assert [each.request.trace for each in await api.claim()] == [None]


async def test_a_fault_of_ours_is_logged_with_its_trace(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api.store.schedules, "create_all", None)
    with structlog.testing.capture_logs() as logs:
        assert (
            await api.client.post("/schedule", json=payload(), headers=SAMPLED)
        ).status_code == 500
        await api.client.post("/schedule", json=payload())
    assert [each.get("trace_id") for each in logs] == [TRACE, None]
