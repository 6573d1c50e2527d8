"""docket: `work` fires due jobs, `add` stores them."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import aiohttp
import plan as plans
import uvloop
from docket import Docket, Worker

# Ten by default. A job cost the worker 1,260 us with 20, 940 with 100 and with 200, 1,990 with
# 1,000.
CONCURRENCY = int(os.environ.get("CONCURRENCY", "100"))
# By default it moves due jobs four times a second, and a worker without a free slot pauses as long.
LOOK = timedelta(milliseconds=5)

http: aiohttp.ClientSession


async def send(url: str, headers: dict[str, str], body: str) -> None:
    async with http.post(url, data=body, headers=headers) as answer:
        await answer.read()
        answer.raise_for_status()


def docket_of(plan: plans.Plan) -> Docket:
    """With `execution_ttl` a state of each job would be kept for 15 minutes. Its pool refuses a
    101st connection by default, and jobs that were refused one wait for their redelivery."""
    url = f"unix://{plan.socket}?max_connections={CONCURRENCY + 100}"
    return Docket(url=url, execution_ttl=timedelta(0))


async def work(plan: plans.Plan) -> None:
    global http  # docket has no place for what a worker opens
    connector = aiohttp.TCPConnector(limit=CONCURRENCY)
    async with docket_of(plan) as docket, aiohttp.ClientSession(connector=connector) as http:
        docket.register(send)
        async with Worker(
            docket,
            concurrency=CONCURRENCY,
            minimum_check_interval=LOOK,
            scheduling_resolution=LOOK,
        ) as worker:
            plans.ready()
            await worker.run_forever()


async def add(plan: plans.Plan) -> None:
    def due(number: int) -> datetime:
        return datetime.fromtimestamp(plan.due_at_ms(number) / 1000, UTC)

    async with docket_of(plan) as docket:

        async def one(number: int) -> None:
            store = docket.add(send, when=due(number))
            await store(plan.url_of(number), plan.headers, plan.body)

        async def batch(numbers: range) -> None:
            await docket.add_many(
                docket.call(send, when=due(n))(plan.url_of(n), plan.headers, plan.body)
                for n in numbers
            )

        await (plans.add_batches(plan, batch) if plan.bulk else plans.add_all(plan, one))


if __name__ == "__main__":
    role, given = plans.read()
    uvloop.run(work(given) if role == "work" else add(given))
