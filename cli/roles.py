"""`postdate api` and `postdate worker`: one role each, for many machines or as children of `up`.

A child of `up` is given one end of a socket pair, `--parent-fd`. It reads end-of-file there once
`up` is gone, however it went, and then drains and exits; a worker writes a byte once it is ready.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

import click
import uvloop

from cli.open_files import raise_limit
from cli.options import Context, command, locate_store
from scheduler.settings import Settings

READY_BYTE = b"r"

_parent_fd = click.option("--parent-fd", type=int, hidden=True)


@click.command(name="api")
@click.option("--host", help="Where to listen. [env: POSTDATE_HOST; default: 127.0.0.1]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Where to listen. [env: POSTDATE_PORT; default: 8000]",
)
@_parent_fd
@command("host", "port")
def api_command(context: Context, parent_fd: int | None) -> None:
    """Serve the HTTP API; run as many as you like on one store.

    Put a load balancer before them and let it ask /readyz. SIGTERM finishes the requests in
    flight, then exits. Every other setting is an environment variable: see README.md.
    """
    raise_limit()
    from api.serve import serve  # half a second of imports that no other command needs

    serve(locate_store(context.settings), parent_fd=parent_fd)


@click.command(name="worker")
@_parent_fd
@command()
def worker_command(context: Context, parent_fd: int | None) -> None:
    """Fire what is due; run as many as you like on one store.

    SIGTERM drains: what is in flight is finished and recorded, the rest is given back to the
    other workers. A worker that is lost has its schedules fired by another within 25 seconds.
    Every other setting is an environment variable: see README.md.
    """

    def say_ready() -> None:
        if parent_fd is None:
            context.show({"ready": "worker"}, "Postdate worker is ready")
        else:
            os.write(parent_fd, READY_BYTE)

    raise_limit()
    uvloop.run(_work(locate_store(context.settings), parent_fd, say_ready))


async def _work(settings: Settings, parent_fd: int | None, say_ready: Callable[[], None]) -> None:
    from worker.worker import run_worker

    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    if parent_fd is not None:
        loop.add_reader(parent_fd, _on_parent_gone, loop, parent_fd, stopping)
    await run_worker(settings, stopping=stopping, on_ready=say_ready)


def _on_parent_gone(loop: asyncio.AbstractEventLoop, fd: int, stopping: asyncio.Event) -> None:
    """`up` never writes to its children: if the descriptor can be read, it is at its end."""
    loop.remove_reader(fd)
    stopping.set()
