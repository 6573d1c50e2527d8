"""How many messages a second the SDKs of QStash publish here, beside our own clients.

    python -m benchmarks.qstash [--rounds 5] [--creates 1000] [--concurrent 100]

Starts a Valkey of its own (every write on disk before it is answered) and one API process with the
door that speaks QStash. In turn: bare aiohttp, then Python's two clients with one blocking caller,
then with so many awaiting ones, then TypeScript's. Each publishes the same message, due in 30 days,
and the client beside it schedules the same request. Needs `pip install qstash` and npm. The ratios
are what to compare between machines and hours; the API's CPU says what the door costs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import aiohttp
from qstash import AsyncQStash, QStash

from benchmarks.client import key_of_new_account
from benchmarks.support import stage
from benchmarks.support.payload import BODY, HEADERS
from benchmarks.support.rounds import warn_of_noise
from postdate import AsyncPostdate, Postdate

_ROOT = Path(__file__).parents[1]
_PROGRAM = Path(__file__).with_suffix(".mjs")
_URL = "https://example.com/webhooks/orders"
_BODY, _OBJECT = BODY.decode(), json.loads(BODY)
_TYPED = {**HEADERS, "Content-Type": "application/json"}
_DELAY, _DAYS = "30d", 30

Create = Callable[[], Awaitable[object]]


class Measured(NamedTuple):
    """What one round found: of each create, the CPU of the client and of the API."""

    rate: float
    cpu_us: float
    api_us: float = 0.0


class Sizes(NamedTuple):
    creates: int
    concurrent: int


Way = Callable[[Sizes], Measured]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--creates", type=int, default=1000)
    parser.add_argument("--concurrent", type=int, default=100)
    options = parser.parse_args()
    subprocess.run(["make", "typescript"], cwd=_ROOT, check=True)
    with stage.valkey() as store, stage.api(store.url, qstash="on") as api:
        key = asyncio.run(key_of_new_account(store.url))
        _compare(_pairs(api.url, key), Sizes(options.creates, options.concurrent), options, api)


def _compare(
    pairs: dict[str, tuple[Way, Way]],
    sizes: Sizes,
    options: argparse.Namespace,
    api: stage.Running,
) -> None:
    found: dict[tuple[str, str], list[Measured]] = {}
    for number in range(options.rounds + 1):  # the first one warms up
        for pair, ways in pairs.items():
            for name, way in zip(("Postdate", "QStash"), ways, strict=True):
                before_s = api.cpu_s()
                measured = way(sizes)
                spent_us = (api.cpu_s() - before_s) / sizes.creates * 1e6
                measured = measured._replace(api_us=spent_us)
                if number:
                    found.setdefault((pair, name), []).append(measured)
                    print(f"round {number}  {pair:22}{name:9}{_line(measured)}", flush=True)
    print(f"\n{sizes.concurrent} concurrent callers, medians:")
    for pair in pairs:
        ours, theirs = (_median(found[pair, name]) for name in ("Postdate", "QStash"))
        for name, each in (("Postdate", ours), ("QStash", theirs)):
            print(f"{pair:22}{name:9}{_line(each)}")
            warn_of_noise([{"rate": m.rate} for m in found[pair, name]], f"{pair} {name}")
        print(
            f"{pair:22}QStash's SDK {theirs.rate / ours.rate:.2f} of the rate, "
            f"{theirs.api_us / max(ours.api_us, 1):.2f} of the API's CPU"
        )


def _pairs(url: str, key: str) -> dict[str, tuple[Way, Way]]:
    """Our client and QStash's, in each language and way to call."""
    job = {"url": url, "key": key, "target": _URL, "headers": _TYPED, "body": _BODY}
    return {
        "bare aiohttp": (_awaiting(_bare_create, url, key), _awaiting(_bare_publish, url, key)),
        "Python, one blocking": (_blocking(_ours, url, key), _blocking(_theirs, url, key)),
        "Python, asyncio": (_awaiting(_our_own, url, key), _awaiting(_their_own, url, key)),
        "TypeScript": (_node({**job, "way": "Postdate"}), _node({**job, "way": "QStash"})),
    }


def _ours(stack: contextlib.ExitStack, url: str, key: str) -> Callable[[], object]:
    client = stack.enter_context(Postdate(url, key))
    return lambda: client.schedule(
        _URL, in_=timedelta(days=_DAYS), json=_OBJECT, method="POST", headers=_TYPED
    )


