"""One account searches in vain among 100,000 of its schedules, without a pause, and a neighbour
creates: how long does a create take? As a program, the clients that search."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from typing import NamedTuple

import httpx

from cli.options import with_store
from scheduler.models import Plan, Request
from scheduler.settings import Settings
from scheduler.store import Store
from tests import children
from tests.processes import ROOT, PostdateProcess

_WAITING, _AT_ONCE = 100_000, 1000
_CLIENTS = 8
_EVERY_S = 0.02
_URL = "https://example.com/hook"
_API = ("/schedule?targetUrl=https://none.example/", "/stats/logs?targetUrl=https://none.example/")
_PAGE = "/dashboard/requests?q=none.example"


class Creates(NamedTuple):
    """How long the neighbour's creates took (ms)."""

    p50: float
    p99: float


class Searched(NamedTuple):
    quiet: Creates
    beside: Creates
    answers: dict[str, int]  # of the searches, by status


def run(redis_url: str, seconds: float) -> Searched:
    """The store is empty, and afterwards it is not."""
    session, theirs, ours = with_store(Settings(redis_url=redis_url), _prepare)
    with PostdateProcess("api", redis_url=redis_url) as api:
        quiet = _creates(api.base_url, ours, seconds)
        searching = children.start(
            [sys.executable, "-m", "tests.attack.searches", api.base_url, theirs, session],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with searching:
            searching.stdout.readline()  # the first answer has come
            beside = _creates(api.base_url, ours, seconds)
            told, _ = searching.communicate()
        return Searched(quiet, beside, json.loads(told))


async def _prepare(store: Store) -> tuple[str, str, str]:
    """A session and a key of the account that searches, and a key of its neighbour."""
    made = []
    for name in ("searches", "neighbour"):
        account = await store.accounts.create(name, credits=1_000_000, plan=Plan.UNLIMITED)
        made.append((account.account_id, (await store.api_keys.create(account.account_id, "x"))[1]))
    (searches, theirs), (_, ours) = made
    due_ms = store.clock.now_ms() + 3_600_000
    for start in range(0, _WAITING, _AT_ONCE):
        some = [Request(due_ms + n, "POST", _URL) for n in range(start, start + _AT_ONCE)]
        await store.schedules.create_all(searches, some)
    return (await store.sessions.open(searches)).secret, theirs, ours


def _creates(base_url: str, key: str, seconds: float) -> Creates:
    took_ms: list[float] = []
    body = {"targetUrl": _URL, "delay": "1d"}
    with httpx.Client(
        base_url=base_url, headers={"x-api-key": key}, timeout=30, verify=False
    ) as client:
        until_s = time.perf_counter() + seconds
        while time.perf_counter() < until_s:
            began_s = time.perf_counter()
            client.post("/schedule", json=body).raise_for_status()
            took_ms.append(1000 * (time.perf_counter() - began_s))
            time.sleep(_EVERY_S)
    cuts = statistics.quantiles(took_ms, n=100, method="inclusive")
    return Creates(cuts[49], cuts[98])


async def _search(base_url: str, key: str, session: str) -> None:
    """Until standard input ends; then it prints how many answers of each status came."""
    answers: Counter[int] = Counter()
    port = httpx.URL(base_url).port
    headers = {"x-api-key": key, "cookie": f"postdate_session_{port}={session}"}

    async def search(path: str) -> None:
        async with httpx.AsyncClient(
            base_url=base_url, headers=headers, timeout=60, verify=False
        ) as client:
            while True:
                answers[(await client.get(path)).status_code] += 1
                if answers.total() == 1:
                    _say("searching")

    paths = [*_API, _PAGE, _PAGE] * (_CLIENTS // 4)
    searching = [asyncio.create_task(search(path)) for path in paths]
    await asyncio.to_thread(sys.stdin.read)
    for each in searching:
        each.cancel()
    _say(json.dumps(answers))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_search(*sys.argv[1:]))
