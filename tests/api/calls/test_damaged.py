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
from tests.api.errors import error_of, refusal_of
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
    says = f"The stored schedule {damaged} is damaged and cannot be read; it is kept for an"
    says += " operator to look at"
    for answer in answers:
        assert refusal_of(answer) == (500, says, "damaged")
    assert [each["schedule"] for each in told] == [damaged] * len(answers)
    assert not any("exception" in each for each in told)
    assert await redis_of(api.store).dump(key) == before
    assert (await api.client.get(f"/schedule/{sound}")).status_code == 200
    assert sound in [each["scheduleId"] for each in await api.listed()]
    assert any(damaged in each for each in await api.store.check())
    assert await api.credits() == 998


async def test_a_rule_that_cannot_be_read_stays_as_it_is(api: Api) -> None:
    made = await api.client.post("/recurring", json={"targetUrl": URL, "every": "1h"})
    path = f"/recurring/{made.json()['recurringId']}"
    key = keys.account(api.account_id) + keys.RULE + ids.local(made.json()["recurringId"])
    await garbled(api, key)
    state = await redis_of(api.store).dump(key), await api.credits(), await api.listed()
    for answer in (
        await api.client.post(f"{path}/pause"),
        await api.client.post(f"{path}/trigger"),
        await api.client.patch(path, json={"retries": 1}),
    ):
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
        assert refusal_of(refused) == (
            500,
            "The stored data is damaged and cannot be read",
            "damaged",
        )
        assert [each.status_code for each in served] == [201, 201]
        assert any(damaged.account_id in each.get("exception", "") for each in logged)
        assert await neighbour.credits() == CREDITS - 1