def _theirs(stack: contextlib.ExitStack, url: str, key: str) -> Callable[[], object]:
    client = QStash(key, base_url=f"{url}/qstash", retry=False)
    return lambda: client.message.publish(url=_URL, body=_BODY, headers=_TYPED, delay=_DELAY)


async def _our_own(stack: contextlib.AsyncExitStack, url: str, key: str) -> Create:
    client = await stack.enter_async_context(AsyncPostdate(url, key))
    return lambda: client.schedule(
        _URL, in_=timedelta(days=_DAYS), json=_OBJECT, method="POST", headers=_TYPED
    )


async def _their_own(stack: contextlib.AsyncExitStack, url: str, key: str) -> Create:
    client = AsyncQStash(key, base_url=f"{url}/qstash", retry=False)
    return lambda: client.message.publish(url=_URL, body=_BODY, headers=_TYPED, delay=_DELAY)


async def _bare_create(stack: contextlib.AsyncExitStack, url: str, key: str) -> Create:
    """What our client sends, with nothing of what makes it one."""
    payload = {"targetUrl": _URL, "delay": _DELAY, "targetHeaders": _TYPED, "targetBody": _OBJECT}
    return await _bare(
        stack, f"{url}/schedule", {"x-api-key": key}, json.dumps(payload), "scheduleId"
    )


async def _bare_publish(stack: contextlib.AsyncExitStack, url: str, key: str) -> Create:
    forwarded = {f"Upstash-Forward-{name}": value for name, value in HEADERS.items()}
    headers = {"Authorization": f"Bearer {key}", "Upstash-Delay": _DELAY, **forwarded}
    where = f"{url}/qstash/v2/publish/{_URL}"
    return await _bare(stack, where, headers, _BODY, "messageId")


async def _bare(
    stack: contextlib.AsyncExitStack, where: str, headers: dict[str, str], body: str, id_name: str
) -> Create:
    connector = aiohttp.TCPConnector(limit=0)
    session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
    headers = {"Content-Type": "application/json", **headers}

    async def create() -> None:
        async with session.post(where, data=body, headers=headers) as answer:
            assert (await answer.json())[id_name], await answer.text()

    return create


def _blocking(
    made: Callable[[contextlib.ExitStack, str, str], Callable[[], object]], url: str, key: str
) -> Way:
    def measure(sizes: Sizes) -> Measured:
        with contextlib.ExitStack() as stack:
            create = made(stack, url, key)
            create()  # connects
            began_s, before_s = time.perf_counter(), time.process_time()
            for _ in range(sizes.creates):
                create()
            return _measured(sizes, began_s, before_s)

    return measure


def _awaiting(
    made: Callable[[contextlib.AsyncExitStack, str, str], Awaitable[Create]], url: str, key: str
) -> Way:
    async def measure(sizes: Sizes) -> Measured:
        left = iter(range(sizes.creates))

        async def caller(create: Create) -> None:
            for _ in left:
                await create()

        async with contextlib.AsyncExitStack() as stack:
            create = await made(stack, url, key)
            began_s, before_s = time.perf_counter(), time.process_time()
            await asyncio.gather(*(caller(create) for _ in range(sizes.concurrent)))
            return _measured(sizes, began_s, before_s)

    return lambda sizes: asyncio.run(measure(sizes))


def _node(job: dict[str, object]) -> Way:
    def measure(sizes: Sizes) -> Measured:
        command = ["node", _PROGRAM, json.dumps({**job, **sizes._asdict()})]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return Measured(**json.loads(done.stdout))

    return measure


def _measured(sizes: Sizes, began_s: float, before_s: float) -> Measured:
    took_s, spent_s = time.perf_counter() - began_s, time.process_time() - before_s
    return Measured(sizes.creates / took_s, spent_s / sizes.creates * 1e6)


def _median(runs: list[Measured]) -> Measured:
    return Measured(*(statistics.median(column) for column in zip(*runs, strict=True)))


def _line(measured: Measured) -> str:
    return (
        f"{measured.rate:9,.0f}/s  {measured.cpu_us:6.0f} us CPU each, "
        f"{measured.api_us:5.0f} of the API"
    )


if __name__ == "__main__":
    main()
