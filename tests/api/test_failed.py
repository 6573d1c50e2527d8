"""GET /schedule?status=failed, and the same filters over what waits."""

from __future__ import annotations

from tests.api.conftest import URL, Api
from tests.api.letters import fail, failed


async def test_what_failed_is_listed_with_its_outcome_and_its_secrets_masked(api: Api) -> None:
    [schedule_id] = await fail(api, targetHeaders={"Authorization": "Bearer x", "X-Order": "1"})
    [listed] = await api.listed(status="failed")
    read = await api.read(schedule_id)
    assert listed == read
    assert (read["status"], read["statusCode"]) == ("failed", 503)
    assert read["errorMessage"] == "Service Unavailable"
    assert read["targetHeaders"]["Authorization"] == "\u2022" * 8
    assert (read["replayOf"], read["replayedAs"]) == (None, None)


async def test_the_newest_come_first_unless_asked_otherwise(api: Api) -> None:
    made = await fail(api, 5)
    assert await failed(api, limit=2) == made[::-1]
    assert await failed(api, limit=2, order="asc") == made


async def test_a_url_and_a_period_select(api: Api) -> None:
    await fail(api, 2)
    other = await fail(api, 2, targetUrl=URL + "?b=%20")
    assert sorted(await failed(api, targetUrl=URL + "?b=%20")) == other
    ended = (await api.listed(status="failed", targetUrl=URL))[0]["executedAt"]
    assert other[0] not in await failed(api, to=ended)
    assert await failed(api, **{"from": "2100-01-01T00:00:00Z"}) == []


async def test_what_waits_is_selected_by_its_url_too(api: Api) -> None:
    await api.create_id()
    other = await api.create_id(targetUrl=URL + "?other")
    for query in ({}, {"status": "scheduled"}):
        found = await api.listed(targetUrl=URL + "?other", **query)
        assert [each["scheduleId"] for each in found] == [other]
    assert await api.listed(targetUrl="https://example.com") == []
