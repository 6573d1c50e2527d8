"""What the heavy calls of one account do to a neighbour's creates: latency in quiet and beside.

    python -m benchmarks.neighbour [--rounds 1] [--seconds 4] [--rate 200] [--connections 8]
                                   [--plan pro] [--only batch search]

Starts a Valkey of its own and one API process. A neighbour posts schedules at a steady rate; each
of its latencies counts from the moment at which the request was to be sent. In turn with quiet
stretches, another process makes one kind of heavy call on `--connections` connections of one
account, each the next when the last was answered, and after a 429 when Retry-After has passed. The
last column is the neighbour's p99 beside the calls, divided by its p99 in quiet before them.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import msgspec
import uvloop

from benchmarks.dashboard import past
from benchmarks.support import stage
from benchmarks.support.good_client import Connection, GoodClient, Stretch, good_key
from benchmarks.support.history import fill
from benchmarks.support.payload import fail_all
from scheduler.ids import new_api_key
from scheduler.models import Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.times import format_iso8601

TARGET_RATIO = 3.0
_ITEMS, _LOGGED, _LARGE_BYTES = 1000, 20_000, 16 * 1024 * 1024 - 4096
_DAY_MS = 86_400_000
_REPLAY, _DEAD_LETTERS = "replay by filter", 100_000  # more than a stretch replays
_ENDS_S = 0.5  # for calls under way to end
_URL = "https://api.example.com/hooks/0007"  # `past` has it
_ITEM = {
    "targetUrl": "https://example.com/webhooks/orders",
    "targetHeaders": {"X-Order": "ord_8412"},
    "targetBody": {"order": "ord_8412", "action": "remind"},
}


class Caller(NamedTuple):
    """The account of the heavy calls: its key, its session at this host's dashboard, schedules that
    wait, and schedules that were cancelled."""

    account_id: str
    key: str
    host: str
    cookie: str
    waiting: Sequence[str]
    cancelled: Sequence[str]


class Measured(NamedTuple):
    quiet: Stretch
    beside: Stretch
    answers: Counter[str]

    @property
    def ratio(self) -> float:
        return self.beside.percentiles()[1] / self.quiet.percentiles()[1]


def calls_of(caller: Caller, now_ms: int) -> Iterator[tuple[str, list[bytes]]]:
    """Each kind of call, and the requests that a connection makes in turn."""
    due = format_iso8601(now_ms + 30 * _DAY_MS)
    referred = [_ITEM | {"triggerAt": due, "reference": f"order-{n}"} for n in range(_ITEMS)]

    def batch(items: Sequence[dict[str, Any]], **more: object) -> bytes:
        return post("/schedule/batch", {"schedules": [each | more for each in items]})

    def post(path: str, content: object, key: str = caller.key) -> bytes:
        body = content if isinstance(content, bytes) else msgspec.json.encode(content)
        return request_of("POST", path, body, ("x-api-key", key))

    def get(path: str) -> bytes:
        return request_of("GET", path, b"", ("x-api-key", caller.key))

    def page(path: str) -> bytes:
        return request_of("GET", f"/dashboard{path}", b"", ("cookie", caller.cookie), caller.host)

    plain = [_ITEM | {"triggerAt": due}] * _ITEMS
    waiting = {"status": "scheduled", "lane": "to-cancel"}
    large = _ITEM | {"triggerAt": due, "targetBody": {"rows": [{"id": n} for n in range(15_000)]}}
    size_bytes = len(msgspec.json.encode(large))
    larges = [large] * (_LARGE_BYTES // size_bytes)
    broken = msgspec.json.encode({"schedules": larges})[:-2]
    yield "batch", [batch(plain)]
    yield "batch, keep", [batch(referred, onExisting="keep")]
    yield "batch, replace", [batch(referred, onExisting="replace")]
    yield "batch, replace, maxWait", [batch(referred, onExisting="replace", maxWait="1h")]
    yield "batch, expiresAt", [batch(plain, expiresAt=format_iso8601(now_ms + 60 * _DAY_MS))]
    yield "batch, text bodies", [batch(plain, targetBody=None, targetBodyText="due")]
    yield "batch, one fault each", [batch(plain, retries=99)]
    yield "batch, unknown fields", [batch(plain, **{f"field{n}": n for n in range(9)})]
    yield "batch of 16 MiB", [post("/schedule/batch", {"schedules": larges})]
    yield "batch of 16 MiB, no JSON", [post("/schedule/batch", broken)]
    yield "batch of 16 MiB, bad key", [post("/schedule/batch", broken, new_api_key(0))]
    yield (
        "batch, then cancel by filter",
        [
            batch(plain, lane="to-cancel"),
            post("/schedule/cancel", waiting),
        ],
    )
    yield "cancel by ids, again", [post("/schedule/cancel", {"ids": caller.cancelled})]
    yield "replay by ids, none ended", [post("/schedule/replay", {"ids": caller.waiting})]
    yield "replay by filter, none failed", [post("/schedule/replay", {"status": "failed"})]
    yield _REPLAY, [post("/schedule/replay", {"status": "failed"})]
    yield "search", [get("/schedule?targetUrl=https://nothing.example/")]
    yield "page of schedules", [get("/schedule?limit=100")]
    yield "log page", [get("/stats/logs?limit=100")]
    yield "log of a URL", [get(f"/stats/logs?limit=100&targetUrl={_URL}")]
    yield "statistics, 30 days", [get("/stats")]
    yield "preview", [get("/recurring/preview?cron=*/5+9-17+*+*+MON-FRI&timeZone=Europe/Berlin")]
    yield "preview, rare", [get("/recurring/preview?cron=0+0+29+2+MON&timeZone=Europe/Berlin")]
    yield "OpenAPI document", [get("/schema/openapi.json")]
    yield "dashboard, overview", [page("?range=30d")]
    yield "dashboard, requests", [page("/requests")]
    yield "dashboard, search", [page("/requests?q=nothing-like-it")]
    for name, each in _door_calls(caller):
        yield f"door: {name}", [each]


def _door_calls(caller: Caller) -> Iterator[tuple[str, bytes]]:
    """Those of a client of QStash; the numbers of headers are the most that a message may have."""

    def call(method: str, path: str, content: object = None, **headers: str) -> bytes:
        body = b"" if content is None else msgspec.json.encode(content)
        named = [f"upstash-{name.replace('_', '-')}: {text}\r\n" for name, text in headers.items()]
        request = request_of(method, f"/qstash/v2/{path}", body, ("x-api-key", caller.key))
        return request.replace(b"\r\n", b"\r\n" + "".join(named).encode(), 1)

    long_sum = "1000" + "+1" * 126
    item = {"destination": _URL, "body": "{}", "headers": {"upstash-delay": "30d"}}
    once = [{**item, "headers": {"upstash-deduplication-id": f"{n}"}} for n in range(_ITEMS)]
    keys = [{**item, "headers": {"upstash-flow-control-key": f"k{n}"}} for n in range(_ITEMS)]
    worst = {f"upstash-forward-x{n}": "x" * 100 for n in range(60)}
    worst |= {"upstash-delay": "30d", "upstash-retries": "20", "upstash-retry-delay": long_sum}
    yield "publish", call("POST", f"publish/{_URL}", {}, delay="30d")
    slow = {"retries": "20", "retry_delay": long_sum, "delay": "30d"}
    yield "publish, slow waits", call("POST", f"publish/{_URL}", {}, **slow)
    yield "batch", call("POST", "batch", [item] * _ITEMS)
    yield "batch, deduplicated", call("POST", "batch", once)
    yield "batch, a key each", call("POST", "batch", keys)
    yield "batch, worst headers", call("POST", "batch", [{**item, "headers": worst}] * _ITEMS)
    yield "events", call("GET", "events?count=1000")
    yield "events, no such label", call("GET", "events?count=1000&label=none")
    yield "messages, cancel none", call("DELETE", "messages?label=none")
    ids = [each.removeprefix("sch_") for each in caller.waiting]
    yield "dlq by ids", call("DELETE", "dlq", {"dlqIds": ids})
    yield "dlq", call("GET", "dlq?label=none")
    yield "schedules", call("GET", "schedules")
    yield "queues", call("GET", "queues")


def request_of(
    method: str, path: str, body: bytes, header: tuple[str, str], host: str = "localhost"
) -> bytes:
    name, value = header
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{name}: {value}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def prepare(redis_url: str, api_url: str, plan: Plan) -> Caller:
    """An account with a log, and with schedules that wait and that were cancelled."""
    store = await Store.open(Settings(redis_url=redis_url))
    try:
        account_id = (await store.accounts.create("heavy", credits=10**9, plan=plan)).account_id
        await fill(store, account_id, past(_LOGGED, store.clock.now_ms()))
        key = (await store.api_keys.create(account_id, "heavy"))[1]
        link = await store.sessions.make_link(account_id)
    finally:
        await store.aclose()
    due = format_iso8601(store.clock.now_ms() + 30 * _DAY_MS)
    batch = {"schedules": [_ITEM | {"triggerAt": due}] * _ITEMS}
    async with httpx.AsyncClient(base_url=api_url, headers={"x-api-key": key}) as client:
        names = []
        for _ in range(4):
            answer = await client.post("/schedule/batch", json=batch)
            names.append([each["scheduleId"] for each in answer.json()["schedules"]])
        await client.post("/schedule/cancel", json={"ids": names[0]})
        answer = await client.post(f"/dashboard/link/{link}", headers={"origin": api_url})
    assert answer.status_code == 303, answer.text
    cookie = answer.headers["set-cookie"].partition(";")[0]
    return Caller(account_id, key, urlsplit(api_url).netloc, cookie, names[1], names[0])


async def fail_for(caller: Caller, redis_url: str) -> None:
    store = await Store.open(Settings(redis_url=redis_url))
    await fail_all(store, caller.account_id, _URL, _DEAD_LETTERS)
    await store.aclose()


class Load:
    """A process that makes the heavy calls, so that it shares no loop with the neighbour."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, requests: Sequence[bytes], connections: int, url: str) -> Load:
        pipe = asyncio.subprocess.PIPE
        with tempfile.NamedTemporaryFile(prefix="pd-bench-") as file:
            Path(file.name).write_bytes(msgspec.msgpack.encode(requests))
            command = ["benchmarks.neighbour", "--load", url, "--requests", file.name]
            command += ["--connections", str(connections)]
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", *command, stdin=pipe, stdout=pipe
            )
            assert process.stdout is not None
            await process.stdout.readline()
        return cls(process)

    async def stop(self) -> Counter[str]:
        """How often each status was answered."""
        out, _ = await self._process.communicate(b"stop\n")
        return Counter(msgspec.json.decode(out, type=dict[str, int]))


