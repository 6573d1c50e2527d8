"""What a process tells on its metrics port, as Prometheus would have it."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from contextlib import ExitStack

from prometheus_client.parser import text_string_to_metric_families

from tests.support.waiting import DEADLINE_S, free_port


def scrape(port: int) -> dict[str, float]:
    """The value of each series: `postdate_overdue{shard="0"}`; labels by their names."""
    found = {}
    for family in text_string_to_metric_families(told(port, "/metrics")[1]):
        for each in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(each.labels.items()))
            found[f"{each.name}{{{labels}}}" if labels else each.name] = each.value
    return found


def told(port: int, path: str) -> tuple[int, str]:
    """Status and body."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=DEADLINE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    while True:
        first = free_port()
        with ExitStack() as stack:
            try:
                for number in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", number))
            except (OSError, OverflowError):
                continue
            return first
