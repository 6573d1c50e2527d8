"""No outcome leaves anything to the garbage collector, which may take long to find it.

By hand, ten thousand of each kind, in an hour:
    FIRES_EACH=10000 .venv/bin/python -m pytest -s --timeout 7200 tests/worker/test_rings.py
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from scheduler.models import Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.store.log.logs import LogQuery
from tests.attack.names import NameServer
from tests.support.inside import inside
from tests.support.processes import PostdateProcess
from tests.support.valkey import ValkeyProcess
from tests.support.waiting import until_async
from tests.worker.send.outcomes import LIMIT_MS, MAX_RESPONSE_BYTES, Kind, kinds, targets

EACH = int(os.environ.get("FIRES_EACH", "24"))
_FEW, _PAGE = 24, 1000
_MOST_MB = 40
_NUMBERS = itertools.count()


class Watched(NamedTuple):
    """A worker that collects no garbage, and the store and the targets that it works on."""

    store: Store
    worker: PostdateProcess
    ports: dict[str, int]

    async def fire(self, kind: Kind, count: int) -> None:
        """Until so many of a kind ended as they should: on a busy machine some time out, so that
        each round fires the missing ones, more slowly."""
        every_ms = 3
        for _ in range(8 + count // _PAGE):
            lot = min(count, _PAGE)
            ended = await self._fire(kind, lot, every_ms)
            count -= ended[kind.ended]
            if not count:
                return
            if ended[kind.ended] < lot:
                every_ms *= 2
        raise AssertionError((kind.name, ended))

    async def _fire(self, kind: Kind, count: int, every_ms: int) -> Counter[int | str | None]:
        """How so many of a kind ended."""
        name, store = f"{kind.name}, {next(_NUMBERS)}", self.store
        account = await store.accounts.create(name, credits=1_000_000, plan=Plan.UNLIMITED)
        account_id = account.account_id
        due_ms = round(time.time() * 1000) + 500
        port = self.ports[kind.name]
        requests = [kind.request(n, port, due_ms + every_ms * n) for n in range(count)]
        for first in range(0, count, 100):
            await store.schedules.create_all(account_id, requests[first : first + 100])

        async def all_ended() -> bool:
            usage = await store.stats.usage(account_id, 0, due_ms + 86_400_000)
            return usage.executed == count

        await until_async(all_ended, kind.name, deadline_s=60 + count / 10)
        page = await store.logs.page(account_id, LogQuery(limit=count))
        brief = (each.status_code or each.error_message.partition(": ")[0] for each in page.entries)
        return Counter(brief)


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
        monkeypatch.setenv("TEST_NAMES", stack.enter_context(NameServer()).server)
        ports = await targets(every, stack)
        worker = PostdateProcess(
            "worker",
            module="tests.isolation.probed",
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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: all of 127.0.0.0/8, and /proc")
async def test_no_outcome_leaves_anything_to_the_garbage_collector(
    watched: Watched, every: list[Kind]
) -> None:
    pid = watched.worker.pid
    await asyncio.to_thread(inside, pid)
    await asyncio.gather(*(watched.fire(kind, _FEW) for kind in every))
    found = await asyncio.to_thread(inside, pid)
    assert {name: count for name, count in found.uncollected.items() if count >= _FEW} == {}
    assert found.mapped > 50  # though buffers of TLS connections have been freed
    for kind in every if EACH > _FEW else ():
        await watched.fire(kind, min(EACH, _PAGE))  # fires in flight have their memory by then
        before_mb = watched.worker.memory_bytes() / 1e6
        await watched.fire(kind, EACH)
        grown_mb = watched.worker.memory_bytes() / 1e6 - before_mb
        sys.stdout.write(f"{kind.name}: {before_mb:.0f} MB and {grown_mb:.1f}\n")
        assert grown_mb < _MOST_MB, kind.name
