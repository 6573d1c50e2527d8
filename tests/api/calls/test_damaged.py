"""A damaged entry in the store: its owner sees which one it is, and everything else goes on."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from structlog.testing import capture_logs

from scheduler import ids
from scheduler.models import Plan
from scheduler.store import keys
from tests.api.conftest import CREDITS, URL, Api
from tests.api.errors import error_of
from tests.support.plain import redis_of


async def garbled(api: Api, key: str) -> object:
    return await redis_of(api.store).hset(key, "r", b"\xc0 hush")


async def test_it_is_named_and_nothing_of_it_is_shown_or_changed(api: Api) -> None:
    damaged, sound = await api.create_id(), await api.create_id()
    key = keys.schedule(api.account_id, damaged)
    await garbled(api, key)
    before = await redis_of(api.store).dump(key)
    with capture_logs() as told:
        answers = [
            await api.client.get(f"/schedule/{damaged}"),
            await api.client.patch(f"/schedule/{damaged}", json={"targetBody": {}}),
            await api.client.delete(f"/schedule/{damaged}"),
            await api.client.post(f"/schedule/{damaged}/replay"),
        ]
    for answer in answers:
        assert answer.status_code == 500
        assert error_of(answer) == {
            "error": f"The stored schedule {damaged} is damaged and cannot be read; it is kept for"
            " an operator to look at",
            "reason": "damaged",
        }
    assert [each["schedule"] for each in told] == [damaged] * len(answers)
    assert not any("exception" in each for each in told)
    assert await redis_of(api.store).dump(key) == before
    assert (await api.client.get(f"/schedule/{sound}")).status_code == 200
    assert sound in [each["scheduleId"] for each in await api.listed()]
    assert any(damaged in each for each in await api.store.check())
    assert await api.credits() == 998


@pytest.mark.parametrize("before", ["active", "paused"])
@pytest.mark.parametrize("act", ["pause", "resume", "trigger", ""])
async def test_a_rule_that_cannot_be_read_stays_as_it_is(api: Api, before: str, act: str) -> None:
    made = await api.client.post("/recurring", json={"targetUrl": URL, "every": "1h"})
    path = f"/recurring/{made.json()['recurringId']}"
    if before == "paused":
        assert (await api.client.post(f"{path}/pause")).is_success
    key = keys.account(api.account_id) + keys.RULE + ids.local(made.json()["recurringId"])
    await garbled(api, key)
    state = await redis_of(api.store).dump(key), await api.credits(), await api.listed()
    method, body = ("POST", None) if act else ("PATCH", {"retries": 1})
    answer = await api.client.request(method, f"{path}/{act}".rstrip("/"), json=body)
    assert (answer.status_code, error_of(answer)["reason"]) == (500, "damaged")
    assert state == (await redis_of(api.store).dump(key), await api.credits(), await api.listed())
    deleted = await api.client.delete(path)
    assert deleted.status_code == 200, deleted.text


async def test_among_many_each_is_answered_on_its_own(api: Api) -> None:
    waiting = [await api.create_id() for _ in range(3)]
    await garbled(api, keys.schedule(api.account_id, waiting[1]))
    cancelled = await api.client.post("/schedule/cancel", json={"ids": waiting})
    assert [each.get("code") for each in cancelled.json()["schedules"]] == [None, 500, None]


@pytest.mark.parametrize("place", [keys.ACCOUNT, keys.WAITING, keys.RATE])
async def test_a_damaged_account_gets_500_and_no_neighbour(api: Api, place: str) -> None:
    """Requests of one moment are admitted, and schedules created, in one step for a shard."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        accounts = [await enter(api.another(CREDITS, Plan.FREE)) for _ in range(8)]
        damaged, neighbour = [each for each in accounts if "acc_00_" in each.account_id][:2]
        key = keys.account(damaged.account_id) + place
        await redis_of(api.store).delete(key)
        await redis_of(api.store).rpush(key, "none of ours")
        with capture_logs() as logged:
            refused, *served = await asyncio.gather(
                *(each.create() for each in (damaged, neighbour, api))
            )
        assert refused.status_code == 500
        assert error_of(refused) == {
            "error": "The stored data is damaged and cannot be read",
            "reason": "damaged",
        }
        assert [each.status_code for each in served] == [201, 201]
        assert any(damaged.account_id in each.get("exception", "") for each in logged)
        assert await neighbour.credits() == CREDITS - 1
