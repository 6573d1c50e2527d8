"""A store without memory to spare takes nothing new, and lets go of what it has."""

from __future__ import annotations

from cli.embedded import ask
from tests.servers import Deployment, Receiver, ValkeyProcess, until

CREDITS = 10


def set_memory(valkey: ValkeyProcess, limit: str) -> None:
    assert ask(valkey.socket, f"CONFIG SET maxmemory {limit}") == "+OK"


def test_a_full_store_refuses_schedules_and_still_fires_and_cancels(
    own_valkey: ValkeyProcess, receiver: Receiver
) -> None:
    with Deployment(own_valkey) as deployment:
        deployment.api()
        worker = deployment.worker()
        customer = deployment.customer(credits=CREDITS)
        fires = customer.schedule(receiver.url + "/fires", due_in_s=1.0)
        in_flight = customer.schedule(receiver.answer("/slow", held=True))
        cancelled = customer.schedule(receiver.url + "/cancelled", due_in_s=3600)
        receiver.wait_for(1, "/slow")
        set_memory(own_valkey, "1")

        answer = customer.post(receiver.url + "/refused")
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert customer.credits() == CREDITS - 3

        assert customer.cancel(cancelled).status_code == 200
        receiver.let_go()
        for schedule_id in (in_flight, fires):
            assert customer.outcome(schedule_id)["status"] == "completed"
        assert customer.counts() == (2, 0)
        assert customer.credits() == CREDITS - 2
        assert deployment.problems() == []
        assert "Traceback" not in worker.stderr

        set_memory(own_valkey, "0")
        later = until(lambda: customer.post(receiver.url + "/later"), "accepted again")
        assert later.status_code == 201
        assert customer.outcome(later.json()["scheduleId"])["status"] == "completed"
        assert receiver.at("/refused") == []
        assert customer.credits() == CREDITS - 3
        assert worker.stop() == 0
        assert deployment.problems() == []
