"""One flood against a worker of its own, with a good neighbour beside it, and what came of both."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import trustme

from cli.options import with_store
from scheduler.models import LogEntry, LogStatus, Plan, Request
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.store.log.logs import LogQuery
from tests.attack.floods import Flood
from tests.attack.names import NameServer
from tests.support import children
from tests.support.processes import ROOT, PostdateProcess
from tests.support.receiver import Receiver
from tests.support.valkey import ValkeyProcess

KINDS = ("literal", "known name", "new name", "same account")
_URLS = {
    "literal": "http://127.0.0.1:{port}/literal/{n}",
    "known name": "http://good.test:{port}/known name/{n}",
    "new name": "http://new-{n}.test:{port}/new name/{n}",
    "same account": "http://127.0.0.1:{port}/same account/{n}",
}
_LEAD_S = 1.5
_AFTER_S = 1.5
_HEAVY_NAMES = 1200  # 30 KB; more than 32 KiB are not read
_LOST = re.compile(r"lost touch with the store|lease was lost")


class Lateness(NamedTuple):
    """Of one kind of requests (ms); `amiss` came not at all, or twice."""

    p50: float
    p99: float
    worst: float
    amiss: int


class Result(NamedTuple):
    """`fired`: how many of the flood ended in the time of the measurement; `beyond_ms`: by how much
    the longest was over its time limit; `lost`: warnings about the store or leases."""

    flood: str
    fired: int
    neighbour: dict[str, Lateness]
    memory_mb: float
    beyond_ms: float
    lost: int


class Attack:
    """What all floods have in common: certificates, names, a store, a receiver."""

    def __init__(self, directory: Path, limit_ms: int, per_second: int, seconds: float) -> None:
        self._directory = directory
        self._limit_ms = limit_ms
        self._per_second = per_second
        self._seconds = seconds
        self._stack = ExitStack()

    def __enter__(self) -> Attack:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self._directory / "authority.pem"))
        heavy = [f"another-host-{n:04}.test" for n in range(_HEAVY_NAMES)]
        _write(self._directory / "tls.pem", authority.issue_cert("*.tls.test"))
        _write(self._directory / "certificates.pem", authority.issue_cert(*heavy, "*.cert.test"))
        self._names = self._stack.enter_context(NameServer())
        self._receiver = self._stack.enter_context(Receiver())
        self._valkey = self._stack.enter_context(ValkeyProcess())
        os.environ["SSL_CERT_FILE"] = str(self._directory / "authority.pem")
        os.environ["TEST_NAMES"] = self._names.server
        return self

    def __exit__(self, *failure: Any) -> None:
        self._stack.__exit__(*failure)

    def run(self, flood: Flood) -> Result:
        """Fires it, and waits until the longest of its requests must have ended."""
        self._valkey.flush()
        self._receiver.clear()
        with ExitStack() as stack:
            targets = stack.enter_context(Targets(self._directory))
            worker = PostdateProcess(
                "worker",
                module="tests.isolation.probed",
                redis_url=self._valkey.url,
                allow_targets="127.0.0.0/8",
                fire_timeout_ms=self._limit_ms,
            )
            stack.enter_context(worker)
            account, sent = self._begin(flood, targets.ports)
            first_ms, last_ms = (sent["literal"][each].trigger_at_ms for each in (0, -1))
            memory_mb = self._watch(worker, max(last_ms, first_ms + 1000 * flood.waves))
            ended = self._in_store(lambda store: all_ended(store, account))
            ended = [each for each in ended if "/same" not in each.url]
            worker.stop()
            return Result(
                flood.name,
                len(ended),
                {kind: _lateness(sent[kind], self._receiver) for kind in KINDS},
                memory_mb,
                max([1000 * s - self._limit_ms for s in targets.longest_s().values()], default=0),
                len(_LOST.findall(worker.stderr)),
            )

    def _begin(self, flood: Flood, ports: dict[str, int]) -> tuple[str, dict[str, list[Request]]]:
        """Schedules everything. The neighbour begins half a second before the flood."""
        every_ms = 1000 / self._per_second
        count = round(self._seconds * self._per_second)
        port = self._receiver.port

        async def create(store: Store) -> tuple[str, dict[str, list[Request]]]:
            theirs, ours = [await open_account(store, name) for name in ("flood", "neighbour")]
            bodies = flood.requests(ports, 0)
            taken_s = 1.0 + sum(len(each.body or b"") for each in bodies) / 20e6 + len(bodies) / 2e3
            begin_ms = round(1000 * (time.time() + taken_s + _LEAD_S))
            sent = {kind: _requests(kind, port, count, begin_ms, every_ms) for kind in KINDS}
            await schedule_all(store, theirs, flood.requests(ports, begin_ms + 500))
            for kind in KINDS:
                owner = theirs if kind == "same account" else ours
                await schedule_all(store, owner, sent[kind])
            left_s = begin_ms / 1000 - time.time()
            if left_s < 0:
                raise RuntimeError(f"it took {-left_s:.1f} s too long to schedule everything")
            return theirs, sent

        return self._in_store(create)

    def _watch(self, worker: PostdateProcess, last_ms: int) -> float:
        """The most memory that the worker had (MB), until all must have ended."""
        until_s = last_ms / 1000 + self._limit_ms / 1000 + _AFTER_S
        most = 0
        while time.time() < until_s:
            most = max(most, worker.memory_bytes())
            time.sleep(0.1)
        return most / 1e6

    def _in_store(self, use: Any) -> Any:
        return with_store(Settings(redis_url=self._valkey.url), use)


class Targets:
    """The process of hostile targets."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.ports: dict[str, int] = {}

    def __enter__(self) -> Targets:
        self._process = children.start(
            [sys.executable, "-m", "tests.attack.targets", str(self._directory)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ports = json.loads(self._process.stdout.readline())
        return self

    def longest_s(self) -> dict[str, float]:
        """Ends it, and returns how long the longest connection to each was open."""
        told, _ = self._process.communicate(timeout=30)
        return dict(json.loads(told))

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def _requests(kind: str, port: int, count: int, from_ms: int, every_ms: float) -> list[Request]:
    """Due one after the other. The number in a name is of the moment, so that it is a new one."""
    made = []
    for n in range(count):
        due_ms = from_ms + round(n * every_ms)
        url = _URLS[kind].format(port=port, n=f"{due_ms}{n}").replace(" ", "%20")
        made.append(Request(due_ms, "GET", url))
    return made


def _lateness(sent: list[Request], receiver: Receiver) -> Lateness:
    came = {each.path: each.at_ms for each in receiver.requests}
    times = Counter(each.path for each in receiver.requests)
    paths = ["/" + each.url.partition("//")[2].partition("/")[2] for each in sent]
    amiss = sum(times[path] != 1 for path in paths)
    both = zip(sent, paths, strict=True)
    late = [came[path] - each.trigger_at_ms for each, path in both if path in came]
    if len(late) < 2:
        return Lateness(0, 0, 0, amiss)
    cuts = statistics.quantiles(late, n=100, method="inclusive")
    return Lateness(cuts[49], cuts[98], max(late), amiss)


async def open_account(store: Store, name: str) -> str:
    made = await store.accounts.create(name, credits=1_000_000, plan=Plan.UNLIMITED)
    return made.account_id


async def schedule_all(
    store: Store, account_id: str, requests: Sequence[Request], at_once: int = 100
) -> None:
    for start in range(0, len(requests), at_once):
        await store.schedules.create_all(account_id, requests[start : start + at_once])


async def all_ended(store: Store, account_id: str) -> list[LogEntry]:
    """The log's entries of the account's requests that have ended."""
    found: list[LogEntry] = []
    cursor: str | None = None
    while True:
        page = await store.logs.page(account_id, LogQuery(limit=1000, cursor=cursor))
        found += [each for each in page.entries if each.status is not LogStatus.SCHEDULED]
        cursor = page.next_cursor
        if cursor is None:
            return found


def _write(path: Path, certificate: trustme.LeafCert) -> None:
    certificate.private_key_and_cert_chain_pem.write_to_path(str(path))
