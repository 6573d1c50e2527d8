"""One run: the service started, broken by the plan while clients call it, healed, read, judged."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from tests.chaos.clients import Client, Customer
from tests.chaos.final import read_final
from tests.chaos.history import ARRIVALS, FINAL, Recorder, Run
from tests.chaos.members import Member, start_all
from tests.chaos.plan import LONG_FREEZE_AT_S, Step, after, holds, long_freeze, nemeses, plan
from tests.chaos.sentinels import SentinelStore
from tests.chaos.stores import ChaosStore, ClusterStore, SingleStore
from tests.chaos.storm import Storm
from tests.chaos.verdict import Verdict, judge_directory
from tests.commands import postdate_json
from tests.processes import environment

GRANTED = 100_000
STORES: dict[str, type[ChaosStore]] = {
    each.kind: each for each in (SingleStore, ClusterStore, SentinelStore)
}
# Beyond a lease and the margin: the last trigger times and the slowest target.
_SETTLES_S = 20.0
_LONGER_S = 4.0
# Schedules, a millisecond apart, with the moment of a long freeze in their middle.
_BURST = 400


class Options(msgspec.Struct, frozen=True):
    """How a run is to be. Times are short ones, so that a run sees many leases end."""

    seed: int = 1
    seconds: float = 60.0
    store: str = "single"
    workers: int = 2
    apis: int = 2
    clients: int = 6
    accounts: int = 2
    lease_ms: int = 3000
    margin_ms: int = 10_000
    fire_timeout_ms: int = 8000
    claim_ahead_ms: int = 25
    faults: tuple[str, ...] = ()
    """Those alone that are called so; by default all."""

    long_freeze: bool = False
    processes: int | None = None
    """Of each API and worker; by default 2 for an even seed."""


def run(options: Options, keep: Path | None = None) -> tuple[Verdict, Path]:
    """Makes one run. Returns the verdict and where its history lies, `keep` if that is given:
    the caller removes its files."""
    directory = keep or Path(tempfile.mkdtemp(prefix="pd-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty: a history begins in an empty directory.")
    recorder = Recorder(directory)
    try:
        with ExitStack() as stack:
            _run(options, directory, recorder, stack)
    except BaseException as error:
        error.add_note(f"The history so far: {directory}")
        raise
    finally:
        recorder.close()
    return judge_directory(directory), directory


def remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)


def _run(options: Options, directory: Path, recorder: Recorder, stack: ExitStack) -> None:
    store = stack.enter_context(STORES[options.store]())
    target = stack.enter_context(_target(directory / ARRIVALS))
    members = [_member(name, options, store, directory, stack) for name in _names(options)]
    start_all(members)
    customers = [_customer(n, store, target) for n in range(options.accounts)]
    names = [customer.account for customer in customers]
    recorder.write(
        Run(
            options.seed,
            options.seconds,
            store.kind,
            names,
            GRANTED,
            options.lease_ms,
            options.margin_ms,
            options.fire_timeout_ms,
        )
    )
    apis = [member.base_url for member in members if member.name.startswith("api")]
    storm = Storm(_steps(options, store), members, store, recorder)
    storm.start()
    try:
        asyncio.run(_call(options, customers, apis, recorder))
    finally:
        storm.join()
    if storm.failure is not None:
        raise storm.failure
    patience_s = (options.lease_ms + options.margin_ms) / 1000 + _SETTLES_S
    patience_s += options.fire_timeout_ms / 1000
    final = asyncio.run(read_final(directory, apis[0], customers, store.url, patience_s))
    for member in members:
        member.look()
    mishaps = [mishap for member in members for mishap in member.mishaps]
    final = msgspec.structs.replace(final, mishaps=final.mishaps + mishaps)
    (directory / FINAL).write_bytes(msgspec.json.format(msgspec.json.encode(final)))


async def _call(
    options: Options, customers: list[Customer], apis: list[str], recorder: Recorder
) -> None:
    clients = [
        Client(f"c{n}", customers[n % len(customers)], apis, options.seed, recorder)
        for n in range(options.clients)
    ]
    calls = [client.run(options.seconds) for client in clients]
    if options.long_freeze:
        bursting = Client("burst", customers[0], apis, options.seed, recorder)
        around_ms = round(time.time() * 1000 + LONG_FREEZE_AT_S * 1000)
        calls.append(bursting.burst(around_ms - _BURST // 2, _BURST))
    await asyncio.gather(*calls)


def _names(options: Options) -> list[str]:
    return [f"api {n + 1}" for n in range(options.apis)] + [
        f"worker {n + 1}" for n in range(options.workers)
    ]


def _steps(options: Options, store: ChaosStore) -> list[Step]:
    names = _names(options)
    workers = [name for name in names if name.startswith("worker")]
    apis = [name for name in names if name.startswith("api")]
    among = nemeses(workers, apis, list(store.servers), list(store.lines), store.frozen_s)
    among = [each for each in among if not options.faults or each.what in options.faults]
    steps = plan(options.seed, options.seconds, among)
    freeze_s = options.fire_timeout_ms / 1000 + _LONGER_S
    steps = after(steps, long_freeze(freeze_s, workers)) if options.long_freeze else steps
    return [*steps, *holds(options.seconds)]


def _member(
    name: str, options: Options, store: ChaosStore, directory: Path, stack: ExitStack
) -> Member:
    member = Member(
        name,
        directory,
        redis_url=store.url_for(name),
        allow_targets="127.0.0.0/8",
        lease_ms=options.lease_ms,
        fire_timeout_ms=options.fire_timeout_ms,
        claim_ahead_ms=options.claim_ahead_ms,
        processes=options.processes or 2 - options.seed % 2,
        **store.settings,
    )
    stack.callback(member.remove)
    return member


def _customer(number: int, store: ChaosStore, target: str) -> Customer:
    name = f"customer {number + 1}"
    where = {"redis_url": store.url}
    postdate_json(
        "account", "create", name, "--credits", str(GRANTED), "--plan", "unlimited", **where
    )
    key = postdate_json("key", "create", name, "--name", "chaos", **where)
    return Customer(name, key["key"], target)


@contextmanager
def _target(arrivals: Path) -> Iterator[str]:
    """A target process; yields its URL."""
    arrivals.touch()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.target", str(arrivals)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.communicate(timeout=30)
