"""No outcome leaves anything to the garbage collector, which may take long to find it.

By hand, ten thousand of each kind, in an hour:
    FIRES_EACH=10000 .venv/bin/python -m pytest -s --timeout 7200 tests/worker/test_rings.py
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from scheduler.models import Plan
from scheduler.settings import Settings
from scheduler.store import Store
from scheduler.store.log.logs import LogQuery
from tests.attack.names import NameServer
from tests.processes import PostdateProcess
from tests.valkey import ValkeyProcess
from tests.waiting import until_async
from tests.worker.outcomes import LIMIT_MS, MAX_RESPONSE_BYTES, Kind, kinds, targets

EACH = int(os.environ.get("FIRES_EACH", "24"))
_FEW = 24
_MOST_MB = 40
_LEAD_MS = 500
_EVERY_MS = 3
_ROUNDS = 8
_PAGE = 1000
_NUMBERS = itertools.count()
_RINGS = re.compile(r"^rings (.*)$", re.MULTILINE)
_MAPPED = re.compile(r"^mapped (.*)$", re.MULTILINE)


class Watched:
    """A worker that collects no garbage, and the targets and the store that it works on."""

    def __init__(self, store: Store, worker: PostdateProcess, ports: dict[str, int]) -> None:
        self._store = store
        self._worker = worker
        self._ports = ports

    @property
    def memory_mb(self) -> float:
        return self._worker.memory_bytes() / 1e6

    async def fire(self, kind: Kind, count: int) -> None:
        """Until so many of a kind ended as they should: on a busy machine some time out, so that
        each round fires the missing ones, more slowly."""
        every_ms = _EVERY_MS
        for _ in range(_ROUNDS + count // _PAGE):
            lot = min(count, _PAGE)
            ended = await self._fire(kind, lot, every_ms)
            good = sum(map(ended.__getitem__, kind.ends))
            count -= good
            if not count:
                return
            if good < lot:
                every_ms *= 2
        raise AssertionError((kind.name, ended))

    async def _fire(self, kind: Kind, count: int, every_ms: int) -> Counter[int | str | None]:
        """How so many of a kind ended."""
        account = await self._store.accounts.create(
            f"{kind.name}, {next(_NUMBERS)}", credits=1_000_000, plan=Plan.UNLIMITED
        )
        account_id = account.account_id
        due_ms = round(time.time() * 1000) + _LEAD_MS
        port = self._ports[kind.name]
        requests = [kind.request(n, port, due_ms + every_ms * n) for n in range(count)]
        for first in range(0, count, 100):
            await self._store.schedules.create_all(account_id, requests[first : first + 100])

        async def all_ended() -> bool:
            usage = await self._store.stats.usage(account_id, 0, due_ms + 86_400_000)
            return usage.executed == count

        await until_async(all_ended, kind.name, deadline_s=60 + count / 10)
        page = await self._store.logs.page(account_id, LogQuery(limit=count))
        return Counter(each.status_code or each.error_message for each in page.entries)

    @property
    def maps_large_blocks(self) -> bool:
        """Whether malloc returns them when they are freed, at the time of the last `rings`."""
        mapped = json.loads(_MAPPED.findall(self._worker.stderr)[-1])
        return mapped is None or mapped > 50

    async def rings(self) -> Counter[str]:
        """What the collector would have freed since the last time, by type."""
        told = len(_RINGS.findall(self._worker.stderr))
        self._worker.signal(signal.SIGUSR1)
        await until_async(lambda: len(_RINGS.findall(self._worker.stderr)) > told)
        return Counter(json.loads(_RINGS.findall(self._worker.stderr)[-1]))


@pytest.fixture
def every(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Kind]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    return kinds(authority)


@pytest.fixture
async def watched(
    valkey: ValkeyProcess, every: list[Kind], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Watched]:
    async with contextlib.AsyncExitStack() as stack:
        monkeypatch.setenv("ATTACK_NAMES", stack.enter_context(NameServer()).server)
        ports = await targets(every, stack)
        worker = PostdateProcess(
            "worker",
            module="tests.worker.uncollected",
            redis_url=valkey.url,
            allow_targets="127.0.0.0/8",
            fire_timeout_ms=LIMIT_MS,
            max_response_bytes=MAX_RESPONSE_BYTES,
        )
        stack.push_async_callback(asyncio.to_thread, worker.remove)
        await asyncio.to_thread(worker.start)
        store = await Store.open(Settings(redis_url=valkey.url))
        stack.push_async_callback(store.aclose)
        yield Watched(store, worker, ports)


@pytest.mark.skipif(sys.platform != "linux", reason="all of 127.0.0.0/8 is needed, and /proc")
async def test_no_outcome_leaves_anything_to_the_garbage_collector(
    watched: Watched, every: list[Kind]
) -> None:
    await asyncio.gather(*(watched.fire(kind, _FEW) for kind in every))
    rings = await watched.rings()
    assert {name: count for name, count in rings.items() if count >= _FEW} == {}
    assert watched.maps_large_blocks  # though buffers of TLS connections have been freed
    for kind in every if EACH > _FEW else ():
        await watched.fire(kind, EACH // 10)  # fires in flight have their memory by then
        before_mb = watched.memory_mb
        await watched.fire(kind, EACH)
        grown_mb = watched.memory_mb - before_mb
        sys.stdout.write(f"{kind.name}: {before_mb:.0f} MB and {grown_mb:.1f}\n")
        assert grown_mb < _MOST_MB, (kind.name, await watched.rings())
