"""Floods of one account against what it shares with a neighbour: connections to one target, an
API's memory and time, and the throttle of wrong passwords. Each returns what came of it, and
whether that is bad."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Set
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import aclosing
from multiprocessing import get_context
from typing import Any

import httpx

from cli.options import with_store
from scheduler.models import Request
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.store.accounts.sign_in.sessions import ATTEMPTS_PER_BOTH
from tests.attack.run import all_ended, open_account, schedule_all
from tests.support.processes import PostdateProcess
from tests.support.waiting import until_async
from tests.worker.scripted import Line, answer, playing

Found = tuple[str, bool]
# Method, path and body of each.
Calls = list[tuple[str, str, dict[str, Any]]]
IsWrong = Callable[[Set[int]], bool]
_MOST_MB, _MOST_CREATE_MS = 40, 100
_CALLS, _TRIES, _WAITING, _SEARCHERS, _SECONDS = 50, 64, 100_000, 8, 5
_ITEM = {f"n{n:05}": 0 for n in range(1280)}
_BATCH = json.dumps({"schedules": [_ITEM] * 1000}, separators=(",", ":"))
_URL = "https://example.com/hook"
_NAMED = {"targetUrl": _URL, "delay": "1d", "reference": "order-1", "onExisting": "replace"}
_MANY_NAMED = [{**_NAMED, "targetUrl": f"https://n{n}.example/"} for n in range(1000)]
_PAST = "to=2020-01-01T00:00:00Z"
_REFERRING: Calls = [
    ("POST", "/schedule", _NAMED),
    ("POST", "/schedule/batch", {"schedules": _MANY_NAMED}),
    ("GET", "/schedule?reference=order-1", {}),
    ("GET", f"/schedule?reference=order-*&{_PAST}", {}),
    ("GET", "/schedule?reference=*&targetUrl=https://none.example/", {}),
    ("GET", f"/stats/logs?status=scheduled,failed&reference=order-1&{_PAST}", {}),
    ("GET", "/stats/logs?status=completed,failed&reference=none-*", {}),
    ("POST", "/schedule/cancel", {"status": "scheduled", "reference": "none-*"}),
]
_SEARCHING: Calls = [
    ("GET", f"{path}?targetUrl=https://none.example/", {}) for path in ("/schedule", "/stats/logs")
]
# The first swallows the request that comes next, the second one is answered in its stead.
_BODIES = (b"POST /attack HTTP/1.1\r\nX-Rest: ", b"GET /attack HTTP/1.1\r\n\r\n")
_OWN = re.compile(
    rb"GET /own/(\d+) HTTP/1\.1\r\n.*^authorization: secret-\1\r\n", re.S | re.M | re.I
)


def theft(redis_url: str) -> Found:
    """A target answers before it has read a body, and takes the body for the next request. Over
    kept connections, and where accounts wait for one of two."""
    found = [asyncio.run(_stolen(redis_url, most)) for most in (256, 2)]
    return f"a neighbour's 100 requests, lost and stolen: {found}", found != [(0, 0)] * 2


async def _stolen(redis_url: str, most: int) -> tuple[int, int]:
    settings = {"redis_url": redis_url, "max_connections_per_origin": most}
    with PostdateProcess("worker", allow_targets="127.0.0.0/8", **settings):
        async with (
            playing(_hasty) as target,
            aclosing(await Store.open(Settings(redis_url=redis_url))) as store,
        ):
            due_ms = round(time.time() * 1000) + 2000
            theirs, ours = [
                await open_account(store, f"{name} {most}") for name in ("flood", "own")
            ]
            attacks = [
                Request(due_ms + n // 20 * 200, "GET", target.url(f"/a/{n}"), body=_BODIES[n % 2])
                for n in range(200)
            ]
            own = [
                Request(
                    due_ms + n // 10 * 200,
                    "GET",
                    target.url(f"/own/{n}"),
                    {"Authorization": f"secret-{n}"},
                )
                for n in range(100)
            ]
            await schedule_all(store, theirs, attacks)
            await schedule_all(store, ours, own)

            async def have_ended() -> bool:
                return len(await all_ended(store, ours)) == len(own)

            await until_async(have_ended, "the neighbour's requests", deadline_s=60)
            answered = sum(each.status_code == 200 for each in await all_ended(store, ours))
            whole = {found[1] for each in target.requests if (found := _OWN.match(each))}
            strays = [each for each in target.requests if not _OWN.match(each)]
            lost = 2 * len(own) - answered - len(whole)
            return lost, sum(b"secret-" in each for each in strays)


async def _hasty(line: Line) -> None:
    """Answers each head, and never reads a body as one. The answer to a whole request that came in
    a body is late: it comes when there is more to read."""
    while True:
        head = await line.reader.readuntil(b"\r\n\r\n")
        line.target.requests.append(head)
        if head.startswith(b"GET /attack "):
            line.target.requests.append(await line.reader.readuntil(b"\r\n\r\n"))
            await line.say(answer(b"", "410 Gone"))
        else:
            await line.say(
                answer(b"", "200 OK" if head.startswith(b"GET /own") else "202 Accepted")
            )


def batches(redis_url: str) -> Found:
    """Batches of nothing but unknown names."""
    theirs, ours = with_store(Settings(redis_url=redis_url), _keys)
    with PostdateProcess("api", redis_url=redis_url) as api, ThreadPoolExecutor(1) as threads:
        before = api.memory_bytes()
        flood = threads.submit(_send_batches, api.base_url, theirs)
        p50_ms = _creates_ms(api.base_url, ours, flood.done)
        codes = flood.result()
        grown_mb = (api.memory_bytes() - before) / 1e6
    said = (
        f"{_CALLS} calls, items {codes}; the API grew by {grown_mb:.0f} MB; creates {p50_ms:.0f} ms"
    )
    return said, codes != {400} or grown_mb > _MOST_MB or p50_ms > _MOST_CREATE_MS


def _send_batches(base_url: str, key: str) -> set[int]:
    with _client(base_url, key) as client:
        answers = [client.post("/schedule/batch", content=_BATCH).json() for _ in range(_CALLS)]
    return {each["code"] for answer in answers for each in answer["schedules"]}


def trailers(redis_url: str) -> Found:
    """Wrong passwords, each with another client's address behind its body."""
    with PostdateProcess("api", redis_url=redis_url, trusted_proxies="127.0.0.0/8") as api:
        port = int(api.base_url.rpartition(":")[2])
        tried = Counter(asyncio.run(_sign_in(port, n)) for n in range(_TRIES))
    return f"{dict(tried)}", tried != {401: ATTEMPTS_PER_BOTH, 429: _TRIES - ATTEMPTS_PER_BOTH}


