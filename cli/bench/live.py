"""A store that others use, as what is measured on: looked at first, watched, and left as it was."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cli.bench.ground import Ground, Most
from cli.options import store_fault
from scheduler.errors import PostdateError, StoreError
from scheduler.settings import Settings, without_password
from scheduler.store import Store, keys
from scheduler.store.operators.system import Server
from scheduler.store.server.connection import connect

# Others wait behind what is on its way: 64 creates are a few milliseconds. What is stored is less
# than this, all rounds together, on whichever server.
_MOST = Most(10_000, 5_000, 64)
_ROOM_BYTES = 128 * 2**20
_FULL_AT = 0.8
_LISTENED_S = 1.0
_LEFT = (
    f"What the bench had in the store may still be there, below {keys.BENCH}, where no worker"
    " looks: who was to remove it could not. The next `postdate bench --live` removes it"
)


class Seen(NamedTuple):
    """The store as it was before: its servers, what of their CPU others had, and a sentence if
    it is in use ("": it is empty)."""

    servers: list[Server]
    background_cores: float
    in_use: str


async def look(settings: Settings) -> Seen:
    """Reads alone, for a second. Raises PostdateError if it cannot be measured."""
    store = Store(connect(settings.redis_url or ""), settings)
    try:
        await store.inspect()
        servers = await store.system.servers()
        refuse_without_room(servers)
        workers = await store.workers.all()
        before, began_s = await store.system.spent(), time.monotonic()
        await asyncio.sleep(_LISTENED_S)
        spent_s = (await store.system.spent()).cpu_s - before.cpu_s
        took_s = time.monotonic() - began_s
        await store.tick()
        alive = [each for each in workers if not each.is_lost(store.clock.now_ms())]
    except StoreError as error:
        raise store_fault(settings, error) from error
    finally:
        await store.aclose()
    shown = without_password(settings.redis_url or "")
    in_use = in_use_by(shown, sum(each.keys for each in servers), len(alive))
    return Seen(servers, spent_s / took_s, in_use)


def in_use_by(shown: str, keys_there: int, workers: int) -> str:
    if not keys_there and not workers:
        return ""
    at_work = ", and workers fire what is due" * bool(workers)
    return (
        f"The store at {shown} is in use: it has {keys_there:,} keys{at_work}. What else uses it"
        " while it is measured, fires too, waits some milliseconds longer"
    )


@asynccontextmanager
async def live_ground(settings: Settings, seen: Seen) -> AsyncIterator[Ground]:
    """The store of these settings, and it stays as it was: the bench lives below a prefix of its
    own there, and a process of its own removes that once all of us have gone.

    From here on this process lives below that prefix. Raises PostdateError.
    """
    ground = Ground(
        settings.redis_url or "",
        _MOST,
        servers=len(seen.servers),
        remote=is_remote(settings.redis_url or ""),
        background_cores=seen.background_cores,
        arguments=["--bench-keys"],
        told={
            "own": False,
            "url": without_password(settings.redis_url or ""),
            "version": seen.servers[0].version,
            "servers": len(seen.servers),
            "prefix": keys.BENCH,
            "backgroundCores": round(seen.background_cores, 3),
        },
    )
    async with _guarded(ground):
        keys.live_below(keys.BENCH)
        try:
            yield ground
        except asyncio.CancelledError:
            if ground.trouble:
                raise PostdateError(ground.trouble) from None
            raise


def refuse_without_room(servers: list[Server]) -> None:
    """Raises PostdateError if one of them would be full by it."""
    for each in servers:
        if each.most_bytes and each.used_bytes + _ROOM_BYTES > _FULL_AT * each.most_bytes:
            raise PostdateError(
                f"The store has {each.used_bytes / 2**20:,.0f} MiB of at most"
                f" {each.most_bytes / 2**20:,.0f}: it is not measured, for that needs"
                f" {_ROOM_BYTES // 2**20} MiB below {100 * _FULL_AT:.0f} %"
            )


def is_remote(url: str) -> bool:
    """Whether any host that the URL names may be another machine than this one."""
    if url.startswith("unix://"):
        return False
    named = urlsplit(url).netloc.rpartition("@")[2].split(",")
    hosts = [urlsplit(f"//{each}").hostname or "localhost" for each in named]
    return not all(host == "localhost" or _is_loopback(host) for host in hosts)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@asynccontextmanager
async def _guarded(ground: Ground) -> AsyncIterator[None]:
    """With a warden at the store, to whom our life, and that of whoever has `pass_fds`, is tied."""
    theirs, ours = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "cli.bench.warden", str(theirs)),
            env={**os.environ, "POSTDATE_REDIS_URL": ground.redis_url},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(theirs,),
            start_new_session=True,
        )
    finally:
        os.close(theirs)
    ground.pass_fds = (ours,)
    listening = None
    try:
        began = await _heard(process)
        if not began.get("began"):
            raise PostdateError(began.get("refused", "The bench's warden ended by itself."))
        ground.told["leftOver"] = began["leftOver"]
        listening = asyncio.create_task(_listen(process, ground, asyncio.current_task()))
        yield
    finally:
        os.close(ours)
        if listening is not None:
            await listening
        await process.wait()
    if ground.told.get("removed") is None:
        raise PostdateError(_LEFT)


async def _listen(
    process: asyncio.subprocess.Process, ground: Ground, measuring: asyncio.Task[Any] | None
) -> None:
    """Until his last words, which are told. If the store becomes slow, or he is lost, `measuring`
    is cancelled, and `trouble` says why."""
    while True:
        said = await _heard(process)
        if "removed" in said:
            ground.told |= said
            return
        if not ground.trouble and measuring is not None:
            ground.trouble = said.get("slow", _LEFT)
            measuring.cancel()
        if not said:
            return


async def _heard(process: asyncio.subprocess.Process) -> dict[str, Any]:
    """{} once he has ended."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    return dict(json.loads(line)) if line else {}