async def make_calls(options: argparse.Namespace) -> None:
    """On all connections, until a line comes."""
    os.nice(19)  # its processor time is not the service's
    requests = msgspec.msgpack.decode(Path(options.requests).read_bytes(), type=list[bytes])
    answers = Counter[str]()
    print("ready", flush=True)
    tasks = [
        asyncio.create_task(_calls(options.load, requests, answers))
        for _ in range(options.connections)
    ]
    await asyncio.to_thread(sys.stdin.readline)
    for each in tasks:
        each.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    if broken := [each for each in ended if not isinstance(each, asyncio.CancelledError)]:
        answers[repr(broken[0])] += 1
    print(msgspec.json.encode(answers).decode())


async def _calls(url: str, requests: Sequence[bytes], answers: Counter[str]) -> None:
    connection: Connection | None = None
    for request in itertools.cycle(requests):
        connection = connection or await Connection.open(url)
        head = (await connection.exchange(request)).lower()
        status = head[9:12].decode()
        answers[status] += 1
        if b"connection: close" in head:
            connection.close()
            connection = None
        if status == "429":
            wait_s = head.partition(b"retry-after: ")[2].partition(b"\r\n")[0]
            await asyncio.sleep(int(wait_s))


async def measure(options: argparse.Namespace, redis_url: str, api: stage.Running) -> None:
    caller = await prepare(redis_url, api.url, options.plan)
    good = GoodClient(api.url, await good_key(redis_url), options.rate)
    await good.run(asyncio.create_task(asyncio.sleep(2)))  # warms up
    store = await Store.open(Settings(redis_url=redis_url))
    now_ms = store.clock.now_ms()
    await store.aclose()
    found: dict[str, list[Measured]] = {}
    print(f"{'':30}{'quiet p50':>10}{'p99':>7}{'beside p50':>12}{'p99':>7}{'ratio':>7}  answers/s")
    for _ in range(options.rounds):
        for name, requests in calls_of(caller, now_ms):
            if any(name.startswith(each) for each in options.only or [""]):
                if name == _REPLAY:
                    await fail_for(caller, redis_url)
                quiet = await good.stretch(api, asyncio.sleep(options.seconds))
                load = await Load.start(requests, options.connections, api.url)
                await asyncio.sleep(0.5)
                beside = await good.stretch(api, asyncio.sleep(options.seconds))
                each = Measured(quiet, beside, await load.stop())
                await asyncio.sleep(_ENDS_S)
                found.setdefault(name, []).append(each)
                print(_line(name, [each], options.seconds), flush=True)
    if options.rounds > 1:
        print("\nMedians:")
        for name, rounds in found.items():
            print(_line(name, rounds, options.seconds))
    print(f"(target: a ratio of at most {TARGET_RATIO:.0f})")


