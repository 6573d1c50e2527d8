"""What real processes tell of themselves."""

from __future__ import annotations

from tests.metrics import catalogue
from tests.support.scrape import free_ports, scrape, told
from tests.support.servers import Customer, PostdateProcess, Receiver, until


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
