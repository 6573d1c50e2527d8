"""`postdate api` and `postdate worker`: one role each, for many machines or as children.

A child is given one end of a socket pair, `--parent-fd`. It reads end-of-file there once its parent
is gone, however it went, or wants it to end, and then drains and exits; it writes a byte there
once it is ready. A child that is an API accepts from sockets of its parent, `--listen-fd`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator

import click

from cli.log_setup import findings_were_told
from cli.open_files import raise_limit
from cli.options import Context, command, locate_store, store_fault
from cli.port import url_of
from scheduler.errors import StoreMisconfigured
from scheduler.settings import Settings

_READY_BYTE = b"r"

_processes = click.option(
    "--processes",
    type=click.IntRange(1, 256),
    help="How many processes do it. [env: POSTDATE_PROCESSES; default: 1]",
)
_parent_fd = click.option("--parent-fd", type=int, hidden=True)
_quiet_store = click.option("--quiet-store", is_flag=True, hidden=True)


@click.command(name="api")
@click.option("--host", help="Where to listen. [env: POSTDATE_HOST; default: 127.0.0.1]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Where to listen; 0 for any free port. [env: POSTDATE_PORT; default: 8000]",
)
@_processes
@_parent_fd
@_quiet_store
@click.option("--listen-fd", "listen_fds", type=int, multiple=True, hidden=True)
@command("host", "port", "processes", runs_on=True)
def api_command(
    context: Context,
    parent_fd: int | None,
    quiet_store: bool,
    listen_fds: tuple[int, ...],
) -> None:
    """Serve the HTTP API; run as many as you like on one store.

    With --processes there are several behind one port, and one that dies is started again. Put a
    load balancer before many machines and let it ask /readyz. SIGTERM finishes the requests in
    flight, then exits. Metrics are at port 9464 of this machine (POSTDATE_METRICS_PORT), those of
    further processes at the ports after it. Every other setting is an environment variable: see
    docs/settings.md.
    """
    if context.settings.processes > 1:
        _run_processes("api", context)
        return
    raise_limit()
    from api.serve import serve  # half a second of imports that no other command needs

    def say_ready(port: int) -> None:
        if parent_fd is None:
            url = url_of(context.settings.host, port)
            context.show({"ready": url}, f"Postdate API is ready: {url}")
        else:
            _tell_parent(parent_fd)

    settings = _settings(context, quiet_store)
    with _named(settings):
        serve(
            settings,
            parent_fd=parent_fd,
            listeners=[socket.socket(fileno=fd) for fd in listen_fds],
            on_ready=say_ready,
        )


@click.command(name="worker")
@_processes
@_parent_fd
@_quiet_store
@command("processes", runs_on=True)
def worker_command(context: Context, parent_fd: int | None, quiet_store: bool) -> None:
    """Fire what is due; run as many as you like on one store.

    With --processes there are several on this machine, and one that dies is started again. SIGTERM
    drains: what is in flight is finished and recorded, the rest is given back to the other
    workers. A worker that is lost has its schedules fired by another some 15 seconds later.
    Metrics, /healthz and /readyz are at port 9464 of this machine (POSTDATE_METRICS_PORT), those of
    further processes at the ports after it. Every other setting is an environment variable: see
    docs/settings.md.
    """
    if context.settings.processes > 1:
        _run_processes("worker", context)
        return

    def say_ready() -> None:
        if parent_fd is None:
            context.show({"ready": "worker"}, "Postdate worker is ready")
        else:
            _tell_parent(parent_fd)

    raise_limit()
    import uvloop

    settings = _settings(context, quiet_store)
    with _named(settings):
        uvloop.run(_work(settings, parent_fd, say_ready))


def _run_processes(role: str, context: Context) -> None:
    from cli.processes import run_processes

    run_processes(role, context)


@contextlib.contextmanager
def _named(settings: Settings) -> Iterator[None]:
    """A store that cannot be used is named."""
    try:
        yield
    except StoreMisconfigured as error:
        raise store_fault(settings, error) from error


def _settings(context: Context, quiet_store: bool) -> Settings:
    if quiet_store:
        findings_were_told()
    return locate_store(context.settings)


def _tell_parent(fd: int) -> None:
    os.set_blocking(fd, False)
    # Nobody reads what those say who are started later: it may be full, and the parent be gone.
    with contextlib.suppress(OSError):
        os.write(fd, _READY_BYTE)


async def _work(settings: Settings, parent_fd: int | None, say_ready: Callable[[], None]) -> None:
    from worker.worker import run_worker

    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    if parent_fd is not None:
        loop.add_reader(parent_fd, _on_parent_gone, loop, parent_fd, stopping)
    await run_worker(settings, stopping=stopping, on_ready=say_ready)


def _on_parent_gone(loop: asyncio.AbstractEventLoop, fd: int, stopping: asyncio.Event) -> None:
    """A parent never writes to its children: if the descriptor can be read, it is at its end."""
    loop.remove_reader(fd)
    stopping.set()
