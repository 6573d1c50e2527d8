"""The store is killed, or does not answer, and comes back: nothing needs to be started again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.api.errors import error_of
from tests.support.servers import Customer, Deployment, Receiver, ValkeyProcess, now_ms, until

# A store that is gone is known at once; one that is silent only once its reply was waited for, and
# a call that came while another waited has both waits.
REFUSED_WITHIN_S = 11.0


def refused(customer: Customer) -> None:
    """What can be asked of the API while the store is away; all at once, as each may take long."""
    calls: list[Callable[[], httpx.Response]] = [
        lambda: customer.post("https://example.com/hook", due_in_s=3600),
        lambda: customer.get("/stats"),
        lambda: customer.get("/stats/remaining-credits"),
        lambda: customer.get("/readyz"),
    ]
    with ThreadPoolExecutor(len(calls)) as pool:
        answers = list(pool.map(lambda call: call(), calls))
    for answer in answers:
        assert answer.status_code == 503
        said = error_of(answer)
        assert list(said) == ["error", "reason"]
        assert said["reason"] in ("store_unavailable", "outcome_unknown")
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.elapsed.total_seconds() < REFUSED_WITHIN_S
    assert customer.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("leaves", "returns"), [("kill", "start"), ("pause", "resume")], ids=["killed", "paused"]
)
def test_while_the_store_is_away_the_api_says_503_and_afterwards_all_goes_on(
    own_valkey: ValkeyProcess, receiver: Receiver, leaves: str, returns: str
) -> None:
    slow_target = receiver.answer("/slow", held=True)
    with Deployment(own_valkey, module="tests.faults.impatient") as deployment:
        api, worker = deployment.api(), deployment.worker()
        pids = api.pid, worker.pid
        customer = deployment.customer()
        ids = [customer.schedule(slow_target)]
        ids += [customer.schedule(receiver.url + "/waits", due_in_s=s) for s in (0.7, 1.0)]
        all_due_ms = now_ms() + 1000
        receiver.wait_for(1, "/slow")

        getattr(own_valkey, leaves)()
        refused(customer)
        receiver.let_go()
        until(lambda: now_ms() > all_due_ms, "all of them to be due")
        until(lambda: "lost touch with the store" in worker.stderr, "a worker that knows")
        getattr(own_valkey, returns)()

        def accepted() -> str | None:
            answer = customer.post(receiver.url + "/hook")
            assert answer.status_code in (201, 503)
            return answer.json().get("scheduleId")

        ids.append(until(accepted, "accepted again"))
        for schedule_id in ids:
            assert customer.outcome(schedule_id)["status"] == "completed"
        assert Counter(each.schedule_id for each in receiver.requests) == Counter(ids)
        assert customer.counts() == (len(ids), 0)
        # A create that the store took while it hung may be done: its 503 said so.
        assert 10_000 - customer.credits() - len(ids) in (0, 1)
        assert customer.get("/readyz").status_code == 200
        assert (api.pid, worker.pid) == pids
        # An outage is logged once, not at every attempt.
        assert worker.stderr.count("lost touch with the store") == 1
        assert len(worker.stderr.splitlines()) < 20
        assert worker.stop() == 0
        assert deployment.problems() == []
