"""`up` dies with everything it started, as in a power cut, and is started again."""

from __future__ import annotations

import os
import signal
from collections import Counter
from contextlib import suppress

from tests.support.servers import (
    Customer,
    PostdateProcess,
    Receiver,
    postdate_json,
    processes_of,
    until,
)

WAITING = 20


def kill_all_of(up: PostdateProcess) -> None:
    """kill -9 of `up`, its API, its worker and its Valkey."""
    processes = processes_of(up.data_dir)
    assert len(processes) == 4
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert up.wait() == -signal.SIGKILL
    until(lambda: not processes_of(up.data_dir), "the end of all of them")


def test_after_a_power_cut_everything_fires_and_the_ledger_balances(receiver: Receiver) -> None:
    in_flight_target = receiver.answer("/in-flight", never=True)
    with PostdateProcess(lease_ms=2000) as up:
        with Customer(up.base_url, up.api_key) as before:
            key = before.key
            done = before.schedule(receiver.url + "/done")
            assert before.outcome(done)["status"] == "completed"
            cancelled = before.schedule(receiver.url + "/cancelled", due_in_s=1.0)
            assert before.cancel(cancelled).status_code == 200
            in_flight = before.schedule(in_flight_target)
            receiver.wait_for(1, "/in-flight")
            waiting = [
                before.schedule(receiver.url + "/waiting", due_in_s=1.0 + i * 0.05)
                for i in range(WAITING)
            ]
        kill_all_of(up)
        fired_before = [each.schedule_id for each in receiver.at("/waiting")]
        receiver.answer("/in-flight")
        up.start()
        with Customer(up.base_url, key) as after:
            for schedule_id in (done, in_flight, *waiting):
                assert after.outcome(schedule_id)["status"] == "completed"
            assert after.outcome(cancelled)["status"] == "cancelled"
            assert after.counts() == (2 + WAITING, 0)
            assert after.credits() == 1_000_000 - 2 - WAITING
        times = Counter(each.schedule_id for each in receiver.requests)
        assert times.keys() == {done, in_flight, *waiting}
        # Twice at most, and only requests in flight at the power cut.
        assert times[done] == 1
        assert times[in_flight] == 2
        assert all(times[each] == 1 for each in waiting if each not in fired_before)
        attempts = [each.headers["postdate-attempt"] for each in receiver.at("/in-flight")]
        assert attempts == ["1", "2"]
        assert postdate_json("check", data_dir=up.data_dir) == {"problems": []}
