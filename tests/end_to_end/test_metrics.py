"""What real processes tell of themselves."""

from __future__ import annotations

import socket

import httpx

from scheduler.store import Store
from tests.metrics import catalogue
from tests.scrape import free_ports, is_told, scrape, told
from tests.servers import (
    Customer,
    Deployment,
    PostdateProcess,
    Receiver,
    free_port,
    until,
)


def test_up_tells_of_api_and_workers_and_names_no_account_no_url_and_no_id() -> None:
    first = free_ports(3)
    with (
        PostdateProcess(metrics_port=first, workers=2) as up,
        Receiver() as receiver,
        Customer(up.base_url, up.api_key) as customer,
    ):
        created = customer.schedule(f"{receiver.url}/secret-path")
        cancelled = customer.schedule(receiver.url, 3600)
        customer.cancel(cancelled)
        customer.schedule(receiver.url, 100)
        customer.outcome(created)
        api = scrape(first)
        workers = [scrape(first + place) for place in (1, 2)]
        assert api["postdate_created_total"] == 3
        assert api["postdate_cancelled_total"] == 1
        assert api['postdate_api_requests_total{code="201",method="POST",route="/schedule"}'] == 3
        fired = 'postdate_attempts_total{outcome="completed"}'
        assert sum(each[fired] for each in workers) == 1
        assert sum(each["postdate_lateness_seconds_count"] for each in workers) == 1
        assert sum(each["postdate_claimed_total"] for each in workers) == 1
        until(lambda: scrape(first)["postdate_workers"] == 2)
        wide = scrape(first)
        assert wide["postdate_store_up"] == 1
        assert wide["postdate_workers_wanted"] == 1
        waiting = [value for name, value in wide.items() if name.startswith("postdate_waiting{")]
        assert sum(waiting) == 1
        assert wide["postdate_ledgers_broken"] == 0
        for scraped in (wide, *workers):
            ours = {name.partition("{")[0] for name in scraped if name.startswith("postdate_")}
            assert ours <= catalogue.series()
        customer.get(f"/no/such/{created}")
        for place in range(3):
            assert told(first + place, "/healthz")[0] == told(first + place, "/readyz")[0] == 200
            everything = told(first + place, "/metrics")[1]
            port = receiver.url.rpartition(":")[2]
            assert not [
                each for each in (created[4:], "secret-path", "acc_", port) if each in everything
            ]


def test_a_store_that_is_away_makes_nobody_unhealthy() -> None:
    api_port, worker_port = free_port(), free_port()
    with Deployment() as deployment:
        deployment.api(metrics_port=api_port)
        deployment.worker(metrics_port=worker_port)
        assert scrape(api_port)["postdate_store_up"] == 1
        deployment.valkey.kill()  # type: ignore[union-attr]
        for port in (api_port, worker_port):
            until(lambda port=port: told(port, "/readyz")[0] == 503, "not ready")
            assert told(port, "/healthz")[0] == 200
        until(lambda: scrape(api_port)["postdate_store_up"] == 0)
        assert scrape(worker_port)["postdate_shards_away"] > 0
        errors = [v for n, v in scrape(worker_port).items() if n.startswith("postdate_store_err")]
        assert sum(errors) > 0


def test_a_store_that_was_emptied_or_replaced_is_reported_by_every_process() -> None:
    api_port, worker_port = free_port(), free_port()
    with Deployment() as deployment:
        api = deployment.api(metrics_port=api_port)
        worker = deployment.worker(metrics_port=worker_port)
        ports = (api_port, worker_port)
        assert [scrape(port)["postdate_store_replaced"] for port in ports] == [0, 0]
        assert deployment.problems() == []
        emptied = "The store was emptied since this process opened it"
        replaced = "The store is another one than this process opened"
        for why in (emptied, replaced):
            if why == emptied:
                deployment.valkey.flush()  # type: ignore[union-attr]
            else:
                deployment.in_store(set_up)
            for port in ports:
                until(lambda port=port, why=why: told(port, "/readyz") == (503, f"{why}.\n"), why)
                assert scrape(port)["postdate_store_replaced"] == 1
            answer = httpx.get(f"{api.base_url}/readyz")
            assert (answer.status_code, answer.json()) == (503, {"error": why})
        assert len(deployment.problems()) == 2
        for process in (api, worker):
            assert process.stderr.count("the store is not the one that was opened") == 1


async def set_up(_: Store) -> None:
    """Opening an empty store did it."""


def test_a_worker_that_waits_for_its_store_is_alive_and_not_ready() -> None:
    port = free_port()
    with Deployment() as deployment:
        away = f"redis://127.0.0.1:{free_port()}"
        deployment.spawn("worker", metrics_port=port, redis_url=away)
        until(lambda: is_told(port), "health")
        assert told(port, "/readyz") == (503, "The store has not been reached yet.\n")
        assert scrape(port)['postdate_build_info{role="worker",version="0.1.0"}'] == 1


def test_processes_of_one_role_have_ports_of_their_own() -> None:
    first = free_ports(2)
    with Deployment() as deployment:
        deployment.worker(metrics_port=first, processes=2)
        for port in (first, first + 1):
            assert scrape(port)['postdate_build_info{role="worker",version="0.1.0"}'] == 1


def test_a_worker_whose_metrics_port_is_taken_works_and_says_so() -> None:
    with socket.socket() as other, Deployment() as deployment:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        worker = deployment.worker(metrics_port=port)
        until(lambda: f"port {port} on 127.0.0.1 cannot be listened on" in worker.stderr)
        other.close()
        until(lambda: is_told(port), "the port, once it is free")
