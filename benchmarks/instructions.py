"""How many instructions does one fire take a worker, one create the API? Steady where CPU time is
noise.

    python -m benchmarks.instructions [fire create item publish] [--count 20000] [--rounds 3]

A process runs below Valgrind, whose cachegrind counts what it executes in user space, and works
twice in each round: a little, and `count` more. The difference is of the work alone. `fire` is of a
worker, the others of an API process: creates one by one on 50 connections, a URL each, items of
batches of 1,000, and messages of a QStash client, as the creates. The rounds differ by some 2 %.
Needs `valgrind`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import uvloop

from benchmarks.fire import one_round
from benchmarks.support import stage
from benchmarks.support.payload import BODY, HEADERS, new_account
from benchmarks.support.rounds import warn_of_noise
from scheduler.durations import DAY_MS
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.times import format_iso8601

_WARM, _CONNECTIONS, _BATCH = 2000, 50, 1000


def _fires(count: int, below: Sequence[str]) -> None:
    with (
        stage.valkey() as server,
        stage.target() as target,
        stage.worker(server.url, below=below) as worker,
    ):
        uvloop.run(one_round(target.url, count, "fires", server, [worker]))


def _creates(count: int, below: Sequence[str]) -> None:
    _load(b"/schedule", [_item(n) for n in range(count)], _CONNECTIONS, below)


def _items(count: int, below: Sequence[str]) -> None:
    starts = range(0, count, _BATCH)
    each = [b",".join(map(_item, range(start, start + _BATCH))) for start in starts]
    _load(b"/schedule/batch", [b'{"schedules":[%b]}' % items for items in each], 1, below)


def _item(number: int) -> bytes:
    due = format_iso8601(int(time.time() * 1000) + 30 * DAY_MS)
    what = {"targetUrl": f"https://example.com/orders/{number}", "triggerAt": due}
    return json.dumps(what | {"targetHeaders": HEADERS, "targetBody": json.loads(BODY)}).encode()


def _publishes(count: int, below: Sequence[str]) -> None:
    forwarded = "".join(f"Upstash-Forward-{name}: {text}\r\n" for name, text in HEADERS.items())
    head = b"Content-Type: application/json\r\nUpstash-Delay: 30d\r\n" + forwarded.encode()
    url = "/qstash/v2/publish/https://example.com/orders/{}"
    lines = [url.format(number).encode() for number in range(count)]
    _ask([(line, head, BODY) for line in lines], _CONNECTIONS, below)


def _load(path: bytes, bodies: list[bytes], connections: int, below: Sequence[str]) -> None:
    _ask([(path, b"", body) for body in bodies], connections, below)


def _ask(
    requests: list[tuple[bytes, bytes, bytes]], connections: int, below: Sequence[str]
) -> None:
    """Of each its path, further lines of its head, and its body."""
    with stage.valkey() as server:
        key = uvloop.run(_key(server.url)).encode()
        form = b"POST %b HTTP/1.1\r\nHost: api\r\nx-api-key: %b\r\n%bContent-Length: %d\r\n\r\n%b"
        left = iter([form % (path, key, more, len(b), b) for path, more, b in requests])
        door = "on" if requests[0][0].startswith(b"/qstash/") else "off"
        with stage.api(server.url, below=below, allow_targets="127.0.0.0/8", qstash=door) as api:
            uvloop.run(_ask_all(api.url, left, min(connections, len(requests))))


async def _key(redis_url: str) -> str:
    store = await Store.open(Settings(redis_url=redis_url))
    try:
        account = await new_account(store, "load")
        return (await store.api_keys.create(account.account_id, "load"))[1]
    finally:
        await store.aclose()


class _Client(asyncio.Protocol):
    """A connection that sends the next request when an answer has come whole."""

    def __init__(self, left: Iterator[bytes]) -> None:
        self._left, self._answer = left, b""
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, _, body = self._answer.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if length is not None and len(body) == int(length[1]):
            if not head.startswith(b"HTTP/1.1 20"):
                self.over.set_exception(RuntimeError(self._answer.decode()))
                return
            self._answer = b""
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.over.done():
            self.over.set_exception(error or ConnectionError(f"Lost after {self._answer!r}"))

    def _send(self) -> None:
        request = next(self._left, None)
        if request is None:
            self.over.set_result(None)
        else:
            self._transport.write(request)


async def _ask_all(url: str, left: Iterator[bytes], connections: int) -> None:
    loop, host, port = asyncio.get_running_loop(), *urlsplit(url).netloc.split(":")
    made = [
        await loop.create_connection(lambda: _Client(left), host, int(port))
        for _ in range(connections)
    ]
    await asyncio.gather(*(client.over for _, client in made))


_WORK = {"fire": _fires, "create": _creates, "item": _items, "publish": _publishes}


def instructions(work: Callable[[int, Sequence[str]], None], count: int) -> int:
    """What a process executes from its start, through so much work, to its end."""
    with tempfile.TemporaryDirectory() as home:
        report = Path(home) / "report"
        counting = ("--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
        work(count, ["valgrind", *counting, f"--log-file={report}"])
        counted = re.search(r"I\s+refs:\s+([\d,]+)", report.read_text())
        assert counted, report.read_text()
        return int(counted[1].replace(",", ""))


def main() -> None:
    options = argparse.ArgumentParser(description="Counts the instructions of fires and creates.")
    options.add_argument("work", nargs="*", choices=[*_WORK, []], help="by default all")
    options.add_argument("--count", type=int, default=20_000)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("There is no `valgrind` on this machine.")
    for name in chosen.work or _WORK:
        work, rounds = _WORK[name], []
        for number in range(chosen.rounds):
            more = instructions(work, _WARM + chosen.count) - instructions(work, _WARM)
            rounds.append(more / chosen.count)
            print(f"round {number + 1}  {rounds[-1]:9,.0f} instructions a {name}", flush=True)
        print(f"median   {statistics.median(rounds):9,.0f} instructions a {name}")
        warn_of_noise([{"instructions": each} for each in rounds])


if __name__ == "__main__":
    main()
