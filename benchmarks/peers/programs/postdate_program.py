"""Postdate: `add` stores what shall be fired, over the HTTP API. Its worker is `postdate worker`.

Singles go out on as many kept connections as the peers have lanes, batches of 1,000 on one for each
that is under way. The client is a small one of ours: it must not limit the measurement.
"""

from __future__ import annotations

import asyncio
import functools
import json
import time
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

import httptools
import plan as plans
import uvloop

_JSON = "application/json"


class Connection(asyncio.Protocol):
    """A kept connection that does one exchange at a time."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._parser = httptools.HttpResponseParser(self)
        self._over: asyncio.Future[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._body = b""

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() >= 300 or b'"code":' in self._body:
            self._over.set_exception(RuntimeError(self._body.decode()[:300]))
        else:
            self._over.set_result(None)

    async def post(self, path: bytes, body: bytes) -> None:
        """Returns once the answer is whole; raises if anything was refused."""
        self._over = asyncio.get_running_loop().create_future()
        length = b"%d\r\n\r\n" % len(body)
        self._transport.write(b"POST " + path + self._head + length + body)
        await self._over


def maker(plan: plans.Plan) -> Callable[[int], bytes]:
    """Makes the schedule of each number. What many have in common is made once, as in a client
    that knows its own requests."""
    rest = f',"targetHeaders":{json.dumps(plan.headers)},"targetBody":{plan.body}}}'

    @functools.lru_cache
    def at(due_ms: int) -> str:
        due_s, ms = divmod(due_ms, 1000)
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(due_s)) + f".{ms:03}Z"

    def schedule(number: int) -> bytes:
        url = json.dumps(plan.url_of(number))
        return f'{{"targetUrl":{url},"triggerAt":"{at(plan.due_at_ms(number))}"{rest}'.encode()

    return schedule


async def connect(plan: plans.Plan, count: int) -> list[Connection]:
    loop, api = asyncio.get_running_loop(), urlsplit(plan.api)
    head = f" HTTP/1.1\r\nHost: {api.netloc}\r\nx-api-key: {plan.key}\r\n"
    whole = f"{head}Content-Type: {_JSON}\r\nContent-Length: ".encode()
    made = [
        await loop.create_connection(lambda: Connection(whole), api.hostname, api.port)
        for _ in range(count)
    ]
    return [connection for _, connection in made]


async def add(plan: plans.Plan) -> None:
    schedule = maker(plan)
    idle = await connect(plan, plan.batches if plan.bulk else plan.lanes)

    async def post(path: bytes, body: bytes) -> None:
        connection = idle.pop()
        await connection.post(path, body)
        idle.append(connection)

    async def one(number: int) -> None:
        await post(b"/schedule", schedule(number))

    async def batch(numbers: range) -> None:
        joined = b",".join(schedule(number) for number in numbers)
        await post(b"/schedule/batch", b'{"schedules":[' + joined + b"]}")

    await (plans.add_batches(plan, batch) if plan.bulk else plans.add_all(plan, one))


if __name__ == "__main__":
    uvloop.run(add(plans.read()[1]))
