"""Clients before and after a fork, as a program of its own: `python -m tests.client.forking
blocking URL...` asks each URL in the parent, in its child, and in the parent again."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from postdate import AsyncPostdate, Buffer, Postdate
from tests.client.both import BASE_URL, CREATED, KEY

OPTIONS: dict[str, Any] = {"timeout": 5, "retry_for": 0}


def forked(child: Callable[[], object]) -> None:
    """Returns once the child is through."""
    pid = os.fork()
    if pid == 0:
        child()
        sys.stdout.flush()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0


def blocking(*urls: str) -> None:
    for url in urls:
        client = Postdate(url, KEY, **OPTIONS)
        client.credits()
        forked(client.credits)
        client.credits()
        client.close()
        forked(lambda client=client: print_error(client))


def awaiting(*urls: str) -> None:
    for url in urls:
        client = AsyncPostdate(url, KEY, **OPTIONS)
        with asyncio.Runner() as runner:
            runner.run(client.credits())
            forked(lambda client=client: asyncio.run(client.credits()))
            runner.run(client.credits())
            runner.run(client.aclose())


def given(url: str) -> None:
    with httpx.Client() as http:
        client = Postdate(url, KEY, http=http, **OPTIONS)
        client.credits()
        forked(lambda: print_error(client))
        client.credits()


def print_error(client: Postdate) -> None:
    try:
        client.credits()
    except RuntimeError as error:
        sys.stdout.write(f"{error}\n")


class Recording(AsyncPostdate):
    """Sends nothing. `sent` has the URLs of each batch, which is answered when the gate opens."""

    def __init__(self) -> None:
        super().__init__(BASE_URL, KEY)
        self.sent: list[list[str]] = []
        self.gate = asyncio.Event()

    async def _send(self, request: httpx.Request, _: Callable[[], None]) -> httpx.Response:
        items = json.loads(request.content)["schedules"]
        self.sent.append([item["targetUrl"] for item in items])
        await self.gate.wait()
        return httpx.Response(200, json={"schedules": [CREATED for _ in items]})


def buffered() -> None:
    """One batch is on its way and two wait when the child comes, which goes on on the event loop of
    its parent, and then on its own. Each process prints what it sends from then on."""
    client = Recording()
    buffer = Buffer(client, linger=60, batch_size=1, in_flight=1)
    creating: list[Awaitable[object]] = []

    async def create(*names: str) -> None:
        creating.extend(asyncio.create_task(buffer.schedule(name, in_=1)) for name in names)
        while not client.sent:
            await asyncio.sleep(0)

    async def answer_the_first() -> None:
        client.gate.set()
        await creating[0]
        await asyncio.sleep(0)

    async def create_another() -> None:
        await buffer.schedule("child", in_=1)
        await buffer.aclose()

    async def finish() -> None:
        client.gate.set()
        await buffer.aclose()
        await asyncio.gather(*creating)

    def child() -> None:
        client.sent.clear()
        runner.run(answer_the_first())
        asyncio.run(create_another())
        sys.stdout.write(f"{client.sent}\n")

    with asyncio.Runner() as runner:
        runner.run(create("a", "b", "c"))
        forked(child)
        client.sent.clear()
        runner.run(finish())
        sys.stdout.write(f"{client.sent}\n")


if __name__ == "__main__":
    scenarios = {each.__name__: each for each in (blocking, awaiting, given, buffered)}
    scenarios[sys.argv[1]](*sys.argv[2:])  # type: ignore[operator]
