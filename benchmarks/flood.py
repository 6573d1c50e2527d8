"""What a flood of bad API keys does to a good client: its latency without and with the flood.

    python -m benchmarks.flood [--rounds 3] [--requests 20000] [--connections 128] [--fresh]

Starts a Valkey of its own and one API process. A good client posts schedules at a steady rate;
each of its latencies counts from the moment at which the request was to be sent, so that a queue
cannot hide. In turn with quiet stretches, another process sends requests with as many different
bad keys as fast as they are refused, on kept connections, or with `--fresh` each on its own. The
ratio of the good client's p99s is what to compare between machines and hours.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Iterator

import uvloop

from benchmarks.support import stage
from benchmarks.support.good_client import (
    Connection,
    GoodClient,
    create_body,
    create_request,
    good_key,
)
from benchmarks.support.rounds import warn_of_noise
from scheduler.ids import new_api_key

TARGET_RATIO = 2.0
_REFUSED = b"HTTP/1.1 401 "


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=128)
    parser.add_argument("--rate", type=int, default=100, help="of the good client, each second")
    parser.add_argument("--seconds", type=int, default=10, help="of a quiet stretch")
    parser.add_argument("--fresh", action="store_true", help="a connection for each bad request")
    parser.add_argument("--flood", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.flood:
        uvloop.run(_flood(options))
    else:
        with stage.valkey() as store, stage.api(store.url) as api:
            uvloop.run(_compare(options, store.url, api))


async def _compare(options: argparse.Namespace, redis_url: str, api: stage.Running) -> None:
    good = GoodClient(api.url, await good_key(redis_url), options.rate)
    await good.run(asyncio.create_task(asyncio.sleep(2)))  # warms up
    ratios = []
    for number in range(1, options.rounds + 1):
        quiet = await good.stretch(api, asyncio.sleep(options.seconds))
        print(f"round {number}  quiet  {quiet}", flush=True)
        flood = await _Flood.start(options, api.url)
        flooded = await good.stretch(api, flood.run())
        ratios.append(flooded.percentiles()[1] / quiet.percentiles()[1])
        print(f"round {number}  flood  {flooded}  ratio {ratios[-1]:.2f}", flush=True)
    median = statistics.median(ratios)
    print(f"\nmedian of the ratios of the p99s  {median:.2f} (at most {TARGET_RATIO})")
    warn_of_noise([{"ratio": ratio} for ratio in ratios])


class _Flood:
    """A process that sends the bad requests; what it costs to start it is not measured."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, options: argparse.Namespace, url: str) -> _Flood:
        command = [sys.executable, "-m", "benchmarks.flood", "--flood", url]
        command += ["--requests", str(options.requests), "--connections", str(options.connections)]
        command += ["--fresh"] if options.fresh else []
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        assert process.stdout is not None
        await process.stdout.readline()
        return cls(process)

    async def run(self) -> None:
        await self._process.communicate(b"go\n")
        assert self._process.returncode == 0, "the flood broke off"


async def _flood(options: argparse.Namespace) -> None:
    """Every one of the bad requests is refused, on as many connections at once as asked for."""
    requests = iter(
        [create_request(new_api_key(n % 16), create_body()) for n in range(options.requests)]
    )
    print("ready", flush=True)
    sys.stdin.readline()
    floods = (_refused(options.flood, requests, options.fresh) for _ in range(options.connections))
    await asyncio.gather(*floods)


async def _refused(url: str, requests: Iterator[bytes], fresh: bool) -> None:
    connection: Connection | None = None
    for request in requests:
        connection = connection or await Connection.open(url)
        head = await connection.exchange(request)
        assert head.startswith(_REFUSED), head
        if fresh or b"connection: close" in head.lower():
            connection.close()
            connection = None


if __name__ == "__main__":
    main()
