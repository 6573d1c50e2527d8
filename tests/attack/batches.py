"""One account sends batches of nothing but unknown names, which are all refused: does the API keep
anything of them, and how long does a neighbour's create take?"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor

import httpx

from cli.options import with_store
from scheduler.settings import Settings
from scheduler.store import Store
from tests.attack.accounts import open_account
from tests.attack.creates import create
from tests.processes import PostdateProcess

_CALLS = 50
_MOST_MB = 40.0
_ITEM = json.dumps({f"n{n:05}": 0 for n in range(1280)}, separators=(",", ":"))
_BATCH = f'{{"schedules":[{",".join([_ITEM] * 1000)}]}}'.encode()


def flood(redis_url: str, options: argparse.Namespace) -> tuple[str, list[str]]:
    """What came of it, and what of that is over a bound. The store is empty, and afterwards not."""
    theirs, ours = with_store(Settings(redis_url=redis_url), _keys)
    with PostdateProcess("api", redis_url=redis_url) as api, ThreadPoolExecutor(1) as thread:
        before = api.memory_bytes()
        sent = thread.submit(_send, api.base_url, theirs)
        beside = create(api.base_url, ours, sent.done)
        sent.result()
        grown_mb = (api.memory_bytes() - before) / 1e6
    found = beside.breaches(options.create_p50_ms)
    if grown_mb > _MOST_MB:
        found.append(f"the API grew by {grown_mb:.0f} MB, more than {_MOST_MB:.0f} MB")
    return f"{_CALLS} calls; the API grew by {grown_mb:.0f} MB; creates {beside}", found


async def _keys(store: Store) -> tuple[str, str]:
    return (await open_account(store, "batches"))[1], (await open_account(store, "neighbour"))[1]


def _send(base_url: str, key: str) -> None:
    with httpx.Client(
        base_url=base_url, headers={"x-api-key": key}, timeout=60, verify=False
    ) as client:
        for _ in range(_CALLS):
            answer = client.post("/schedule/batch", content=_BATCH)
            codes = {each["code"] for each in answer.raise_for_status().json()["schedules"]}
            if codes != {400}:
                raise RuntimeError(f"not all were refused: {codes}")