def _line(name: str, rounds: Sequence[Measured], seconds: float) -> str:
    quiet = [each.quiet.percentiles() for each in rounds]
    beside = [each.beside.percentiles() for each in rounds]
    figures = [median(column) for pairs in (quiet, beside) for column in zip(*pairs, strict=True)]
    answers = sum((each.answers for each in rounds), Counter[str]())
    each_s = len(rounds) * (seconds + 0.5)
    told = ", ".join(f"{status}: {count / each_s:.0f}" for status, count in answers.items())
    ratio = median(each.ratio for each in rounds)
    numbers = "{:10.1f}{:7.1f}{:12.1f}{:7.1f}".format(*figures)
    return f"{name:30}{numbers}{ratio:7.1f}  {told}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4, help="of each stretch")
    parser.add_argument("--rate", type=int, default=200, help="of the neighbour, each second")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--plan", type=Plan, default=Plan.PRO, choices=list(Plan))
    parser.add_argument("--only", nargs="*", help="kinds of calls whose names begin so")
    parser.add_argument("--load", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--requests", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load:
        uvloop.run(make_calls(options))
    else:
        # A rewrite of the store's file takes a core for a second, from the next stretch too.
        with (
            stage.valkey(rewrites=False) as store,
            stage.api(store.url, log_level="warning", qstash="on") as api,
        ):
            uvloop.run(measure(options, store.url, api))


if __name__ == "__main__":
    main()
