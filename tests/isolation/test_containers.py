"""All that outlives a request is in docs/internals/isolation.md, and within the bound there."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.attack.names import NameServer
from tests.isolation import storm
from tests.isolation.containers import LEAST
from tests.support.customer import Customer
from tests.support.processes import ROOT, PostdateProcess
from tests.support.servers import Receiver, ValkeyProcess, postdate_json, until

# More of each than `LEAST`, also of fires that come in two kinds.
CALLS, FIRES = 80, 150
_ROW = re.compile(
    r"^\| (?P<names>`[^|]+`) \|[^|]*\| (?P<chosen>[^|]*) \|"
    r" (?P<most>[\d,]+)(?P<passing> under way)? \|",
    re.MULTILINE,
)
# What these choose, no request makes more.
_NOT_BY_REQUESTS = ("nobody", "operators", "the clock", "damage")


class Probed(NamedTuple):
    process: PostdateProcess
    file: Path

    def lengths(self) -> dict[str, int]:
        path = Path(f"{self.file}.{self.process.pid}")
        self.process.signal(signal.SIGUSR2)
        until(path.exists, "the process to count")
        found: dict[str, int] = json.loads(path.read_text())
        path.unlink()
        return found


def bounds() -> dict[str, int]:
    """The tables: how many entries each of the named containers may have after the storm."""
    found = {}
    for row in _ROW.finditer((ROOT / "docs/internals/isolation.md").read_text()):
        grows = not row["passing"] and not row["chosen"].startswith(_NOT_BY_REQUESTS)
        most = int(row["most"].replace(",", "")) if grows else LEAST
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", row["names"]), most)
    return found


@pytest.fixture
def start(
    own_valkey: ValkeyProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Probed]]:
    started: list[PostdateProcess] = []

    def _start(role: str) -> Probed:
        process = PostdateProcess(
            role,
            module="tests.isolation.probed",
            redis_url=own_valkey.url,
            allow_targets="127.0.0.0/8",
            fire_timeout_ms=1000,
            qstash="on",
        )
        started.append(process)
        process.start()
        return Probed(process, tmp_path / "lengths")

    monkeypatch.setenv("ISOLATION_FILE", str(tmp_path / "lengths"))
    with NameServer() as names:
        monkeypatch.setenv("TEST_NAMES", names.server)
        yield _start
        for each in started:
            each.remove()


def account(url: str, api: Probed, name: str) -> Customer:
    where = {"redis_url": url}
    made = postdate_json(
        "account", "create", name, "--credits", "99999", "--plan", "unlimited", **where
    )
    key = postdate_json("key", "create", name, "--name", "key", **where)["key"]
    return Customer(api.process.base_url, key, made["accountId"])


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.mark.slow
def test_what_outlives_a_request_is_known_and_bounded(
    own_valkey: ValkeyProcess, receiver: Receiver, start: Callable[[str], Probed], stack: ExitStack
) -> None:
    api, worker = start("api"), start("worker")
    customers = [stack.enter_context(account(own_valkey.url, api, name)) for name in ("one", "two")]
    port = int(api.process.base_url.rpartition(":")[2])
    target_port = int(receiver.url.rpartition(":")[2])

    fired: list[str] = []

    def rage(calls: int, fires: int, call: str) -> None:
        storm.send(port, storm.of_a_stranger(calls))
        made: list[str] = []
        for number, customer in enumerate(customers):
            name = f"{call}{number}"
            storm.send(port, storm.of_an_account(customer.key, calls, name))
            storm.send(port, storm.of_a_mover(customer.key, calls, name))
            made += storm.schedule(customer, list(storm.fires(fires, name, target_port)))
            sent = storm.messages(customer.key, fires, name, target_port)
            assert storm.send(port, sent) == {200: fires}
            made += [name] * fires
        fired.extend(made)
        until(lambda: sum(sum(each.counts()) for each in customers) == len(fired), "all fired", 90)

    rage(5, 5, "warm")
    before = api.lengths(), worker.lengths()
    rage(CALLS, FIRES, "storm")
    for role, process, lengths in zip(("api", "worker"), (api, worker), before, strict=True):
        for _ in range(10):  # what is under way ends
            faults = _faults(lengths, process.lengths())
            if not faults:
                break
        assert faults == {}, f"{role}, by docs/internals/isolation.md"


def _faults(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Containers that have grown and are not in the tables, or exceed their bound."""
    known = bounds()
    grown = {name: length for name, length in after.items() if length > before.get(name, LEAST)}
    return {name: length for name, length in grown.items() if length > known.get(name, 0)}
