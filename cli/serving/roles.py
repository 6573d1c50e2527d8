"""`postdate api` and `postdate worker`: one role each, for many machines or as children.

A child has one end of a socket pair, `--parent-fd`. It writes a byte there once it is ready; at
end-of-file its parent is gone or wants it to end, so it drains and exits. An API child accepts from
its parent's sockets, `--listen-fd`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial

import click
import msgspec

from cli import parameters
from cli.options import Context, command, locate_store, open_store, store_fault
from cli.serving.children import (
    ORPHAN_PATIENCE_S,
    Children,
    TiedChild,
    supervise,
    with_metrics_port,
)
from cli.serving.endings import hear_no_more
from cli.serving.port import reserve, url_of
from scheduler.errors import PostdateError, StoreMisconfigured
from scheduler.runtime.settings import Settings
from scheduler.runtime.version import version

_READY_BYTE = b"r"
# Of open files; where the hard limit says "no limit", some systems do not grant that.
_ENOUGH_FILES = 65_536

host_option = click.option(
    "--host", help="The address to listen on. [env: POSTDATE_HOST; default: 127.0.0.1]"
)
port_option = click.option(
    "--port",
    type=parameters.Whole(0, 65535),
    help="The port to listen on; 0 for any free one. [env: POSTDATE_PORT; default: 8000]",
)
_processes = click.option(
    "--processes",
    type=parameters.Whole(1, 256),
    help="How many processes to start. [env: POSTDATE_PROCESSES; default: 1]",
)
_parent_fd = click.option("--parent-fd", type=int, hidden=True)
_quiet_store = click.option("--quiet-store", is_flag=True, hidden=True)


@click.command(name="api")
@host_option
@port_option
@_processes
@_parent_fd
@_quiet_store
@click.option("--listen-fd", "listen_fds", type=int, multiple=True, hidden=True)
@command("host", "port", "processes", runs_on=True)
def api_command(context: Context, parent_fd: int | None, listen_fds: tuple[int, ...]) -> None:
    """Serve the HTTP API; run as many as you like on one store.

    With --processes there are several behind one port, and one that dies is started again. Put a
    load balancer before many machines and let it ask /readyz. SIGTERM finishes the requests in
    flight, then exits. Metrics are at port 9464 of this machine (POSTDATE_METRICS_PORT), those of
    further processes at the ports after it. Every other setting is an environment variable: see
    docs/reference/settings.md.
    """
    if context.settings.processes > 1:
        _run_processes("api", context)
        return
    from api.serve import serve  # half a second of imports that no other command needs

    with _one_process(context) as settings:
        listeners = [socket.socket(fileno=fd) for fd in listen_fds]
        if not listeners:
            port = asyncio.run(reserve(settings.host, settings.port, patience_s=0.0))
            listeners = port.listen()
            port.free()
        url = url_of(settings.host, listeners[0].getsockname()[1])
        say_ready = partial(_say_ready, context, parent_fd, url)
        serve(settings, listeners, parent_fd=parent_fd, on_ready=say_ready)


@click.command(name="worker")
@_processes
@_parent_fd
@_quiet_store
@command("processes", runs_on=True)
def worker_command(context: Context, parent_fd: int | None) -> None:
    """Fire due schedules; run as many as you like on one store.

    With --processes there are several on this machine, and one that dies is started again. SIGTERM
    drains: requests in flight are finished and recorded, the rest is given back to the other
    workers. A worker that is lost has its schedules fired by another some 15 seconds later.
    Metrics, /healthz and /readyz are at port 9464 of this machine (POSTDATE_METRICS_PORT), those of
    further processes at the ports after it. Every other setting is an environment variable: see
    docs/reference/settings.md.
    """
    if context.settings.processes > 1:
        _run_processes("worker", context)
        return
    import uvloop

    with _one_process(context) as settings:
        uvloop.run(_work(settings, parent_fd, partial(_say_ready, context, parent_fd)))


def _run_processes(role: str, context: Context) -> None:
    """Runs the role in several processes until a signal ends them; this one only watches them.

    Raises PostdateError if they cannot start, or if one did not end as asked.
    """
    context = msgspec.structs.replace(context, settings=locate_store(context.settings))
    children = Children()
    asyncio.run(supervise(children, partial(_start, role, context, children)))


async def _start(role: str, context: Context, children: Children, stops: AsyncExitStack) -> None:
    """Returns once all are ready and that was printed. Raises PostdateError."""
    settings, port = context.settings, None
    stops.push_async_callback(children.stop)
    if role == "api":
        port = await reserve(settings.host, settings.port, patience_s=ORPHAN_PATIENCE_S)
        stops.callback(port.free)  # before they drain: others may have it then
        settings = msgspec.structs.replace(settings, port=port.number)
    findings_told = await _tell_findings(settings, role)
    name = {"api": "API"}.get(role, role)
    as_json, quiet = ["--json"] * context.as_json, ["--quiet-store"]
    await children.start(
        [
            TiedChild(
                f"{name} {place + 1}",
                role,
                with_metrics_port(settings, place),
                arguments=as_json + quiet * (findings_told or place > 0),
                port=port,
            )
            for place in range(settings.processes)
        ]
    )
    _say_ready(context, None, port.url if port else None, settings.processes)


async def _tell_findings(settings: Settings, role: str) -> bool:
    """Logs the findings about the store once for all children; False if it cannot be reached now,
    which the children wait for. Raises PostdateError if it cannot be used at all."""
    try:
        store = await open_store(settings)
    except PostdateError as error:
        if isinstance(error.__cause__, StoreMisconfigured):
            raise
        return False
    store.log_opened(settings, role=role, version=version())
    await store.aclose()
    return True


@contextlib.contextmanager
def _one_process(context: Context) -> Iterator[Settings]:
    """The settings of a process that does the work itself; an error names its store."""
    raise_limit()
    settings = locate_store(context.settings)
    try:
        yield settings
    except StoreMisconfigured as error:
        raise store_fault(settings, error) from error


def _say_ready(
    context: Context, parent_fd: int | None, url: str | None = None, processes: int = 1
) -> None:
    """Tells the parent, or prints it; `url` is an API's."""
    if parent_fd is not None:
        os.set_blocking(parent_fd, False)
        # A child that is started later is not read: it may be full, and the parent be gone.
        with contextlib.suppress(OSError):
            os.write(parent_fd, _READY_BYTE)
        return
    answer: dict[str, object] = {"ready": url or "worker"}
    text = f"Postdate API is ready: {url}" if url else "Postdate worker is ready"
    if processes > 1:
        answer, text = {**answer, "processes": processes}, f"{text} ({processes} processes)"
    context.show(answer, text)


async def _work(settings: Settings, parent_fd: int | None, say_ready: Callable[[], None]) -> None:
    from worker.worker import run_worker

    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    if parent_fd is not None:
        loop.add_reader(parent_fd, _on_parent_gone, loop, parent_fd, stopping)
    await run_worker(settings, stopping=stopping, on_ready=say_ready)
    hear_no_more()


def _on_parent_gone(loop: asyncio.AbstractEventLoop, fd: int, stopping: asyncio.Event) -> None:
    """A parent never writes to its children, so readable means end-of-file."""
    loop.remove_reader(fd)
    stopping.set()


def raise_limit() -> None:
    """Raises the soft limit of open files as far as possible: the usual 1,024 is below the 4,096
    fires that a worker may have in flight."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH_FILES if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
