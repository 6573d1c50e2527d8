"""Schedules of QStash: made, replaced, shown, paused and deleted, as the recurring schedules that
they are."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from scheduler.events import Kind
from scheduler.models import Request, RetryOn
from scheduler.qstash.carried import MOST_BYTES, Carried, opened, pack
from scheduler.qstash.names import rule_name, rule_of, schedule_id_of, schedule_id_of_rule
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft, Rule
from tests.qstash.conftest import URL, Door, door_of

HOUR_MS = 3_600_000


async def create(door: Door, url: str = URL, body: bytes = b"", **headers: str) -> httpx.Response:
    """Each `a_b` of the headers is `Upstash-A-B`, but for `Content-Type`."""
    named = {f"Upstash-{name.replace('_', '-').title()}": text for name, text in headers.items()}
    named.setdefault("Upstash-Cron", "0 9 * * *")
    if "Upstash-Content-Type" in named:
        named["Content-Type"] = named.pop("Upstash-Content-Type")
    return await door.client.post(f"/qstash/v2/schedules/{url}", content=body, headers=named)


async def made(door: Door, url: str = URL, body: bytes = b"", **headers: str) -> str:
    answer = await create(door, url, body, **headers)
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() == {"scheduleId"}
    return str(answer.json()["scheduleId"])


async def shown(door: Door, schedule_id: str) -> dict[str, Any]:
    answer = await door.client.get(f"/qstash/v2/schedules/{schedule_id}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def listed(door: Door, **query: str) -> list[dict[str, Any]]:
    answer = await door.client.get("/qstash/v2/schedules", params=query)
    assert answer.status_code == 200, answer.text
    return list(answer.json())


async def ruled(door: Door) -> list[Rule]:
    return (await door.store.recurring.page(door.account_id)).rules


async def acted(door: Door, method: str, path: str) -> int:
    return (await door.client.request(method, f"/qstash/v2/schedules/{path}")).status_code


async def test_a_schedule_is_shown_as_it_was_made(door: Door) -> None:
    schedule_id = await made(
        door,
        "https://example.com/a?b=c",
        b'{"hello":"world"}',
        content_type="application/json",
        cron="*/10 * * * * ",
        method="GET",
        delay="10",
        retries="5",
        retry_delay="1000 * (1 + retried)",
        timeout="20s",
        queue_name="scheduleQueue",
        callback="https://example.com/done",
        failure_callback="https://example.com/failed",
        label="one,two",
        forward_test_header="value",
    )
    assert schedule_id.startswith("scd_")
    found = await shown(door, schedule_id)
    assert await listed(door) == [found]
    [rule] = await ruled(door)
    assert found.pop("createdAt") == rule.created_at_ms
    assert found.pop("callerIP")
    assert found.pop("nextScheduleTime") == rule.slot_ms
    assert rule.slot_ms is not None
    assert rule.slot_ms % 600_000 == 10_000
    assert found == {
        "scheduleId": schedule_id,
        "cron": "*/10 * * * *",
        "destination": "https://example.com/a?b=c",
        "method": "GET",
        "header": {"Content-Type": ["application/json"], "Test-Header": ["value"]},
        "body": '{"hello":"world"}',
        "retries": 5,
        "retryDelayExpression": "1000 * (1 + retried)",
        "timeout": 20,
        "delay": 10,
        "queueName": "scheduleQueue",
        "callback": "https://example.com/done",
        "failureCallback": "https://example.com/failed",
        "label": "one",
        "labels": ["one", "two"],
        "isPaused": False,
    }
    assert rule.request.retry_on is RetryOn.ANY
    lane = await door.store.lanes.read(door.account_id, "queue:scheduleQueue")
    assert lane.settings.parallelism == 1


async def test_an_occurrence_is_a_message_of_the_schedule(door: Door) -> None:
    await made(door, body=b"hello", schedule_id="nightly", delay="90s", label="night")
    [rule] = await ruled(door)
    assert (rule.name, rule.timing) == ("nightly", Timing("0 9 * * *", delay_ms=90_000))
    assert rule.schedule_id is not None
    found = await door.store.schedules.get(door.account_id, rule.schedule_id)
    request, carried = found.request, opened(found.request.door)
    assert request.trigger_at_ms == rule.slot_ms
    assert request.trigger_at_ms % (24 * HOUR_MS) == 9 * HOUR_MS + 90_000
    assert (request.body, request.labels) == (b"hello", ("night",))
    assert carried is not None
    assert schedule_id_of(request.recurring_id, carried.schedule_id) == "nightly"


@pytest.mark.parametrize("given", ["nightly", "a.b:c_d-e", "_V1StGXR8_Z5jdHi6B-mT", "-" + "x" * 60])
async def test_a_given_id_is_the_name_of_the_rule(door: Door, given: str) -> None:
    assert await made(door, schedule_id=given) == given
    [rule] = await ruled(door)
    assert rule.name == rule_name(given)
    assert (await shown(door, given))["scheduleId"] == given
    assert await made(door, "https://example.com/other", schedule_id=given) == given
    [found] = await listed(door)
    assert (found["scheduleId"], found["destination"]) == (given, "https://example.com/other")


async def test_messages_of_a_renamed_rule_name_its_new_id(door: Door) -> None:
    await made(door, schedule_id="daily", redact_fields="body")
    [rule] = await ruled(door)
    for name in ("weekly", None):
        path = f"/recurring/{rule.recurring_id}"
        answer = await door.client.patch(path, json={"name": name, "labels": ["a"]})
        assert answer.status_code == 200, answer.text
        [rule] = await ruled(door)
        schedule_id = schedule_id_of_rule(rule.recurring_id, name)
        assert (await shown(door, schedule_id))["scheduleId"] == schedule_id
        assert rule.schedule_id is not None
        waiting = (await door.store.schedules.get(door.account_id, rule.schedule_id)).request
        for request in (rule.request, waiting):
            carried = opened(request.door)
            assert carried is not None
            assert (carried.schedule_id, carried.redacted) == (schedule_id, "body")
    long = pack(Carried(flow_value="x" * (MOST_BYTES - 20)))
    draft = Draft(Request(0, "GET", URL, door=long), Timing("0 9 * * *"), "long")
    rule = (await door.store.recurring.create(door.account_id, draft)).rule
    answer = await door.client.patch(f"/recurring/{rule.recurring_id}", json={"name": "n" * 64})
    assert answer.status_code == 400
    assert answer.json()["details"][0]["field"] == "name"
    assert (await door.store.recurring.read(door.account_id, rule.recurring_id)) == rule


async def test_a_second_create_replaces_all_but_a_pause(door: Door) -> None:
    for given in ["mine", await made(door, body=b"payload", label="old", retries="1", delay="5s")]:
        await made(door, body=b"payload", label="old", retries="1", delay="5s", schedule_id=given)
        assert await acted(door, "PATCH", f"{given}/pause") == 200
        before = await shown(door, given)
        await made(door, "https://example.com/new", cron="0 8 * * 1-5", schedule_id=given)
        after = await shown(door, given)
        assert after.keys() == before.keys() - {"body", "label", "labels", "delay"}
        assert after["createdAt"] == before["createdAt"]
        assert after["isPaused"] is True
        assert (after["retries"], after["cron"]) == (3, "0 8 * * 1-5")
    assert len(await listed(door)) == 2


async def test_the_same_again_changes_nothing(door: Door) -> None:
    for _ in range(2):
        await made(door, schedule_id="same", delay="5s")
        events = await door.store.events.newest(door.account_id)
        assert [event.kind for event in events].count(Kind.RULE_MADE) == 1
        assert Kind.RULE_CHANGED not in [event.kind for event in events]


async def test_a_schedule_pauses_and_goes_on(door: Door) -> None:
    await made(door, schedule_id="nightly")
    for _ in range(2):
        assert await acted(door, "PATCH", "nightly/pause") == 200
        paused = await shown(door, "nightly")
        assert paused["isPaused"] is True
        assert "nextScheduleTime" not in paused
    [rule] = await ruled(door)
    assert rule.pause is not None
    assert rule.pause.by == "test"
    for _ in range(2):
        assert await acted(door, "PATCH", "nightly/resume") == 200
        resumed = await shown(door, "nightly")
        assert resumed["isPaused"] is False
        assert resumed["nextScheduleTime"]


async def test_a_deleted_schedule_is_gone_and_its_message_too(door: Door) -> None:
    credits = await door.credits()
    await made(door, schedule_id="nightly")
    assert await door.credits() == credits - 1
    assert await acted(door, "DELETE", "nightly") == 200
    assert await acted(door, "DELETE", "nightly") == 404
    assert await listed(door) == []
    assert await door.credits() == credits
    assert await door.store.check() == []


@pytest.mark.parametrize(
    ("cron", "timing", "said"),
    [
        ("CRON_TZ=Europe/Berlin 0 9 * * mon", Timing("0 9 * * MON", zone="Europe/Berlin"), None),
        ("TZ=Asia/Tokyo  5 4 * * *", Timing("5 4 * * *", zone="Asia/Tokyo"), "CRON_TZ=Asia/Tokyo"),
        ("CRON_TZ=UTC 5 4 * * *", Timing("5 4 * * *"), "5 4 * * *"),
        ("@every 90m", Timing(every_ms=5_400_000), "@every 1h30m"),
        ("0 0 * * MON#2", Timing("0 0 * * MON#2"), "0 0 * * MON#2"),
    ],
)
async def test_times_are_cron_or_every(
    door: Door, cron: str, timing: Timing, said: str | None
) -> None:
    schedule_id = await made(door, cron=cron)
    [rule] = await ruled(door)
    assert (rule.timing.cron, rule.timing.zone) == (timing.cron, timing.zone)
    assert rule.timing.every_ms == timing.every_ms
    text = (await shown(door, schedule_id))["cron"]
    assert text.startswith(said or cron.upper().replace("EUROPE/BERLIN", "Europe/Berlin"))
    assert await made(door, cron=text, schedule_id=schedule_id) == schedule_id
    [again] = await ruled(door)
    assert again == rule


@pytest.mark.parametrize(
    ("headers", "named", "says"),
    [
        ({"cron": ""}, "Upstash-Cron", "five fields"),
        ({"cron": "* * * *"}, "Upstash-Cron", "five fields"),
        ({"cron": "61 * * * *"}, "Upstash-Cron", "The minute"),
        ({"cron": "@daily"}, "Upstash-Cron", "0 0 * * *"),
        ({"cron": "@every 10ms"}, "Upstash-Cron", "from 1s"),
        ({"cron": "@every soon"}, "Upstash-Cron", "duration"),
        ({"cron": "CRON_TZ=Mars/Olympus 0 9 * * *"}, "Upstash-Cron", "IANA"),
        ({"cron": "0 0 30 2 *"}, "Upstash-Cron", "never comes"),
        ({"schedule_id": "a b"}, "Upstash-Schedule-Id", "letters"),
        ({"schedule_id": "x" * 65}, "Upstash-Schedule-Id", "letters"),
        ({"schedule_id": "id:_x"}, "Upstash-Schedule-Id", "letters"),
        ({"delay": "soon"}, "Upstash-Delay", "duration"),
        ({"retries": "many"}, "Upstash-Retries", "from"),
    ],
)
async def test_what_is_wrong_is_refused_by_its_header(
    door: Door, headers: dict[str, str], named: str, says: str
) -> None:
    credits = await door.credits()
    answer = await create(door, **headers)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"].startswith(f"{named}: ")
    assert says in answer.json()["error"]
    assert await ruled(door) == []
    assert await door.credits() == credits


async def test_a_destination_may_be_escaped_and_a_group_is_not_offered(door: Door) -> None:
    schedule_id = await made(door, "https%3A%2F%2Fexample.com%2Fa%3Fb%3Dc")
    assert (await shown(door, schedule_id))["destination"] == "https://example.com/a?b=c"
    answer = await create(door, "my-group")
    assert answer.status_code == 501, answer.text


async def test_flow_control_is_that_of_the_lane(door: Door) -> None:
    headers = {"flow_control_key": "key", "flow_control_value": "parallelism=2"}
    found = await shown(door, await made(door, **headers))
    assert (found["flowControlKey"], found["parallelism"], found["period"]) == ("key", 2, 1)
    assert "rate" not in found
    lane = await door.store.lanes.read(door.account_id, "flow:key")
    assert lane.settings.parallelism == 2


async def test_others_have_none_of_it(door: Door) -> None:
    await made(door, schedule_id="nightly")
    [rule] = await ruled(door)
    other = await door_of(door.app, door.store)
    by_rule = schedule_id_of_rule(rule.recurring_id)
    for given in ("nightly", by_rule, "no-such", "%20"):
        for method, path in [
            ("GET", ""),
            ("DELETE", ""),
            ("PATCH", "/pause"),
            ("PATCH", "/resume"),
        ]:
            assert await acted(other, method, given + path) == 404
    assert await listed(other) == []
    assert [each["scheduleId"] for each in await listed(door)] == ["nightly"]


async def test_native_rules_are_left_out_of_lists_and_found_by_name_or_id(door: Door) -> None:
    await made(door, schedule_id="nightly")
    plain = Draft(Request(0, "POST", URL), Timing(every_ms=HOUR_MS), "native")
    native = (await door.store.recurring.create(door.account_id, plain)).rule
    assert [each["scheduleId"] for each in await listed(door)] == ["nightly"]
    for given in ("native", schedule_id_of_rule(native.recurring_id)):
        found = await shown(door, given)
        assert (found["scheduleId"], found["cron"]) == ("native", "@every 1h")
    assert await acted(door, "PATCH", "native/pause") == 200
    assert (await shown(door, "native"))["isPaused"] is True


async def test_a_long_list_is_read_in_pages(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.qstash.schedules._PAGE", 2)
    ids = [await made(door, body=b"12345", schedule_id=f"s{number}") for number in range(7)]
    assert [each["scheduleId"] for each in await listed(door)] == ids
    monkeypatch.setattr("api.qstash.schedules._MOST_BYTES", 19)
    answer = await door.client.get("/qstash/v2/schedules")
    assert (answer.status_code, "GET /recurring" in answer.text) == (413, True)


def test_ids_of_schedules_and_rules_lead_to_each_other() -> None:
    rule = "rec_01k8zv5x7nfxqv3d1m2c4b5a6z"
    assert schedule_id_of_rule(rule) == schedule_id_of(rule) == "scd_01k8zv5x7nfxqv3d1m2c4b5a6z"
    assert rule_of("scd_01k8zv5x7nfxqv3d1m2c4b5a6z") == rule
    assert schedule_id_of(None, "given") is None
    assert schedule_id_of(rule, "given") == "given"
    for given in ("plain", "_under", "-dash"):
        name = rule_name(given)
        assert name is not None
        assert schedule_id_of_rule(rule, name) == given
    for none in ("", rule, "id:x", " ", "ä"):
        assert rule_name(none) is None
    for none in ("", rule, "scd_", "scd_1", "01k8zv5x7nfxqv3d1m2c4b5a6z"):
        assert rule_of(none) is None
