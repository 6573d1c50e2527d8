"""Celery: `work` fires due jobs, `add` stores them."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime

import plan as plans
import urllib3
from celery import Celery
from celery.signals import worker_ready

# Of the pools that are one process, threads were faster here than gevent (774 a second against
# 592), and never early; 16 of them were faster than 50.
CONCURRENCY = int(os.environ.get("CONCURRENCY", "16"))
_ADDERS = 8
_QUIET = "--loglevel=ERROR --without-gossip --without-mingle --without-heartbeat"

role, given = plans.read()
app = Celery("peer", broker=f"redis+socket://{given.socket}")
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,  # without it a task is gone when its worker dies
    task_reject_on_worker_lost=True,
    worker_disable_rate_limits=True,
    worker_redirect_stdouts=False,
    broker_pool_limit=_ADDERS,
    broker_connection_retry_on_startup=True,
)
http = urllib3.PoolManager(maxsize=CONCURRENCY, retries=False)


@app.task(name="send")
def send(url: str, headers: dict[str, str], body: str) -> None:
    answer = http.request("POST", url, headers=headers, body=body)
    if answer.status != 200:
        raise RuntimeError(str(answer.status))


@worker_ready.connect
def tell(**_: object) -> None:
    plans.ready()


def add() -> None:
    """There is no bulk; a few threads keep each other from waiting for the store."""
    left = iter(range(given.count))
    lock = threading.Lock()

    def lane() -> None:
        while True:
            with lock:
                number = next(left, None)
            if number is None:
                return
            due = datetime.fromtimestamp(given.due_at_ms(number) / 1000, UTC)
            send.apply_async((given.url_of(number), given.headers, given.body), eta=due)

    with app.connection_for_write() as connection:
        connection.ensure_connection()
    began_s = time.perf_counter()
    lanes = [threading.Thread(target=lane) for _ in range(_ADDERS)]
    for each in lanes:
        each.start()
    for each in lanes:
        each.join()
    plans.added(given.count, time.perf_counter() - began_s)


if __name__ == "__main__":
    if role == "work":
        pool = f"--pool=threads --concurrency={CONCURRENCY}"
        app.worker_main(["worker", *pool.split(), *_QUIET.split()])
    else:
        add()
