"""What real processes tell of themselves."""

from __future__ import annotations

import httpx

from tests.metrics import catalogue
from tests.scrape import free_ports, scrape, told
from tests.servers import Customer, Deployment, PostdateProcess, Receiver, free_port, until


def test_up_tells_of_api_and_workers_and_names_no_account_no_url_and_no_id() -> None:
    first = free_ports(3)
    with (
        PostdateProcess(metrics_port=first, workers=2) as up,
        Receiver() as receiver,
        Customer(up.base_url, up.api_key) as customer,
    ):
        created = customer.schedule(f"{receiver.url}/secret-path")
        customer.cancel(customer.schedule(receiver.url, 3600))
        customer.schedule(receiver.url, 100)
        customer.outcome(created)
        until(lambda: scrape(first)["postdate_workers"] == 2)
        api = scrape(first)
        workers = [scrape(first + place) for place in (1, 2)]
        waiting = [value for name, value in api.items() if name.startswith("postdate_waiting{")]
        assert sum(waiting) == 1
        for name, value in {
            "postdate_created_total": 3,
            "postdate_cancelled_total": 1,
            'postdate_api_requests_total{code="201",method="POST",route="/schedule"}': 3,
            "postdate_ledgers_broken": 0,
        }.items():
            assert api[name] == value
        assert sum(each["postdate_lateness_seconds_count"] for each in workers) == 1
        for scraped in (api, *workers):
            ours = {name.partition("{")[0] for name in scraped if name.startswith("postdate_")}
            assert ours <= catalogue.series()
        customer.get(f"/no/such/{created}")
        secrets = (created[4:], "secret-path", "acc_", str(receiver.port))
        for port in range(first, first + 3):
            assert told(port, "/healthz")[0] == told(port, "/readyz")[0] == 200
            everything = told(port, "/metrics")[1]
            assert [each for each in secrets if each in everything] == []


def test_without_their_store_processes_are_healthy_and_not_ready() -> None:
    """One store is away, and one was emptied."""
    away_worker, emptied_api = free_port(), free_port()
    with Deployment() as away, Deployment() as emptied:
        away.worker(metrics_port=away_worker)
        api = emptied.api(metrics_port=emptied_api)
        assert emptied.problems() == []
        away.valkey.kill()  # type: ignore[union-attr]
        emptied.valkey.flush()  # type: ignore[union-attr]
        until(lambda: told(away_worker, "/readyz")[0] == 503, "not ready")
        assert told(away_worker, "/healthz")[0] == 200
        assert scrape(away_worker)["postdate_shards_away"] > 0
        why = "The store was emptied since this process opened it"
        until(lambda: told(emptied_api, "/readyz") == (503, f"{why}.\n"), why)
        assert scrape(emptied_api)["postdate_store_replaced"] == 1
        answer = httpx.get(f"{api.base_url}/readyz")
        assert (answer.status_code, answer.json()) == (503, {"error": why})
