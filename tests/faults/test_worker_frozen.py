"""A worker that stands still for longer than its leases and than a request may take, as a machine
does that is suspended: it ends nothing as a timeout that it has not sent."""

from __future__ import annotations

import itertools
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scheduler.store import Store, keys
from scheduler.times import format_iso8601
from tests.support.door import Door
from tests.support.plain import redis_of
from tests.support.servers import Customer, Deployment, PostdateProcess, Receiver, now_ms, until

LEASE_MS = 1000
LIMIT_MS = 2000
FROZEN_MS = 2500
# Of these 64 connect at a time, and the others wait in line.
AT_THE_DOOR = 70
IN_THE_WHEEL = 5
# Schedules due so much later lie in the wheel soon, for most of a second.
WHEEL_S = 1.6
LOST = "Worker lost; the request may have been sent"
DELIVERIES = ["at-least-once", "at-most-once"]


class Frozen:
    """A worker that holds one of every kind. `sent` and `unsent` are at-least-once, `sent_once` and
    `unsent_once` at-most-once; the target never answers `silent`."""

    def __init__(self, deployment: Deployment, receiver: Receiver, door: Door) -> None:
        self.deployment, self.receiver, self.door = deployment, receiver, door
        deployment.api()
        self.worker: PostdateProcess = deployment.worker()
        self.customer: Customer = deployment.customer()
        post = self.customer.schedule
        self.silent = post(receiver.answer("/silent", never=True))
        target = receiver.answer("/answered", held=True)
        self.sent, self.sent_once = [post(target, delivery=each) for each in DELIVERIES]
        receiver.wait_for(1, "/silent")
        receiver.wait_for(2, "/answered")
        wheel = [
            post(receiver.url + "/wheel", WHEEL_S, delivery=DELIVERIES[n % 2])
            for n in range(IN_THE_WHEEL)
        ]
        door_payloads = [
            {"targetUrl": door.url, "triggerAt": format_iso8601(now_ms()), "delivery": each}
            for each in itertools.islice(itertools.cycle(DELIVERIES), AT_THE_DOOR)
        ]
        at_the_door = self.customer.schedule_batch(door_payloads)
        self.unsent = [*at_the_door[::2], *wheel[::2]]
        self.unsent_once = [*at_the_door[1::2], *wheel[1::2]]
        self.count = 3 + AT_THE_DOOR + IN_THE_WHEEL

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Stops the worker as it holds all; the door opens only then, and the answer comes. It
        wakes when its leases and time limits have ended."""
        until(lambda: self.deployment.in_store(self._held) == self.count, "all held")
        self.worker.signal(signal.SIGSTOP)
        frozen_ms = now_ms()
        assert not self.door.arrived
        self.door.open()
        self.receiver.let_go()
        yield
        until(lambda: now_ms() - frozen_ms > FROZEN_MS, "the end of lease and time limit")
        self.worker.signal(signal.SIGCONT)

    async def _held(self, store: Store) -> int:
        held = keys.account(self.customer.account_id) + keys.HELD
        return int(await redis_of(store).zcard(held))

    def arrivals(self) -> Counter[str]:
        """Of schedules not sent before: how often each request arrived."""
        at_the_wheel = (each.schedule_id for each in self.receiver.at("/wheel"))
        return self.door.arrived + Counter(at_the_wheel)

    def outcomes(self) -> dict[str, tuple[str, str]]:
        """Of all that has ended."""
        return {
            entry["scheduleId"]: (entry["status"], entry["errorMessage"])
            for entry in self.customer.log()
            if entry["status"] != "scheduled"
        }

    def all_ended(self) -> dict[str, tuple[str, str]]:
        until(lambda: len(self.outcomes()) == self.count, "the end of all")
        return self.outcomes()


@pytest.fixture
def frozen(receiver: Receiver) -> Iterator[Frozen]:
    settings = {"lease_ms": LEASE_MS, "fire_timeout_ms": LIMIT_MS, "claim_ahead_ms": 1000}
    with Door() as door, Deployment(**settings) as deployment:
        scene = Frozen(deployment, receiver, door)
        try:
            yield scene
        finally:
            scene.worker.signal(signal.SIGCONT)
        assert scene.worker.stop() == 0
        assert deployment.problems() == []


def test_alone_it_sends_what_it_had_not_sent_and_times_out_only_what_it_had(frozen: Frozen) -> None:
    with frozen.standing_still():
        pass
    unsent = frozen.unsent + frozen.unsent_once
    assert frozen.all_ended() == {
        **dict.fromkeys([*unsent, frozen.sent, frozen.sent_once], ("completed", "")),
        frozen.silent: ("failed", "Timeout after 2 seconds"),
    }
    assert frozen.arrivals() == dict.fromkeys(unsent, 1)
    # It takes nothing over from itself.
    assert (len(frozen.receiver.at("/answered")), len(frozen.receiver.at("/silent"))) == (2, 1)


def test_what_another_worker_took_over_or_gave_up_it_neither_sends_nor_records(
    frozen: Frozen,
) -> None:
    """At-most-once schedules are given up: no process can know whether they had been sent."""
    with frozen.standing_still():
        frozen.deployment.worker()
        until(
            lambda: (
                len(frozen.arrivals()) == len(frozen.unsent)
                and {*frozen.unsent_once, frozen.sent} <= frozen.outcomes().keys()
            ),
            "all of them fired or given up by the other",
        )
    outcomes = frozen.all_ended()
    assert {outcomes[each] for each in [*frozen.unsent, frozen.sent]} == {("completed", "")}
    given_up = [*frozen.unsent_once, frozen.sent_once]
    assert {outcomes[each] for each in given_up} == {("failed", LOST)}
    assert frozen.worker.stop() == 0
    assert frozen.arrivals() == dict.fromkeys(frozen.unsent, 1)
    sent = Counter(each.schedule_id for each in frozen.receiver.at("/answered"))
    assert sent == {frozen.sent: 2, frozen.sent_once: 1}
