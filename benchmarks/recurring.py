"""What do recurring schedules cost, and whom do they delay?

    python -m benchmarks.recurring [crowd next cost one all] [--rules 100000] [--seconds 20]
                                   [--rounds 3] [--accounts 10] [--all 1000000]

crowd   lateness of one-off schedules, 500 a second, beside `--rules` rules that are due at one
        moment in their middle, against as many one-off schedules in the rules' place, in turn
next    CPU for making the next occurrence of a rule, and nothing else: of this process, which calls
        the store as a worker does, 64 rules at a time, and of the store; beside it the store's for
        creating one-off schedules, 64 at a time, in turn: this machine's own measure
cost    CPU of worker and store for each occurrence of a twentieth of `--rules`, due at one moment,
        and for each of as many one-off schedules, in turn, with the store's append-only file and
        without; a tenth of as many warm both up before
one     10,000 rules of one account: how long each create, a page of the list and one rule take
all     memory for each of `--all` rules of a hundredth as many accounts, and the part of a core
        that store and worker take while none is due

Rules are of `--accounts` accounts, and due again after an hour. Each part starts servers of its
own. All run on one machine, so there is one clock.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.lane_costs import cpu_shares
from benchmarks.support import stage
from benchmarks.support.beside import LEAD_MS, Ask, connected, lateness_of, schedule_paced
from benchmarks.support.payload import new_account, request, schedule_all
from benchmarks.support.rounds import warn_of_noise
from scheduler.models import Invocation
from scheduler.recurrence.recurrence import Timing, first_slot
from scheduler.recurrence.recurring import Draft
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.recurring.chain import Chain
from scheduler.store.recurring.rules import new_rule
from scheduler.store.recurring.steps import Step, Steps
from scheduler.store.retention import Retention
from scheduler.store.verdict import Verdict

RATE = 500
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
_AT_ONCE = 500
_OF_ONE = 10_000
_STORED_A_SECOND = 1000
_BEFORE_MS = 100
_WARM_PART = 10
_BATCH = 64


class Cost(NamedTuple):
    """CPU (us) of each fire."""

    worker_us: float
    store_us: float


async def _rules(store: Store, owners: list[str], count: int, url: str, due_ms: int) -> None:
    """Due at one moment, and again each hour."""
    timing = Timing(every_ms=HOUR_MS, starts_at_ms=due_ms)
    draft = Draft(request(url, 0), timing)
    for start in range(0, count, _AT_ONCE):
        some = range(start, min(count, start + _AT_ONCE))
        await asyncio.gather(
            *(store.recurring.create(owners[n % len(owners)], draft, None) for n in some)
        )


async def _many_rules(store: Store, owners: list[str], count: int, url: str, due_ms: int) -> None:
    """As `_rules`, but in few calls, so that a million take minutes."""
    timing = Timing(every_ms=HOUR_MS, starts_at_ms=due_ms)
    draft, retention = Draft(request(url, 0), timing), Retention.of(Settings())
    steps = Steps(store.server, store.clock, retention)
    chain = Chain(store.server.secrecy, store.clock, 366 * DAY_MS)
    slot_ms = await first_slot(timing, store.clock.now_ms())

    def begun(number: int) -> Step:
        now_ms = store.clock.now_ms()
        owner = owners[number % len(owners)]
        rule = new_rule(owner, draft, now_ms, store.server.secrecy)
        rule.slot_ms = slot_ms
        return chain.begun(rule, now_ms)

    for start in range(0, count, _AT_ONCE):
        some = [begun(n) for n in range(start, min(count, start + _AT_ONCE))]
        if {*await steps.all(some)} != {Verdict.DONE}:
            raise SystemExit("A rule was not stored.")


async def _walked(store: Store) -> None:
    """As a worker does at its first start: its walk of all rules is not to be counted."""
    for shard in range(store.shards.count):
        await store.renewal.renew(shard)


async def _due(
    store: Store,
    count: int,
    url: str,
    due_ms: int,
    *,
    as_rules: bool,
    accounts: int,
    prefix: str = "recurring",
) -> list[str]:
    """So many due at one moment; returns their accounts."""
    owners = [(await new_account(store, f"{prefix}-{n}")).account_id for n in range(accounts)]
    if as_rules:
        await _rules(store, owners, count, url, due_ms)
    else:
        for owner in owners:
            await schedule_all(store, owner, [request(url, due_ms)] * (count // accounts))
    if store.clock.now_ms() > due_ms - _BEFORE_MS:
        raise SystemExit("They were not stored in time; take fewer.")
    return owners


async def _executed(store: Store, owners: list[str], due_ms: int) -> None:
    """Returns once nothing is left that was due then."""
    for owner in owners:
        waiting = keys.account(owner) + keys.WAITING
        while await store.server.read("ZCOUNT", waiting, "-inf", due_ms + HOUR_MS // 2):
            await asyncio.sleep(0.02)


def crowd(options: argparse.Namespace) -> None:
    """p99 of one-offs beside rules is to be at most twice that beside one-offs."""
    ratios = []
    for number in range(1, options.rounds + 1):
        one_offs, rules = (_crowd(options, as_rules=each) for each in (False, True))
        ratios.append(rules / one_offs)
        print(
            f"crowd, round {number}: p99 {one_offs:.1f} ms beside {options.rules} one-off "
            f"schedules, {rules:.1f} ms beside as many rules",
            flush=True,
        )
    print(f"median of the ratios {statistics.median(ratios):.2f} (at most 2)")
    warn_of_noise([{"ratio": each} for each in ratios])


def _crowd(options: argparse.Namespace, *, as_rules: bool) -> float:
    async def store_all(store: Store, url: str, other: str) -> dict[str, int]:
        await _walked(store)
        lead_ms = 1000 * (options.rules + RATE * options.seconds) // _STORED_A_SECOND
        begin_ms = store.clock.now_ms() + LEAD_MS + lead_ms
        due_ms = begin_ms + 500 * options.seconds
        how = {"as_rules": as_rules, "accounts": options.accounts}
        owners = await _due(store, options.rules, other, due_ms, **how)
        alone = (await new_account(store, "alone")).account_id
        moments = range(begin_ms, begin_ms + 1000 * options.seconds)
        due = await schedule_paced(store, alone, lambda ms: request(url, ms), RATE, moments)
        await asyncio.sleep((due_ms - store.clock.now_ms()) / 1000)
        await _executed(store, [*owners, alone], due_ms)
        return due

    def plan(ask: Ask, url: str, other: str) -> dict[str, int]:
        due: dict[str, int] = ask(lambda store: store_all(store, url, other))
        return due

    return lateness_of(plan).p99


def cost(options: argparse.Namespace) -> None:
    """The rule's part is to be at most 30 us of the worker and 20 us of the store."""
    rounds: list[dict[str, float]] = []
    for number in range(1, options.rounds + 1):
        one_off, rule = (_cost(options, as_rules=each) for each in (False, True))
        no_file = [_cost(options, as_rules=each, file=False).store_us for each in (False, True)]
        print(
            f"cost, round {number}: worker {one_off.worker_us:.1f} us and store "
            f"{one_off.store_us:.1f} us a one-off, {rule.worker_us:.1f} and {rule.store_us:.1f} "
            f"an occurrence; store without its file {no_file[0]:.1f} and {no_file[1]:.1f}",
            flush=True,
        )
        more = {
            "worker": rule.worker_us - one_off.worker_us,
            "store": rule.store_us - one_off.store_us,
            "store without its file": no_file[1] - no_file[0],
        }
        rounds.append(more)
    for name in rounds[0]:
        median_us = statistics.median(each[name] for each in rounds)
        print(f"the rule's part of an occurrence: {name} {median_us:.1f} us")
    warn_of_noise(rounds, "occurrences")


