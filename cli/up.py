"""`postdate up`: everything on one machine, and its orderly end.

Start: data dir, port, Valkey, the first account, API and workers, the ready line.
Stop: API, workers (drained), Valkey. Should `up` be killed, API and workers see the other end
of a socket pair close and stop by themselves; the next `up` takes over from the Valkey.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import AsyncExitStack, suppress

import click
import msgspec
import structlog

from cli.child import Child
from cli.data_dir import DataDir, take_lock
from cli.embedded import EmbeddedValkey
from cli.links import link_url
from cli.options import Context, command, open_store
from cli.port import Port, is_loopback, reserve
from cli.ready import until_ready
from scheduler.errors import NameTaken, NotFound
from scheduler.models import Account, Plan
from scheduler.settings import LOOPBACK, Settings
from scheduler.store import Store
from scheduler.store.accounts.sessions import Purpose

_log = structlog.get_logger()

FIRST_ACCOUNT = "default"
FIRST_CREDITS = 1_000_000

_API_GRACE_S = 20.0
_WORKER_GRACE_S = 10.0  # beyond the time limit of a fire
# How long a port may stay taken by the API of an `up` that was killed. With a URL there is no
# data dir to tell whether one was.
_PATIENCE_S = 15.0
_PATIENCE_WITH_A_URL_S = 3.0


@click.command(name="up")
@click.option("--host", help="Where to listen. [env: POSTDATE_HOST; default: 127.0.0.1]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Where to listen; 0 for any free port. [env: POSTDATE_PORT; default: 8000]",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    help="How many worker processes. [env: POSTDATE_WORKERS; default: 1]",
)
@command("host", "port", "workers")
def up_command(context: Context) -> None:
    """Run everything on this machine: store, API and workers.

    Without a URL it starts a store of its own in the data dir, every write on disk before it is
    answered. The first start makes the account "default" and prints its API key, once; every start
    prints a link that signs in to its dashboard. The last line says that requests are served.
    Ctrl-C stops it all in order, and what was scheduled is there after the next start; a second
    Ctrl-C does not wait for requests in flight.
    """
    if is_loopback(context.settings.host) and not _targets_were_given():
        settings = msgspec.structs.replace(context.settings, allow_targets=LOOPBACK)
        context = msgspec.structs.replace(context, settings=settings)
    asyncio.run(_run(Up(context)))


async def _run(up: Up) -> None:
    asked_to_stop = asyncio.Event()

    def on_signal() -> None:
        if asked_to_stop.is_set():
            up.hasten()
        asked_to_stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
            continue  # as nohup has it
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    starting = asyncio.create_task(up.start())
    stopping = asyncio.create_task(asked_to_stop.wait())
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        await stopping
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await up.stop()
        stopping.cancel()


class Up:
    """The processes of one `up`, in the order of their start; `stop` goes the other way."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = context.settings
        # Its other end, held by the API and the workers, tells them when we are gone.
        self._ours, self._theirs = socket.socketpair()
        self._children: list[Child] = []
        self._stops = AsyncExitStack()

    async def start(self) -> None:
        """Returns once requests are served and that was said. Raises PostdateError."""
        settings = self._settings
        if settings.redis_url is not None:
            port = await self._reserve_port(_PATIENCE_WITH_A_URL_S)
        else:
            data_dir = DataDir(settings.data_dir)
            lock = take_lock(data_dir)
            self._stops.callback(lock.free)
            port = await self._reserve_port(_PATIENCE_S if lock.abandoned else 0.0)
            await self._start_valkey(data_dir)
            settings = msgspec.structs.replace(settings, redis_url=data_dir.url)
        key = await _first_key(settings)
        await self._start_children(settings, port)
        link = link_url(settings, await _sign_in_link(settings), base_url=port.url)
        self._announce(port, key, link)

    async def stop(self) -> None:
        """API, workers (drained), Valkey (saved); returns once all are gone."""
        if self._children:
            _log.info("stopping")
        for child in self._children:
            child.let_end()
        await self._stops.aclose()
        self._ours.close()
        self._theirs.close()

    def hasten(self) -> None:
        """Waits for no request in flight; what was being fired becomes due again."""
        for child in self._children:
            child.let_end()
            child.kill()

    async def _reserve_port(self, patience_s: float) -> Port:
        port = await reserve(self._settings.host, self._settings.port, patience_s=patience_s)
        self._stops.callback(port.free)
        return port

    async def _start_valkey(self, data_dir: DataDir) -> None:
        valkey = EmbeddedValkey(data_dir, self._settings.max_memory_bytes)
        self._stops.push_async_callback(valkey.stop)
        await valkey.start()

    async def _start_children(self, settings: Settings, port: Port) -> None:
        environ = {**os.environ, **_environment(settings, port)}
        api = self._child("API", "api", environ)
        workers = [
            self._child(f"worker {number}", "worker", environ)
            for number in range(1, settings.workers + 1)
        ]
        self._children = [api, *workers]
        grace_s = settings.fire_timeout_ms / 1000 + _WORKER_GRACE_S
        self._stops.push_async_callback(_stop_all, workers, grace_s)
        self._stops.push_async_callback(_stop_all, [api], _API_GRACE_S)
        for child in self._children:
            await child.start()
        await until_ready(port, self._ours, api, workers)
        for child in self._children:
            child.keep_alive()

    def _child(self, name: str, role: str, environ: dict[str, str]) -> Child:
        fd = self._theirs.fileno()
        # -P: a directory that happens to be called `cli` must not take our place.
        argv = [sys.executable, "-P", "-m", "cli.main", role, "--parent-fd", str(fd)]
        argv += ["--json"] * self._context.as_json
        return Child(name, argv, environ=environ, pass_fds=(fd,))

    def _announce(self, port: Port, key: str | None, link: str) -> None:
        """The ready line is the last one: whoever waits for it has everything by then."""
        show, settings = self._context.show, self._settings
        if key is not None:
            show(
                {"account": FIRST_ACCOUNT, "apiKey": key},
                f'Account "{FIRST_ACCOUNT}" has {FIRST_CREDITS:,} credits.'
                f" Its API key, shown only this once:\n\n    {key}\n",
            )
        if settings.allow_targets == LOOPBACK:
            show(
                {"allowTargets": _cidrs(settings)},
                f"Requests may be sent to this machine itself ({_cidrs(settings)});"
                " POSTDATE_ALLOW_TARGETS=none forbids it.",
            )
        show(
            {"account": FIRST_ACCOUNT, "signIn": link},
            f'The dashboard of "{FIRST_ACCOUNT}"; this link signs in once, within an hour:'
            f"\n\n    {link}\n",
        )
        show({"ready": port.url}, f"Postdate is ready: {port.url}")


