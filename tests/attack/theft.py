"""One account's target answers before it has read a body, and takes the body for the next request:
do a neighbour's requests to the same origin, or their answers, reach somebody else?"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
from contextlib import AsyncExitStack
from typing import NamedTuple

from scheduler.models import Request
from scheduler.settings import Settings
from scheduler.store import Store
from tests.attack.accounts import all_ended, open_account, schedule_all
from tests.processes import PostdateProcess
from tests.waiting import until_async
from tests.worker.scripted import Line, answer, playing

# Connections are kept and used again; or there are two, and accounts wait in line for them.
_MOST_CONNECTIONS = (256, 2)
# The neighbour's, beside twice as many attacks: at one moment, for a line to form.
_BURST, _EVERY_MS = 10, 200
_LEAD_MS = 2000
# The first swallows the request that comes next, the second one is answered in its stead.
_BODIES = (b"POST /of-the-attacker HTTP/1.1\r\nX-Rest: ", b"GET /of-the-attacker HTTP/1.1\r\n\r\n")
_OWN = re.compile(
    rb"GET /own/(\d+) HTTP/1\.1\r\n.*^Authorization: secret-\1\r\n", re.S | re.M | re.I
)


class Found(NamedTuple):
    """Of the neighbour's requests: how many had another answer than theirs, how many did not come
    whole, and how many others had a header of one."""

    answers: int
    missing: int
    stolen: int


def flood(redis_url: str, options: argparse.Namespace) -> tuple[str, list[str]]:
    """What came of it, and what of that should not. The store is empty, and afterwards not."""
    count = round(options.seconds * 1000 / _EVERY_MS * _BURST / len(_MOST_CONNECTIONS))
    told, breaches = [], []
    for most in _MOST_CONNECTIONS:
        found = asyncio.run(_beside(redis_url, count, most))
        told.append(f"{count} beside {2 * count} attacks over {most} connections at most: {found}")
        breaches += [told[-1]] if any(found) else []
    return "; ".join(told), breaches


async def _beside(redis_url: str, count: int, most_connections: int) -> Found:
    worker = PostdateProcess(
        "worker",
        redis_url=redis_url,
        allow_targets="127.0.0.0/8",
        max_connections_per_origin=most_connections,
    )
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(playing(_hasty))
        store = await Store.open(Settings(redis_url=redis_url))
        stack.push_async_callback(store.aclose)
        stack.push_async_callback(asyncio.to_thread, worker.remove)
        await asyncio.to_thread(worker.start)
        theirs, _ = await open_account(store, f"theft of {most_connections}")
        ours, _ = await open_account(store, f"neighbour of {most_connections}")
        from_ms = round(time.time() * 1000) + _LEAD_MS
        url = target.url("")
        await schedule_all(store, theirs, [_attack(url, n, from_ms) for n in range(2 * count)])
        await schedule_all(store, ours, [_own(url, n, from_ms) for n in range(count)])

        async def have_ended() -> bool:
            return len(await all_ended(store, ours)) == count

        await until_async(have_ended, "the neighbour's requests", deadline_s=60 + count / 10)
        answered = sum(each.status_code == 200 for each in await all_ended(store, ours))
        whole = {found[1] for each in target.requests if (found := _OWN.match(each))}
        strays = [each for each in target.requests if not _OWN.match(each)]
        stolen = sum(b"secret-" in each for each in strays)
        return Found(count - answered, count - len(whole), stolen)


async def _hasty(line: Line) -> None:
    """Answers each head, and never reads a body as one. The answer to a whole request that came in
    a body is late: it comes when there is more to read."""
    while True:
        head = await line.reader.readuntil(b"\r\n\r\n")
        line.target.requests.append(head)
        if head.startswith(b"GET /of-the-attacker "):
            line.target.requests.append(await line.reader.readuntil(b"\r\n\r\n"))
            await line.say(answer(b"", "410 Gone"))
        else:
            await line.say(
                answer(b"", "200 OK" if head.startswith(b"GET /own") else "202 Accepted")
            )


def _attack(url: str, number: int, from_ms: int) -> Request:
    at_ms = from_ms + number // (2 * _BURST) * _EVERY_MS
    return Request(at_ms, "GET", f"{url}/attack/{number}", body=_BODIES[number % 2])


def _own(url: str, number: int, from_ms: int) -> Request:
    at_ms = from_ms + number // _BURST * _EVERY_MS
    secret = {"Authorization": f"secret-{number}"}
    return Request(at_ms, "GET", f"{url}/own/{number}", secret)
