"""One account searches in vain among 100,000 of its schedules, without a pause, and a neighbour
creates: how long does a create take? As a program, the clients that search."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections import Counter

import httpx

from cli.options import with_store
from scheduler.models import Request
from scheduler.settings import Settings
from scheduler.store import Store
from tests import children
from tests.attack.accounts import open_account
from tests.attack.creates import URL, create_for
from tests.processes import ROOT, PostdateProcess

_WAITING, _AT_ONCE = 100_000, 1000
_CLIENTS = 8
_API = ("/schedule?targetUrl=https://none.example/", "/stats/logs?targetUrl=https://none.example/")
_PAGE = "/dashboard/requests?q=none.example"


def flood(redis_url: str, options: argparse.Namespace) -> tuple[str, list[str]]:
    """What came of it, and what of that is over a bound. The store is empty, and afterwards not."""
    session, theirs, ours = with_store(Settings(redis_url=redis_url), _prepare)
    with PostdateProcess("api", redis_url=redis_url) as api:
        quiet = create_for(api.base_url, ours, options.seconds)
        searching = children.start(
            [sys.executable, "-m", "tests.attack.searches", api.base_url, theirs, session],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with searching:
            searching.stdout.readline()  # the first answer has come
            beside = create_for(api.base_url, ours, options.seconds)
            answers = json.loads(searching.communicate()[0])
    found = beside.breaches(options.create_p50_ms)
    if set(answers) != {"200", "429"}:
        found.append(f"some should be done, and the others refused, unlike {answers}")
    return f"{answers}; creates {beside}; without: {quiet}", found


async def _prepare(store: Store) -> tuple[str, str, str]:
    """A session and a key of the account that searches, and a key of its neighbour."""
    searches, theirs = await open_account(store, "searches")
    _, ours = await open_account(store, "neighbour")
    due_ms = store.clock.now_ms() + 3_600_000
    for start in range(0, _WAITING, _AT_ONCE):
        some = [Request(due_ms + n, "POST", URL) for n in range(start, start + _AT_ONCE)]
        await store.schedules.create_all(searches, some)
    return (await store.sessions.open(searches)).secret, theirs, ours


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