async def _stop_all(children: list[Child], grace_s: float) -> None:
    await asyncio.gather(*(child.stop(grace_s) for child in children))


async def _first_key(settings: Settings) -> str | None:
    """A key for the account `default` if it has none: at the first start, or if the first start
    was cut off between making the account and its key."""
    store = await open_store(settings)
    try:
        account = await _first_account(store)
        if await store.accounts.list_keys(account.account_id):
            return None
        _, value = await store.accounts.create_key(account.account_id, "first key")
        return value
    finally:
        await store.aclose()


async def _sign_in_link(settings: Settings) -> str:
    store = await open_store(settings)
    try:
        account = await _first_account(store)
        return await store.sessions.make_link(account.account_id, Purpose.SIGN_IN)
    finally:
        await store.aclose()


async def _first_account(store: Store) -> Account:
    try:
        return await store.accounts.find(FIRST_ACCOUNT)
    except NotFound:
        with suppress(NameTaken):  # by another `up` on the same store, just now
            await store.accounts.create(
                FIRST_ACCOUNT, credits=FIRST_CREDITS, plan=Plan.UNLIMITED, operator=True
            )
        return await store.accounts.find(FIRST_ACCOUNT)


def _environment(settings: Settings, port: Port) -> dict[str, str]:
    """What the children must know that our own environment may not say."""
    return {
        "POSTDATE_REDIS_URL": settings.redis_url or "",
        "POSTDATE_DATA_DIR": os.fspath(settings.data_dir),
        "POSTDATE_HOST": port.address,
        "POSTDATE_PORT": str(port.number),
        "POSTDATE_ALLOW_TARGETS": _cidrs(settings) or "none",
    }


def _targets_were_given() -> bool:
    return bool(os.environ.get("POSTDATE_ALLOW_TARGETS", "").strip())


def _cidrs(settings: Settings) -> str:
    return ",".join(map(str, settings.allow_targets))
