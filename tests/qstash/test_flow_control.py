"""/v2/flowControl: the lanes of flow-control keys."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from api.qstash.flow_control import FlowValue, flow_value
from scheduler.lane_settings import PARALLELISM, RATE, LaneSettings
from tests.qstash.conftest import Door
from tests.qstash.ends import ask, claim, end, get, post, publish, refused, said

VALUE = "parallelism=5, rate=10, period=1m"
LIMITS = {"parallelismMax": 5, "rateMax": 10, "ratePeriod": 60}


async def published(door: Door, value: str = VALUE, **more: str) -> str:
    return await publish(door, flow_control_key="k", flow_control_value=value, **more)


async def shown(door: Door, *names: str) -> dict[str, Any]:
    found = await get(door, "flowControl/k")
    return {name: found[name] for name in names} if names else found


async def limits(door: Door) -> dict[str, Any]:
    return await shown(door, *LIMITS)


async def pins(door: Door) -> list[bool]:
    return [*(await shown(door, "isPinnedParallelism", "isPinnedRate")).values()]


async def test_a_key_has_the_limits_of_its_message(door: Door) -> None:
    await published(door)
    found = await shown(door)
    assert found.pop("ratePeriodStart") > 1_700_000_000
    assert found == {
        "flowControlKey": "k",
        "waitListSize": 1,
        "parallelismCount": 0,
        "rateCount": 0,
        "isPaused": False,
        "isPinnedParallelism": False,
        "isPinnedRate": False,
        **LIMITS,
    }
    await claim(door)
    counts = await shown(door, "waitListSize", "parallelismCount", "rateCount")
    assert [*counts.values()] == [0, 1, 1]


async def test_a_key_that_nobody_has_used_has_no_limits(door: Door) -> None:
    found = await shown(door)
    assert found.pop("flowControlKey") == "k"
    assert not any(found.values())


async def test_as_many_start_at_once_as_the_rate_has_in_a_period(door: Door) -> None:
    for _ in range(5):
        await published(door, "rate=3, period=1h")
    assert len(await claim(door)) == 3


async def test_the_last_message_that_says_limits_counts(door: Door) -> None:
    await published(door)
    await published(door, "parallelism=2")
    await publish(door, flow_control_key="k")
    assert await limits(door) == {"parallelismMax": 2, "rateMax": 0, "ratePeriod": 0}


async def test_a_key_is_paused_and_resumed(door: Door) -> None:
    await post(door, "flowControl/k/pause")
    await published(door)
    assert await shown(door, "isPaused", *LIMITS) == {"isPaused": True, **LIMITS}
    assert await claim(door) == []
    await post(door, "flowControl/k/resume")
    assert await shown(door, "isPaused", *LIMITS) == {"isPaused": False, **LIMITS}
    assert len(await claim(door)) == 1


async def test_messages_do_not_change_what_is_pinned(door: Door) -> None:
    pinned = {"parallelismMax": 3, "rateMax": 20, "ratePeriod": 120}
    await post(door, "flowControl/k/pin", parallelism=3, rate=20, period=120)
    await published(door)
    assert (await limits(door), await pins(door)) == (pinned, [True, True])
    await post(door, "flowControl/k/unpin", parallelism="true", rate="false")
    assert (await limits(door), await pins(door)) == (pinned, [False, True])
    await published(door)
    assert (await limits(door), await pins(door)) == (pinned | {"parallelismMax": 5}, [False, True])


@pytest.mark.parametrize(
    ("query", "after", "pinned"),
    [
        ({"parallelism": 1}, {"parallelismMax": 1}, [True, False]),
        ({"rate": 7}, {"rateMax": 7}, [False, True]),
        ({"period": 30}, {"ratePeriod": 30}, [False, True]),
        ({"rate": 7, "period": 1}, {"rateMax": 7, "ratePeriod": 1}, [False, True]),
    ],
)
async def test_what_a_pin_does_not_name_stays(
    door: Door, query: Any, after: Any, pinned: list[bool]
) -> None:
    await published(door)
    await post(door, "flowControl/k/pin", **query)
    assert (await limits(door), await pins(door)) == (LIMITS | after, pinned)


async def test_a_key_without_a_message_is_pinned_all_the_same(door: Door) -> None:
    await post(door, "flowControl/k/pin", rate=7)
    assert await limits(door) == {"parallelismMax": 0, "rateMax": 7, "ratePeriod": 1}


@pytest.mark.parametrize(
    ("method", "fields", "pinned"),
    [
        ("PUT", {"parallelism": 2, "rate": 1, "per": "1h", "burst": 1}, True),
        ("PATCH", {"parallelism": 2, "rate": 1, "per": "1h", "burst": 1}, True),
        ("PATCH", {"note": "theirs", "paused": True}, False),
    ],
)
async def test_limits_that_are_set_natively_are_pinned(
    door: Door, method: str, fields: dict[str, Any], pinned: bool
) -> None:
    await published(door)
    await said(await door.client.request(method, "/lanes/flow:k", json=fields))
    assert await pins(door) == [pinned, pinned]
    await published(door)
    native = {"parallelismMax": 2, "rateMax": 1, "ratePeriod": 3600}
    assert await limits(door) == (native if pinned else LIMITS)


async def test_the_native_lane_shows_the_limits_alone(door: Door) -> None:
    await published(door)
    lane = (await door.client.get("/lanes/flow:k")).json()
    named = {name: lane[name] for name in ("rate", "per", "burst", "parallelism", "waiting")}
    assert named == {"rate": 10, "per": "1m", "burst": 10, "parallelism": 5, "waiting": 1}
    assert not any("pin" in name.lower() for name in lane)


async def test_a_used_rate_is_reset(door: Door) -> None:
    for _ in range(2):
        await published(door, "rate=1, period=1d")
    await end(door)
    assert await claim(door) == []
    assert (await shown(door, "rateCount"))["rateCount"] == 1
    await post(door, "flowControl/k/resetRate")
    assert (await shown(door, "rateCount"))["rateCount"] == 0
    assert len(await claim(door)) == 1


@pytest.mark.parametrize(
    ("act", "query", "named"),
    [
        ("pin", {"paralelism": 1}, "parallelism"),
        ("pin", {"parallelism": 0}, "parallelism"),
        ("pin", {"parallelism": "many"}, "parallelism"),
        ("pin", {"rate": 100_001}, "rate"),
        ("pin", {"period": 60}, "period"),
        ("pin", {"rate": 1, "period": 86_401}, "period"),
        ("unpin", {"period": "true"}, "parallelism"),
        ("unpin", {"rate": "yes"}, "rate"),
    ],
)
async def test_a_bad_query_is_named_and_changes_nothing(
    door: Door, act: str, query: Any, named: str
) -> None:
    assert named in refused(await ask(door, f"POST flowControl/k/{act}", **query), 400)
    assert not (await door.store.lanes.read(door.account_id, "flow:k")).settings.is_there


@pytest.mark.parametrize("key", ["a b", "x" * 60, "é"])
async def test_a_key_that_no_lane_can_have_is_refused(door: Door, key: str) -> None:
    for call in ("GET {}", "POST {}/pause", "POST {}/resume", "POST {}/resetRate"):
        refused(await ask(door, call.format(f"flowControl/{quote(key)}")), 400)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", FlowValue()),
        ("rate=1", FlowValue(rate=1)),
        ("parallelism=3,rate=4,period=2s", FlowValue(3, 4, 2000)),
        (" rate = 4 , period = 90 ", FlowValue(rate=4, period_ms=90_000)),
        ("rate=23, period=1h30m3s", FlowValue(rate=23, period_ms=5_403_000)),
    ],
)
def test_a_value_is_read(text: str, value: FlowValue) -> None:
    assert flow_value(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("rate", "rate=", "rate=0", "rate=-1", "rate=1.5", "rate=x", "rate=1,rate=2"),
        *("rate=1;period=1", "period=0s", "period=2d", "period=x", "parallelism=10001"),
        *("burst=1", "," * 99 + "x"),
    ],
)
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"It must|it must|not a duration"):
        flow_value(text)


BOTH = frozenset({PARALLELISM, RATE})


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        (LaneSettings(), FlowValue(), LaneSettings()),
        (LaneSettings(), FlowValue(3), LaneSettings(parallelism=3, unpinned={PARALLELISM})),
        (LaneSettings(), FlowValue(rate=4), LaneSettings(4, 1000, 4, unpinned={RATE})),
        (LaneSettings(parallelism=1), FlowValue(3), LaneSettings(parallelism=1)),
        (
            LaneSettings(4, 1000, 4, 3, unpinned=BOTH),
            FlowValue(2),
            LaneSettings(parallelism=2, unpinned={PARALLELISM}),
        ),
        (
            LaneSettings(4, 1000, 1, 3, unpinned={PARALLELISM}),
            FlowValue(2, 9),
            LaneSettings(4, 1000, 1, 2, unpinned={PARALLELISM}),
        ),
    ],
)
def test_a_message_sets_what_is_not_pinned(
    before: LaneSettings, value: FlowValue, after: LaneSettings
) -> None:
    assert value.limits(before) == after
