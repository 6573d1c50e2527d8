"""ChasquiMQ: `work` fires due jobs, `add` stores them.

It speaks TCP: its wheel is built without Unix sockets ("Missing unix-socket feature"). `add` uses
the engine's own `Producer`, since `Queue.add_bulk` adds jobs with a delay one by one. Neither
`add_at` nor `add_in_bulk` gives a job an id of its caller's: that would be a script and two more
keys a job, by which a waiting one can be cancelled.
"""

from __future__ import annotations

import os
import time

import aiohttp
import msgpack
import plan as plans
import uvloop
from chasquimq import Job, Producer, Worker

# Its defaults. Of pools of 1, 8 and 32 connections, that of 8 took an add the least CPU; uvloop
# halved it (45 to 70 us against 90 to 105).
CONCURRENCY = int(os.environ.get("CONCURRENCY", "100"))
POOL = 8
_QUEUE = "requests"


async def work(plan: plans.Plan) -> None:
    connector = aiohttp.TCPConnector(limit=CONCURRENCY)
    async with aiohttp.ClientSession(connector=connector) as http:

        async def send(job: Job) -> None:
            url, headers, body = job.data
            async with http.post(url, data=body, headers=headers) as answer:
                await answer.read()
                answer.raise_for_status()

        worker = Worker(_QUEUE, send, redis_url=plan.tcp, concurrency=CONCURRENCY)
        plans.ready()
        await worker.run()


async def add(plan: plans.Plan) -> None:
    producer = Producer(plan.tcp, _QUEUE, pool_size=POOL)

    def packed(number: int) -> bytes:
        return msgpack.packb([plan.url_of(number), plan.headers, plan.body])

    async def one(number: int) -> None:
        await producer.add_at(plan.due_at_ms(number), packed(number))

    async def batch(numbers: range) -> None:
        delay_ms = max(0, plan.due_ms - time.time_ns() // 1_000_000)
        await producer.add_in_bulk(delay_ms, [packed(number) for number in numbers])

    # Its bulk call has one time for all.
    in_bulk = plan.bulk and not plan.every_us
    await (plans.add_batches(plan, batch) if in_bulk else plans.add_all(plan, one))


if __name__ == "__main__":
    role, given = plans.read()
    uvloop.run(work(given) if role == "work" else add(given))
