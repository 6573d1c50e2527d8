"""Recurring schedules through what operators do: each of their times has one occurrence, or is
counted in an entry of the log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from scheduler.times import format_iso8601, parse_iso8601
from tests.support.servers import (
    Customer,
    Deployment,
    PostdateProcess,
    Receiver,
    now_ms,
    postdate_json,
    until,
)

EVERY_MS = 1000


def created(customer: Customer, target: str, **timing: str) -> str:
    answer = customer.call("/recurring", targetUrl=target, **timing)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["recurringId"])


def overdue(customer: Customer, rule: str, slots: int) -> None:
    """Waits until so many times have passed since the one of the occurrence that waits."""
    slot_ms = parse_iso8601(customer.get(f"/recurring/{rule}").json()["nextAt"])
    until(lambda: now_ms() > slot_ms + slots * EVERY_MS, "times that pass")


def assert_each_once(customer: Customer, rule: str) -> None:
    """Pauses it: the log has each of its times once, also the one that the pause has cancelled."""
    paused = customer.call(f"/recurring/{rule}/pause").json()
    assert (paused["state"], paused["scheduleId"]) == ("paused", None)
    until(lambda: not any_waits(customer, rule), "all to end")
    slots = slots_of(customer, rule)
    assert set(slots.values()) == {1}, slots
    assert sorted(slots) == list(range(min(slots), max(slots) + 1, EVERY_MS)), slots


def any_waits(customer: Customer, rule: str) -> bool:
    waits = {"recurringId": rule, "status": "scheduled"}
    return bool(customer.get("/schedule", **waits).json()["schedules"])


def slots_of(customer: Customer, rule: str) -> Counter[int]:
    """The times that entries of the log stand for."""
    slots: Counter[int] = Counter()
    for entry in customer.log(recurringId=rule):
        first_ms = parse_iso8601(entry["scheduledAt"])
        slots.update(range(first_ms, first_ms + max(1, entry["missed"]) * EVERY_MS, EVERY_MS))
    return slots


@pytest.mark.parametrize("how", ["--expire", "--fire"])
def test_a_restored_backup_has_each_time_once(receiver: Receiver, tmp_path: Path, how: str) -> None:
    """Of what was sent between the backup and the restore, the store knows nothing: the occurrence
    that waited is ended unsent, or sent again, as the operator says. The times that passed during
    the hold are one entry."""
    copy = tmp_path / "copy"
    with PostdateProcess(lease_ms=2000) as up, Customer(up.base_url, up.api_key) as customer:
        key, rule = customer.key, created(customer, receiver.url + "/tick", every="1s")
        receiver.wait_for(2, "/tick")
        backup = postdate_json("backup", str(copy), data_dir=up.data_dir)
        receiver.wait_for(len(receiver.at("/tick")) + 2, "/tick")
    with (
        PostdateProcess("up", "--hold", data_dir=str(copy), lease_ms=2000) as restored,
        Customer(restored.base_url, key) as customer,
    ):
        waited = customer.get(f"/recurring/{rule}").json()["scheduleId"]
        listed = customer.get("/schedule", recurringId=rule).json()["schedules"]
        known = {waited, *(each["scheduleId"] for each in listed)}
        overdue(customer, rule, 3)
        amid_ms, sent = now_ms() - EVERY_MS, len(receiver.at("/tick"))
        postdate_json("restore", "--fired-since", backup["at"], how, data_dir=copy)
        postdate_json("resume", data_dir=copy)
        receiver.wait_for(sent + 3, "/tick")
        ended = customer.outcome(waited)
        assert_each_once(customer, rule)
        [missed] = [
            entry["missed"]
            for entry in customer.log(recurringId=rule, status="skipped")
            if 0 <= amid_ms - parse_iso8601(entry["scheduledAt"]) < entry["missed"] * EVERY_MS
        ]
        assert missed >= 2
        times = Counter(each.schedule_id for each in receiver.at("/tick"))
        assert ended["status"] == ("failed" if how == "--expire" else "completed")
        # The one before may have been on its way at the backup.
        assert all(times.pop(each, 0) <= (1 if how == "--expire" else 2) for each in known)
        assert set(times.values()) == {1}
        sound: dict[str, list[str]] = {"problems": []}
        until(lambda: postdate_json("check", data_dir=copy) == sound, "a sound store")


def test_a_pause_ends_as_of_its_end_though_the_worker_died(receiver: Receiver) -> None:
    """Each time after that has an occurrence, or is counted in an entry, and none of the pause."""
    with Deployment(lease_ms=2000) as deployment:
        deployment.api()
        worker, customer = deployment.worker(), deployment.customer()
        rule = created(customer, f"{receiver.url}/r", every="1s")
        until(lambda: len(receiver.at("/r")) > 1, "occurrences")
        ends_ms = now_ms() + 2500
        ends_at = format_iso8601(ends_ms)
        assert customer.call(f"/recurring/{rule}/pause", pausedUntil=ends_at).status_code == 200
        until(lambda: not any_waits(customer, rule), "what a worker had")
        before = slots_of(customer, rule)
        worker.kill()
        until(lambda: now_ms() > ends_ms + 2500, "times that pass")
        deployment.worker()
        until(lambda: len(receiver.at("/r")) > len(before) + 2, "more occurrences")
        customer.call(f"/recurring/{rule}/pause")
        until(lambda: not any_waits(customer, rule), "all to end")
        after = slots_of(customer, rule) - before
        assert set(after.values()) == {1}
        first_ms = min(before) + -(-(ends_ms + 1 - min(before)) // EVERY_MS) * EVERY_MS
        assert sorted(after) == list(range(first_ms, max(after) + 1, EVERY_MS))
        assert deployment.problems() == []


def test_workers_of_two_versions_of_tzdata_make_each_occurrence_once(receiver: Receiver) -> None:
    """The one without it dies amid an upgrade."""
    with Deployment(lease_ms=2000) as deployment:
        deployment.api()
        older = deployment.worker()
        customer = deployment.customer()
        rules = [
            created(customer, f"{receiver.url}/{n}", cron="0 9 * * *", timeZone="Europe/Berlin")
            for n in range(4)
        ]
        made = [sent_now(customer, receiver, rule, n) for n, rule in enumerate(rules)]
        deployment.worker(module="tests.faults.newer_tzdata")
        for _ in range(2):
            made += [sent_now(customer, receiver, rule, n) for n, rule in enumerate(rules)]
        older.kill()
        made += [sent_now(customer, receiver, rule, n) for n, rule in enumerate(rules)]
        slots = [customer.get(f"/schedule/{each}").json()["slot"] for each in made]
        for n, rule in enumerate(rules):
            waits = customer.get(f"/recurring/{rule}").json()
            days = [each[:10] for each in [*slots[n :: len(rules)], waits["nextAt"]]]
            first_ms = parse_iso8601(slots[n])
            wanted = [format_iso8601(first_ms + k * 86_400_000)[:10] for k in range(5)]
            assert days == wanted
            assert len(receiver.at(f"/{n}")) == 4
        assert deployment.problems() == []


def sent_now(customer: Customer, receiver: Receiver, rule: str, n: int) -> str:
    """Moves the occurrence that waits to now; its id, once it has ended."""
    schedule_id = str(customer.get(f"/recurring/{rule}").json()["scheduleId"])
    assert customer.change(schedule_id, triggerAt=format_iso8601(now_ms())).status_code == 200
    assert customer.outcome(schedule_id)["status"] == "completed"

    def goes_on() -> bool:
        return customer.get(f"/recurring/{rule}").json()["scheduleId"] not in (None, schedule_id)

    until(goes_on, "the next occurrence")
    return schedule_id