async def _sign_in(port: int, number: int) -> int:
    form = b"email=holder%40example.com&password=wrong"
    lines = (
        f"POST /dashboard/sign-in HTTP/1.1|Host: 127.0.0.1:{port}|Origin: http://127.0.0.1:{port}"
    )
    lines += "|Content-Type: application/x-www-form-urlencoded|Transfer-Encoding: chunked||"
    lines += f"{len(form):x}|{form.decode()}|0|X-Forwarded-For: 198.51.100.{number}||"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(lines.replace("|", "\r\n").encode())
    status = (await reader.readline()).split()[1]
    writer.close()
    return int(status)


def searches(redis_url: str) -> Found:
    """Clients search in vain among 100,000 schedules, without a pause."""
    return _without_a_pause(redis_url, _SEARCHING, lambda codes: codes != {200, 429})


def references(redis_url: str) -> Found:
    """100,000 schedules wait with one reference, and all that takes one is called with it, without
    a pause."""
    allowed, reference = {200, 409, 429}, _NAMED["reference"]
    return _without_a_pause(redis_url, _REFERRING, lambda codes: not codes <= allowed, reference)


def _without_a_pause(
    redis_url: str, calls: Calls, is_wrong: IsWrong, reference: str | None = None
) -> Found:
    theirs, ours = with_store(
        Settings(redis_url=redis_url), lambda store: _keys(store, _WAITING, reference)
    )
    with (
        PostdateProcess("api", redis_url=redis_url) as api,
        ProcessPoolExecutor(1, get_context("spawn")) as pool,
    ):
        flood: Future[Counter[int]] = pool.submit(_call_all, api.base_url, theirs, calls)
        p50_ms = _creates_ms(api.base_url, ours, flood.done)
        answers = flood.result()
    said = f"{dict(answers)}; creates {p50_ms:.0f} ms"
    return said, is_wrong(answers.keys()) or p50_ms > _MOST_CREATE_MS


def _call_all(base_url: str, key: str, calls: Calls) -> Counter[int]:
    """Each again and again, by clients side by side; how often each status was answered."""
    answers: Counter[int] = Counter()

    def call(method: str, path: str, body: dict[str, Any]) -> None:
        with _client(base_url, key) as client:
            until_s = time.monotonic() + _SECONDS
            while time.monotonic() < until_s:
                answers[client.request(method, path, json=body or None).status_code] += 1

    with ThreadPoolExecutor(_SEARCHERS) as threads:
        calls = calls * (_SEARCHERS // len(calls))
        list(threads.map(lambda each: call(*each), calls))
    return answers


async def _keys(store: Store, waiting: int = 0, reference: str | None = None) -> list[str]:
    """Of the flood, with so many schedules that wait, and of its neighbour."""
    accounts = [await open_account(store, name) for name in ("flood", "neighbour")]
    due_ms = store.clock.now_ms() + 3_600_000
    some = [Request(due_ms + n, "POST", _URL, reference=reference) for n in range(waiting)]
    await schedule_all(store, accounts[0], some, at_once=1000)
    return [(await store.api_keys.create(each, "attack"))[1] for each in accounts]


def _creates_ms(base_url: str, key: str, until: Callable[[], bool]) -> float:
    """How long a neighbour's creates take in the median, 50 a second, until that is so."""
    took_ms: list[float] = []
    with _client(base_url, key) as client:
        while not until() or not took_ms:
            began_s = time.perf_counter()
            body = {"targetUrl": _URL, "delay": "1d"}
            client.post("/schedule", json=body).raise_for_status()
            took_ms.append(1000 * (time.perf_counter() - began_s))
            time.sleep(0.02)
    return statistics.median(took_ms)


def _client(base_url: str, key: str) -> httpx.Client:
    return httpx.Client(base_url=base_url, headers={"x-api-key": key}, timeout=60, verify=False)


SHARED = {each.__name__: each for each in (theft, batches, trailers, searches, references)}
