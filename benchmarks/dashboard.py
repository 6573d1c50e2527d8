"""How long do the dashboard's pages take when an account has a million log entries?

    python -m benchmarks.dashboard [--entries 1000000] [--waiting 20000] [--rounds 40]

Fills an account's log, indexes and sums with `--entries` executions spread over 30 days, as acks at
those moments would have left them, and stores `--waiting` schedules for the next three hours. Then
it starts one API process, signs in by a link, and asks for every page `--rounds` times over HTTP on
one connection, the pages in turn. It prints the median and the 95th percentile of each page, from
the request until its last byte. The first viewer pays for a read that viewers share for a second,
so the overview is asked for after a pause too ("cold"). It also prints the bytes that a browser's
first load of Overview and Requests takes.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import statistics
import time
from collections.abc import Iterator

import httpx
import uvloop

from benchmarks.support import stage
from benchmarks.support.history import Past, fill
from benchmarks.support.rounds import in_blocks, warn_of_noise
from scheduler.models import Outcome, Plan, Request, Status
from scheduler.runtime.settings import Settings
from scheduler.store import Store

_MONTH_MS = 30 * 86_400_000
_URLS = [f"https://api.example.com/hooks/{n:04}" for n in range(1000)]
_COLD_S = 1.1

# Name, path under /dashboard, and whether it waits before each request.
PAGES = (
    ("overview", "", False),
    ("overview, cold", "", True),
    ("overview, a day", "?range=24h", False),
    ("overview, a month, cold", "?range=30d", True),
    ("requests", "/requests", False),
    ("requests, failed", "/requests?status=failed", False),
    ("requests, one URL of 1,000", f"/requests?q={_URLS[7]}", True),
    ("requests, one URL, failed", f"/requests?q={_URLS[7]}&status=failed", True),
    ("requests, search in vain", "/requests?q=nothing-like-it", True),
    ("API keys", "/keys", False),
    ("credits", "/credits", False),
)


def past(count: int, now_ms: int) -> Iterator[Past]:
    dice = random.Random(1)
    for n in range(count):
        at_ms = now_ms - _MONTH_MS + 60_000 + n * (_MONTH_MS - 120_000) // count
        outcome = Outcome(Status.COMPLETED, 200, 40 + n % 30, "")
        if n % 50 == 0:
            outcome = Outcome(Status.FAILED, 503, 80, "Service Unavailable")
        url = dice.choice(_URLS)
        yield Past(at_ms, Request(at_ms - 1, "POST", url), outcome, n % 4)


async def prepare(url: str, entries: int, waiting: int) -> str:
    """A session's link to an account with this past and this future."""
    store = await Store.open(Settings(redis_url=url))
    try:
        account = await store.accounts.create("busy", credits=waiting, plan=Plan.UNLIMITED)
        now_ms = store.clock.now_ms()
        began_s = time.monotonic()
        await fill(store, account.account_id, past(entries, now_ms))
        print(f"{entries:,} log entries written in {time.monotonic() - began_s:.0f} s")
        step_ms = 3 * 3_600_000 // max(1, waiting)
        requests = [
            Request(now_ms + 600_000 + n * step_ms, "POST", _URLS[n % 1000]) for n in range(waiting)
        ]
        for at in range(0, waiting, 1000):
            await store.schedules.create_all(account.account_id, requests[at : at + 1000])
        await store.api_keys.create(account.account_id, "key")
        return await store.sessions.make_link(account.account_id)
    finally:
        await store.aclose()


async def ask(base_url: str, link: str, rounds: int) -> None:
    taken: dict[str, list[float]] = {name: [] for name, _, _ in PAGES}
    sizes: dict[str, int] = {}
    async with httpx.AsyncClient(base_url=base_url, timeout=60) as client:
        answer = await client.post(f"/dashboard/link/{link}", headers={"origin": base_url})
        assert answer.status_code == 303, answer.status_code
        for path, name in (("", "overview"), ("/requests", "requests")):
            await tell_load(client, "/dashboard" + path, name)
        for number in range(rounds + 2):
            for name, path, is_cold in PAGES:
                if is_cold and number % 4:
                    continue
                if is_cold:
                    await asyncio.sleep(_COLD_S)
                began_s = time.perf_counter()
                answer = await client.get("/dashboard" + path)
                if number > 1:
                    taken[name].append((time.perf_counter() - began_s) * 1000)
                assert answer.status_code == 200, (path, answer.status_code)
                sizes[name] = len(answer.content)
    print(f"{'page':28} {'median':>10} {'p95':>10} {'bytes':>9}")
    for name, times in taken.items():
        worst = sorted(times)[max(0, int(len(times) * 0.95) - 1)]
        median = statistics.median(times)
        print(f"{name:28} {median:7.1f} ms {worst:7.1f} ms {sizes[name]:9,}")
        warn_of_noise([{"ms": each} for each in in_blocks(times)], name)


async def tell_load(client: httpx.AsyncClient, path: str, name: str) -> None:
    """What a browser's first load of a page takes over the wire; it keeps all but the page."""
    answer = await client.get(path)
    page, files, font = answer.num_bytes_downloaded, 0, 0
    for address in sorted(
        set(re.findall(r'(?:src|href)="(/dashboard/static/[^"]+)"', answer.text))
    ):
        file = await client.get(address)
        if file.headers["content-type"] == "font/woff2":
            font += file.num_bytes_downloaded
        else:
            files += file.num_bytes_downloaded
    print(f"first load of {name}: {page + files:,} bytes sent, {page:,} of them the page", end="")
    print(f"; the font {font:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--waiting", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    with stage.valkey() as store:
        link = uvloop.run(prepare(store.url, options.entries, options.waiting))
        with stage.api(store.url) as api:
            asyncio.run(ask(api.url, link, options.rounds))


if __name__ == "__main__":
    main()
