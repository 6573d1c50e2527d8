"""A real Prometheus scrapes a real `up`, with our rules."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import children
from tests.ops.test_rules import RULES, dashboard_expressions
from tests.scrape import free_ports
from tests.servers import Customer, PostdateProcess, free_port, until

PROMETHEUS = shutil.which("prometheus")

pytestmark = pytest.mark.skipif(PROMETHEUS is None, reason="Debian's package prometheus is missing")


class Prometheus:
    """One that scrapes these ports five times a second."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        self._url = f"http://127.0.0.1:{free_port()}"
        rules = yaml.safe_load(RULES.read_text())
        for group in rules["groups"]:
            group.pop("interval", None)  # half a minute, too long for a test
        judged = folder / RULES.name
        judged.write_text(yaml.safe_dump(rules))
        config = folder / "prometheus.yml"
        job = {
            "job_name": "postdate",
            "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}],
        }
        config.write_text(
            yaml.safe_dump(
                {
                    "global": {"scrape_interval": "200ms", "evaluation_interval": "300ms"},
                    "rule_files": [str(judged)],
                    "scrape_configs": [job],
                }
            )
        )
        self._process = children.start(
            [
                str(PROMETHEUS),
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self._url.removeprefix('http://')}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def get(self, path: str, **query: str) -> Any:
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.loads(answer.read())["data"]
        except OSError:
            return None

    def value(self, expression: str) -> float | None:
        found = (self.get("query", query=expression) or {}).get("result")
        return float(found[0]["value"][1]) if found else None

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)


@pytest.fixture
def scraped(tmp_path: Path) -> Iterator[tuple[Prometheus, PostdateProcess]]:
    first = free_ports(3)
    with PostdateProcess(metrics_port=first, workers=2) as up:
        prometheus = Prometheus(tmp_path, [first, first + 1, first + 2])
        yield prometheus, up
        prometheus.stop()


def test_it_reads_all_of_it_and_every_rule_and_panel_can_be_asked(
    scraped: tuple[Prometheus, PostdateProcess],
) -> None:
    prometheus, up = scraped
    with Customer(up.base_url, up.api_key) as customer:
        schedule_id = customer.schedule(f"{up.base_url}/healthz")
        customer.outcome(schedule_id)
        until(lambda: prometheus.value("sum(postdate_created_total)") == 1, "a scrape")
    until(lambda: prometheus.value("sum(up)") == 3, "all three")
    until(lambda: prometheus.value('sum(postdate_attempts_total{outcome="completed"})') == 1)
    until(lambda: prometheus.value("max(postdate_workers_wanted)") == 1)
    until(lambda: prometheus.value("postdate:overdue:sum") == 0, "a recording")
    for group in prometheus.get("rules")["groups"]:
        until(
            lambda group=group: all(
                rule["health"] == "ok"
                for each in prometheus.get("rules")["groups"]
                if each["name"] == group["name"]
                for rule in each["rules"]
            ),
            group["name"],
        )
    for expression in dashboard_expressions():
        asked = prometheus.get("query", query=expression.replace("$__rate_interval", "1m"))
        assert asked is not None, expression
    # On a busy machine something may be late, and pending; nothing lasts long enough to fire.
    alerts = prometheus.get("alerts")["alerts"]
    assert [each["labels"] for each in alerts if each["state"] == "firing"] == []
