"""Schedules of QStash: made, replaced, shown, paused and deleted, as the recurring schedules that
they are."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.events import Kind
from scheduler.models import Request, RetryOn
from scheduler.qstash.carried import MOST_BYTES, Carried, opened, pack
from scheduler.qstash.names import rule_name, rule_of, schedule_id_of, schedule_id_of_rule
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft, Rule
from tests.qstash.conftest import URL, Door
from tests.qstash.ends import ask, delete, get, publish, refused, said

HOUR_MS = 3_600_000
USUAL = {"cron": "0 9 * * *"}


async def made(door: Door, url: str = URL, body: bytes = b"", **headers: str) -> str:
    answer = await said(await door.send(f"schedules/{url}", body, **USUAL | headers))
    assert answer.keys() == {"scheduleId"}
    return str(answer["scheduleId"])


async def shown(door: Door, schedule_id: str) -> Any:
    return await get(door, f"schedules/{schedule_id}")


async def ruled(door: Door) -> list[Rule]:
    return (await door.store.recurring.page(door.account_id)).rules


async def test_a_schedule_is_shown_as_it_was_made(door: Door) -> None:
    """What messages show as well, they show alike."""
    sent = {
        "method": "GET",
        "retry_delay": "1000 * (1 + retried)",
        "timeout": "20s",
        "queue_name": "q",
        "callback": "https://example.com/done",
        "label": "one,two",
        "forward_content_type": "application/json",
    }
    schedule_id = await made(door, body=b"{}", cron="*/10 * * * * ", delay="10", **sent)
    assert schedule_id.startswith("scd_")
    found = await shown(door, schedule_id)
    assert await get(door, "schedules") == [found]
    [rule] = await ruled(door)
    assert rule.slot_ms is not None
    assert rule.slot_ms % 600_000 == 10_000
    assert rule.request.retry_on is RetryOn.ANY
    alike = await get(door, f"messages/{await publish(door, body=b'{}', delay='1h', **sent)}")
    for name in ("messageId", "url", "maxRetries", "notBefore"):
        del alike[name]
    assert found == alike | {
        "scheduleId": schedule_id,
        "createdAt": rule.created_at_ms,
        "nextScheduleTime": rule.slot_ms,
        "cron": "*/10 * * * *",
        "destination": URL,
        "retries": 3,
        "delay": 10,
        "isPaused": False,
    }
    assert (await get(door, "queues/q"))["parallelism"] == 1


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
    [found] = await get(door, "schedules")
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
    [detail] = answer.json()["details"]
    assert detail["field"] == "name"
    assert detail["message"].endswith(" bytes, of at most 512.")
    assert (await door.store.recurring.read(door.account_id, rule.recurring_id)) == rule


async def test_a_second_create_replaces_all_but_a_pause(door: Door) -> None:
    first = {"label": "old", "retries": "1", "delay": "5s"}
    for given in ["mine", await made(door, body=b"payload", **first)]:
        await made(door, body=b"payload", schedule_id=given, **first)
        await said(await ask(door, f"PATCH schedules/{given}/pause"))
        before = await shown(door, given)
        await made(door, "https://example.com/new", cron="0 8 * * 1-5", schedule_id=given)
        after = await shown(door, given)
        assert after.keys() == before.keys() - {"body", "label", "labels", "delay"}
        assert after["createdAt"] == before["createdAt"]
        assert after["isPaused"] is True
        assert (after["retries"], after["cron"]) == (3, "0 8 * * 1-5")
    assert len(await get(door, "schedules")) == 2


async def test_the_same_again_changes_nothing(door: Door) -> None:
    for _ in range(2):
        await made(door, schedule_id="same", delay="5s")
    kinds = [event.kind for event in await door.store.events.newest(door.account_id)]
    assert kinds.count(Kind.RULE_MADE) == 1
    assert Kind.RULE_CHANGED not in kinds


async def test_a_schedule_pauses_and_goes_on(door: Door) -> None:
    await made(door, schedule_id="nightly")
    for turn, is_paused in (("pause", True), ("resume", False)):
        for _ in range(2):
            await said(await ask(door, f"PATCH schedules/nightly/{turn}"))
            found = await shown(door, "nightly")
            assert found["isPaused"] is is_paused
            assert ("nextScheduleTime" in found) is not is_paused
            [rule] = await ruled(door)
            assert (rule.pause and rule.pause.by) == ("test" if is_paused else None)


async def test_a_deleted_schedule_is_gone_and_its_message_too(door: Door) -> None:
    credits = await door.credits()
    await made(door, schedule_id="nightly")
    assert await door.credits() == credits - 1
    assert await delete(door, "schedules/nightly") == {}
    for call in ("GET {}", "DELETE {}", "PATCH {}/pause", "PATCH {}/resume"):
        refused(await ask(door, call.format("schedules/nightly")), 404)
    assert await get(door, "schedules") == []
    assert await door.credits() == credits
    assert await door.store.check() == []


@pytest.mark.parametrize(
    ("cron", "timing", "spelt"),
    [
        (
            "TZ=Asia/Tokyo  5 4 * * mon",
            Timing("5 4 * * MON", zone="Asia/Tokyo"),
            "CRON_TZ=Asia/Tokyo 5 4 * * MON",
        ),
        ("CRON_TZ=UTC 5 4 * * *", Timing("5 4 * * *"), "5 4 * * *"),
        ("@every 90m", Timing(every_ms=5_400_000), "@every 1h30m"),
        ("0 0 * * MON#2", Timing("0 0 * * MON#2"), "0 0 * * MON#2"),
    ],
)
async def test_times_are_cron_or_every(door: Door, cron: str, timing: Timing, spelt: str) -> None:
    schedule_id = await made(door, cron=cron)
    [rule] = await ruled(door)
    assert (rule.timing.cron, rule.timing.zone) == (timing.cron, timing.zone)
    assert rule.timing.every_ms == timing.every_ms
    assert (await shown(door, schedule_id))["cron"] == spelt
    assert await made(door, cron=spelt, schedule_id=schedule_id) == schedule_id
    assert await ruled(door) == [rule]


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
    ],
)
async def test_what_is_wrong_is_refused_by_its_header(
    door: Door, headers: dict[str, str], named: str, says: str
) -> None:
    credits = await door.credits()
    sentence = refused(await door.send(f"schedules/{URL}", **USUAL | headers), 400)
    assert sentence.startswith(f"{named}: ")
    assert says in sentence
    assert await ruled(door) == []
    assert await door.credits() == credits


async def test_a_destination_may_be_escaped_and_a_group_is_not_offered(door: Door) -> None:
    schedule_id = await made(door, "https%3A%2F%2Fexample.com%2Fa%3Fb%3Dc")
    assert (await shown(door, schedule_id))["destination"] == "https://example.com/a?b=c"
    refused(await door.send("schedules/my-group", **USUAL), 501)


async def test_a_flow_control_key_is_its_lane(door: Door) -> None:
    headers = {"flow_control_key": "key", "flow_control_value": "parallelism=2"}
    found = await shown(door, await made(door, **headers))
    assert (found["flowControlKey"], found["parallelism"]) == ("key", 2)
    assert (await get(door, "flowControl/key"))["parallelismMax"] == 2


async def test_native_rules_are_left_out_of_lists_and_found_by_name_or_id(door: Door) -> None:
    await made(door, schedule_id="nightly")
    plain = Draft(Request(0, "POST", URL), Timing(every_ms=HOUR_MS), "native")
    native = (await door.store.recurring.create(door.account_id, plain)).rule
    assert [each["scheduleId"] for each in await get(door, "schedules")] == ["nightly"]
    for given in ("native", schedule_id_of_rule(native.recurring_id)):
        found = await shown(door, given)
        assert (found["scheduleId"], found["cron"]) == ("native", "@every 1h")
    await said(await ask(door, "PATCH schedules/native/pause"))
    assert (await shown(door, "native"))["isPaused"] is True


async def test_a_long_list_is_read_in_pages(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.qstash.schedules._PAGE", 2)
    ids = [await made(door, body=b"12345", schedule_id=f"s{number}") for number in range(7)]
    assert [each["scheduleId"] for each in await get(door, "schedules")] == ids
    monkeypatch.setattr("api.qstash.schedules._MOST_BYTES", 19)
    assert "GET /recurring" in refused(await ask(door, "GET schedules"), 413)


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