def _cost(options: argparse.Namespace, *, as_rules: bool, file: bool = True) -> Cost:
    count = options.rules // 20
    how = {"as_rules": as_rules, "accounts": options.accounts}
    with (
        stage.valkey() as server,
        stage.target() as target,
        stage.worker(server.url) as worker,
        connected(server.url) as ask,
    ):

        async def run(store: Store, count: int, prefix: str) -> Cost:
            due_ms = store.clock.now_ms() + LEAD_MS + 1000 * count // _STORED_A_SECOND
            owners = await _due(store, count, target.url, due_ms, **how, prefix=prefix)
            await asyncio.sleep((due_ms - _BEFORE_MS - store.clock.now_ms()) / 1000)
            worker_s, store_s = worker.cpu_s(), server.cpu_s()
            await _executed(store, owners, due_ms)
            each = 1e6 / count
            return Cost((worker.cpu_s() - worker_s) * each, (server.cpu_s() - store_s) * each)

        async def measured(store: Store) -> Cost:
            await _walked(store)
            if not file:
                await store.server.call("CONFIG", "SET", "appendonly", "no")
            await run(store, count // _WARM_PART, "warm")
            return await run(store, count, "recurring")

        found: Cost = ask(measured)
        return found


def next_alone(options: argparse.Namespace) -> None:
    """`next`: at most 30 us of the worker and 20 us of the store."""
    rounds = [_next_alone(options) for _ in range(options.rounds)]
    for number, each in enumerate(rounds, 1):
        print(
            f"next, round {number}: worker {each['worker']:.1f} us and store {each['store']:.1f} "
            f"us an occurrence; store {each['create']:.1f} us a one-off schedule",
            flush=True,
        )
    medians = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    beside = medians["store"] / medians["create"]
    print(
        f"making the next: worker {medians['worker']:.1f} us, store {medians['store']:.1f} us, "
        f"{beside:.2f} times a create"
    )
    warn_of_noise(rounds)


def _next_alone(options: argparse.Namespace) -> dict[str, float]:
    """Medians of batches, of so many rules as `cost` has."""
    took: dict[str, list[float]] = {"worker": [], "store": [], "create": []}
    with stage.valkey() as server, connected(server.url) as ask:

        async def measured(store: Store) -> None:
            await _walked(store)
            count, url = options.rules // 20, "http://127.0.0.1:9/hook"
            due_ms = store.clock.now_ms() + LEAD_MS + 1000 * count // _STORED_A_SECOND
            owners = await _due(store, count, url, due_ms, as_rules=True, accounts=options.accounts)
            await asyncio.sleep((due_ms + _BEFORE_MS - store.clock.now_ms()) / 1000)
            claimed = await _claimed(store)
            for start in range(0, len(claimed), _BATCH):
                some = claimed[start : start + _BATCH]
                worker_s, store_ns = time.process_time(), server.main_thread_ns()
                await store.recurring.advance(some)
                took["worker"].append((time.process_time() - worker_s) * 1e6 / len(some))
                took["store"].append((server.main_thread_ns() - store_ns) / 1000 / len(some))
                one_offs = [request(url, due_ms + HOUR_MS)] * len(some)
                store_ns = server.main_thread_ns()
                await store.schedules.create_all(owners[0], one_offs)
                took["create"].append((server.main_thread_ns() - store_ns) / 1000 / len(some))

        ask(measured)
    return {name: statistics.median(values) for name, values in took.items()}


async def _claimed(store: Store) -> list[Invocation]:
    """All that is due, shard by shard."""
    found: list[Invocation] = []
    for shard in range(store.shards.count):
        while more := (await store.claims.claim(shard, most=128, lease_ms=DAY_MS)).invocations:
            found += more
    return found


def one(options: argparse.Namespace) -> None:
    """As many as an account may have. Medians of calls to the store, one after the other."""
    with stage.valkey() as server, connected(server.url) as ask:

        async def measured(store: Store) -> None:
            owner = (await new_account(store, "recurring")).account_id
            due_ms = store.clock.now_ms() + DAY_MS
            took = []
            for _ in range(_OF_ONE // _AT_ONCE):
                began_s = time.perf_counter()
                await _rules(store, [owner], _AT_ONCE, "https://example.com/hook", due_ms)
                took.append((time.perf_counter() - began_s) * 1000 / _AT_ONCE)
            print(f"create: {took[0]:.2f} ms the first, {took[-1]:.2f} ms the last {_AT_ONCE}")
            pages, reads = [], []
            for _ in range(options.rounds * 20):
                began_s = time.perf_counter()
                page = await store.recurring.page(owner, state=None, limit=100, cursor=None)
                then_s = time.perf_counter()
                await store.recurring.read(owner, page.rules[-1].recurring_id)
                pages.append((then_s - began_s) * 1000)
                reads.append((time.perf_counter() - then_s) * 1000)
            page_ms, read_ms = statistics.median(pages), statistics.median(reads)
            print(f"a page of 100: {page_ms:.2f} ms; one rule: {read_ms:.2f} ms", flush=True)

        ask(measured)


def all_of_all(options: argparse.Namespace) -> None:
    """`all`: with none, then with all of them."""
    count, accounts = options.all, max(1, options.all // 10_000)
    with stage.valkey() as server, connected(server.url) as ask:
        before = ask(_used_bytes)

        async def fill(store: Store) -> None:
            due_ms = store.clock.now_ms() + 30 * DAY_MS
            owners = [(await new_account(store, f"all-{n}")).account_id for n in range(accounts)]
            began_s = time.perf_counter()
            await _many_rules(store, owners, count, "https://example.com/hook", due_ms)
            print(f"{count} rules stored in {time.perf_counter() - began_s:.0f} s", flush=True)

        ask(_walked)
        with stage.worker(server.url) as worker:
            shares = [cpu_shares([server, worker], options.seconds)]
            ask(fill)
            shares.append(cpu_shares([server, worker], options.seconds))
        each = (ask(_used_bytes) - before) / count
    for name, (store_share, worker_share) in zip(("none", f"{count} rules"), shares, strict=True):
        print(f"with {name}: store {store_share:.2%} of a core, worker {worker_share:.2%}")
    print(f"a rule and its occurrence take {each:,.0f} bytes of the store")


async def _used_bytes(store: Store) -> int:
    lines: Iterator[bytes] = iter((await store.server.read("INFO", "memory")).splitlines())
    return next(int(each.split(b":")[1]) for each in lines if each.startswith(b"used_memory:"))


PARTS = {"crowd": crowd, "next": next_alone, "cost": cost, "one": one, "all": all_of_all}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what recurring schedules cost.")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="by default all but `all`")
    parser.add_argument("--rules", type=int, default=100_000)
    parser.add_argument("--accounts", type=int, default=10)
    parser.add_argument("--all", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.rules // 20 // _WARM_PART % options.accounts:
        parser.error("A 200th of --rules is to be divisible by --accounts.")
    for part in options.parts or ("crowd", "next", "cost", "one"):
        PARTS[part](options)


if __name__ == "__main__":
    main()
