"""What requests are counted as."""

from __future__ import annotations

from api.service import RequestMetrics
from tests.api.conftest import Api, payload


def tally_of(api: Api) -> RequestMetrics:
    tally: RequestMetrics = api.app.state.service.tally
    return tally


async def test_a_request_is_counted_by_route_method_and_code(api: Api) -> None:
    schedule_id = await api.create_id()
    await api.client.get(f"/schedule/{schedule_id}")
    await api.client.head(f"/schedule/{schedule_id}")
    await api.client.get("/schedule/sch_none")
    await api.client.get(f"/no/such/path/{schedule_id}")
    await api.client.request("BREW", "/schedule")
    one = "/schedule/{schedule_id}"
    assert tally_of(api).requests == {
        ("/schedule", "POST", 201): 1,
        (one, "GET", 200): 1,
        (one, "HEAD", 200): 1,
        (one, "GET", 404): 1,
        ("none", "GET", 404): 1,
        ("none", "other", 501): 1,
    }
    assert {of: each.count for of, each in tally_of(api).durations_s.items()} == {
        "/schedule": 1,
        one: 3,
        "none": 2,
    }


async def test_a_refusal_is_counted_by_its_reason(api: Api) -> None:
    await api.create(targetUrl="nonsense")
    await api.client.get("/stats", headers={"x-api-key": "pd_00_wrong"})
    assert tally_of(api).refused == {"invalid_field": 1, "unauthorized": 1}


async def test_items_of_a_batch_that_the_credits_do_not_reach_count_as_well(api: Api) -> None:
    items = [payload(), payload(targetUrl="nonsense"), *[payload()] * 4]
    async with api.another(credits=2) as poor:
        await poor.client.post("/schedule/batch", json={"schedules": items})
    assert tally_of(api).refused == {"invalid_field": 1, "insufficient_credits": 3}
