"""One run: the service started, broken by the plan while clients call it, healed, read, judged."""

from __future__ import annotations

import asyncio
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import msgspec

from tests.chaos.clients import Client, Customer
from tests.chaos.final import read_final
from tests.chaos.history import ARRIVALS, FINAL, REPORTS, Recorder, Run
from tests.chaos.lane_client import LaneClient
from tests.chaos.members import Member
from tests.chaos.message_client import MessageClient
from tests.chaos.plan import Step, fills, holds, kills, nemeses, plan
from tests.chaos.recurring_client import RecurringClient
from tests.chaos.sentinels import SentinelStore
from tests.chaos.stores import ChaosStore, ClusterStore, SingleStore
from tests.chaos.storm import Storm
from tests.chaos.target import ChaosTarget
from tests.chaos.verdict.verdict import Verdict, judge_directory
from tests.chaos.watcher import Watcher
from tests.support.commands import postdate_json

GRANTED = 100_000
STORES: dict[str, type[ChaosStore]] = {
    each.kind: each for each in (SingleStore, ClusterStore, SentinelStore)
}
_APIS, _WORKERS = ["api 1", "api 2"], ["worker 1", "worker 2"]
_CLIENTS, _ACCOUNTS = 6, 2
# Beyond a lease and the margin: the last trigger times and the slowest target.
_SETTLES_S = 20.0


class Options(msgspec.Struct, frozen=True):
    """How a run is to be. Times are short ones, so that a run sees many leases end."""

    seed: int = 1
    seconds: float = 60.0
    store: str = "single"
    lease_ms: int = 3000
    margin_ms: int = 10_000
    fire_timeout_ms: int = 8000
    claim_ahead_ms: int = 50
    faults: tuple[str, ...] = ()
    """Those alone that are called so; by default all."""

    processes: int | None = None
    """Of each API and worker; by default 2 for an even seed."""

    wait_replicas: int = 1
    """Of sentinels. With 0 no server is killed: that may lose writes."""


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


def _run(options: Options, directory: Path, recorder: Recorder, stack: ExitStack) -> None:
    store = stack.enter_context(STORES[options.store]())
    target = stack.enter_context(ChaosTarget(directory / ARRIVALS))
    members = [_member(name, options, store, directory, stack) for name in _APIS + _WORKERS]
    with ThreadPoolExecutor(len(members)) as pool:
        list(pool.map(Member.start, members))
    customers = [_customer(n, store, target.url) for n in range(_ACCOUNTS)]
    apis = [member.base_url for member in members[: len(_APIS)]]
    _call_back(customers[-1], apis[0])
    recorder.write(
        Run(
            options.seed,
            options.seconds,
            store.kind,
            GRANTED,
            options.lease_ms,
            options.margin_ms,
            options.fire_timeout_ms,
            (customers[-1].account,),
        )
    )
    storm = Storm(_steps(options, store), members, store, recorder)
    storm.start()
    try:
        asyncio.run(_call(options, customers, apis, recorder))
    finally:
        storm.join()
    if storm.failure is not None:
        raise storm.failure
    patience_s = (options.lease_ms + options.margin_ms + options.fire_timeout_ms) / 1000
    patience_s += _SETTLES_S
    final = asyncio.run(read_final(directory, apis[0], customers, store.url, patience_s))
    for member in members:
        member.note_if_dead()
        final.mishaps.extend(member.mishaps)
    (directory / FINAL).write_bytes(msgspec.json.format(msgspec.json.encode(final)))


async def _call(
    options: Options, customers: list[Customer], apis: list[str], recorder: Recorder
) -> None:
    clients = [
        Client(
            f"c{n}",
            customers[n % len(customers)],
            apis,
            options.seed,
            recorder,
            keeps_lanes=n < _ACCOUNTS,
        )
        for n in range(_CLIENTS)
    ]
    clients += [
        kind(f"{name}{n}", customer, apis, options.seed, recorder)
        for n, customer in enumerate(customers)
        for name, kind in (
            ("r", RecurringClient),
            ("w", Watcher),
            ("l", LaneClient),
            ("m", MessageClient),
        )
    ]
    await asyncio.gather(*(client.run(options.seconds) for client in clients))


def _steps(options: Options, store: ChaosStore) -> list[Step]:
    servers = list(store.servers)
    among = nemeses(_WORKERS, _APIS, servers, list(store.lines), store.frozen_s, store.replicated)
    if store.replicated and not options.wait_replicas:
        among = [each for each in among if (each.what, each.targets) != ("kill", tuple(servers))]
    among = [each for each in among if not options.faults or each.what in options.faults]
    steps = holds(options.seconds)
    if among:
        steps += plan(options.seed, options.seconds, among)
    if not options.faults or "fill" in options.faults:
        steps += fills(options.seconds, servers)
    if not options.faults or "kill workers" in options.faults:
        steps += kills(options.seconds, _WORKERS)
    return steps


def _member(
    name: str, options: Options, store: ChaosStore, directory: Path, stack: ExitStack
) -> Member:
    member = Member(
        name,
        directory,
        redis_url=store.url_for(name),
        allow_targets="127.0.0.0/8",
        qstash="on",
        lease_ms=options.lease_ms,
        fire_timeout_ms=options.fire_timeout_ms,
        claim_ahead_ms=options.claim_ahead_ms,
        processes=options.processes or 2 - options.seed % 2,
        wait_replicas=options.wait_replicas if store.replicated else 0,
        **store.settings,
    )
    stack.callback(member.remove)
    return member


def _call_back(customer: Customer, api: str) -> None:
    """Its schedules are called back that say nothing of it."""
    body = {"callbackUrl": f"{customer.target}{REPORTS}ok"}
    headers = {"x-api-key": customer.api_key}
    httpx.patch(f"{api}/account", json=body, headers=headers).raise_for_status()


def _customer(number: int, store: ChaosStore, target: str) -> Customer:
    name = f"customer {number + 1}"
    terms = ("--credits", str(GRANTED), "--plan", "unlimited")
    postdate_json("account", "create", name, *terms, redis_url=store.url)
    key = postdate_json("key", "create", name, "--name", "chaos", redis_url=store.url)
    return Customer(name, key["key"], target)
