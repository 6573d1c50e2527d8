"""`postdate up`: everything on one machine, and its orderly end.

Start: data dir, port, Valkey, the first account, API and workers, the ready line. Stop: API,
workers (drained), Valkey. If `up` is killed, API and workers stop by themselves, and the next `up`
stops the Valkey.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from contextlib import AsyncExitStack, aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
import structlog

from cli import parameters
from cli.acts import begin_hold
from cli.members import link_url
from cli.operators import tell_hold
from cli.options import Context, command, open_store
from cli.serving.children import (
    ORPHAN_PATIENCE_S,
    Children,
    TiedChild,
    supervise,
    with_metrics_port,
)
from cli.serving.data_dir import DataDir, take_lock
from cli.serving.embedded import EmbeddedValkey
from cli.serving.port import Port, reserve
from cli.serving.roles import host_option, port_option
from scheduler.errors import NotFound, Taken
from scheduler.models import Account, Plan
from scheduler.runtime.settings import LOOPBACK, Settings, cidrs
from scheduler.runtime.version import version
from scheduler.target.destinations import is_loopback

if TYPE_CHECKING:
    from scheduler.store import Store

_log = structlog.get_logger()

_PATIENCE_S = 60.0
_FIRST_ACCOUNT = "default"
_FIRST_CREDITS = 1_000_000
# Where the data dir tells that the `up` before was killed, its API has this long to go.
_ABANDONED_PATIENCE_S = 15.0


@click.command(name="up")
@host_option
@port_option
@click.option(
    "--workers",
    type=parameters.Whole(1, 256),
    help="How many worker processes to start. [env: POSTDATE_WORKERS; default: 1]",
)
@click.option("--hold", is_flag=True, help="Start on hold: see `postdate hold`.")
@command("host", "port", "workers", runs_on=True)
def up_command(context: Context, hold: bool) -> None:
    """Run everything on this machine: store, API and workers.

    Without a URL it starts a store of its own in the data dir, with every write on disk before its
    answer. The first start makes the account "default" and prints its API key, once. Every start
    prints a link that signs in to its dashboard. The last line says that requests are served.
    Ctrl-C stops everything in order, and the next start has all schedules again. A second Ctrl-C
    does not wait for requests in flight.

    Prometheus metrics and health of the API are at http://127.0.0.1:9464/metrics, those of workers
    at the following ports. POSTDATE_METRICS_PORT moves all of them; 0 turns them off.
    """
    os.umask(0o077)  # the append-only file holds headers and bodies, secrets among them
    context = msgspec.structs.replace(context, settings=_for_this_machine(context.settings))
    children = Children()
    asyncio.run(supervise(children, partial(_start, context, hold, children)))


async def _start(context: Context, hold: bool, children: Children, stops: AsyncExitStack) -> None:
    """Returns once requests are served and that was printed. Raises PostdateError."""

    settings, data_dir = context.settings, DataDir(context.settings.data_dir)
    patience_s = ORPHAN_PATIENCE_S
    if settings.redis_url is None:
        lock = take_lock(data_dir)
        stops.callback(lock.free)
        if data_dir.open_to_others:
            _log.warning(data_dir.open_to_others)
        patience_s = _ABANDONED_PATIENCE_S if lock.abandoned else 0.0
    port = await reserve(settings.host, settings.port, patience_s=patience_s)
    stops.callback(port.free)
    if settings.redis_url is None:
        valkey = EmbeddedValkey(data_dir, settings.max_memory_bytes, malloc=settings.store_malloc)
        stops.push_async_callback(valkey.stop)
        await valkey.start()
        settings = msgspec.structs.replace(settings, redis_url=data_dir.url)
    settings = msgspec.structs.replace(settings, port=port.number)
    async with aclosing(await open_store(settings)) as store:
        store.log_opened(settings, role="up", version=version())
        if hold:
            await begin_hold(store)
        on_hold_since = (await store.hold.look()).since_ms
        account = await _first_account(store)
        key = "" if account is None else await _first_key(store, account)
        stops.push_async_callback(children.stop)
        await children.start(_children(context, settings, port), _PATIENCE_S)
        link = ""
        if account is not None:
            secret = await store.sessions.make_link(account.account_id)
            link = link_url(settings.url, secret)
    _announce(context, account, key, link, settings.url)
    if on_hold_since is not None:
        tell_hold(context, on_hold_since)
    context.show({"ready": port.url}, f"Postdate is ready: {port.url}")


async def _first_account(store: Store) -> Account | None:
    """Makes it on the first start. It is noted by its id, as it may have been renamed; None if it
    was deleted since."""
    noted = await store.accounts.first()
    if noted is not None:
        try:
            return await store.accounts.get(noted)
        except NotFound:
            return None
    # It may have been made before it was noted, or by another `up` on the same store just now.
    with contextlib.suppress(Taken):
        await store.accounts.create(
            _FIRST_ACCOUNT, credits=_FIRST_CREDITS, plan=Plan.UNLIMITED, operator=True
        )
    account = await store.accounts.find(_FIRST_ACCOUNT)
    await store.accounts.note_first(account.account_id)
    return account


async def _first_key(store: Store, account: Account) -> str:
    """A new key unless the account has one, which is never shown again: then an empty text."""
    if await store.api_keys.of_account(account.account_id):
        return ""
    _, value = await store.api_keys.create(account.account_id, "first key")
    return value


def _children(context: Context, settings: Settings, port: Port) -> list[TiedChild]:
    settings = msgspec.structs.replace(settings, host=port.address)
    arguments = ["--quiet-store"] + ["--json"] * context.as_json
    api = TiedChild("API", "api", settings, arguments=arguments, port=port)
    workers = [
        TiedChild(f"worker {n}", "worker", with_metrics_port(settings, n), arguments=arguments)
        for n in range(1, settings.workers + 1)
    ]
    return [api, *workers]


def _announce(context: Context, account: Account | None, key: str, link: str, url: str) -> None:
    if account is not None and key:
        context.show(
            {"account": account.name, "apiKey": key},
            f'Account "{account.name}" has {account.credits:,} credits.'
            f" Its API key, shown only this once:\n\n    {key}\n\n"
            + _first_request(context.settings, key, url),
        )
    if context.settings.allow_targets == LOOPBACK:
        allowed = cidrs(LOOPBACK)
        context.show(
            {"allowTargets": allowed},
            f"Requests may be sent to this machine itself ({allowed});"
            " POSTDATE_ALLOW_TARGETS=none forbids it.",
        )
    if account is not None:
        context.show(
            {"account": account.name, "signIn": link},
            f'The dashboard of "{account.name}"; this link signs in once, within an hour:'
            f"\n\n    {link}\n",
        )


def _first_request(settings: Settings, key: str, url: str) -> str:
    """How to schedule one, and where to see it arrive."""
    if settings.allow_targets == LOOPBACK:
        target = "http://127.0.0.1:9000/hello"
        where = f"in a second terminal `{_own_name()} listen --port 9000`, in a third:"
    else:
        target = "https://example.com"
        where = f"schedule it, and see it at {url}/dashboard/requests:"
    return (
        f"To see a first request arrive, {where}\n\n    curl {url}/schedule -H 'x-api-key: {key}'"
        f' -d \'{{"targetUrl": "{target}", "delay": "3s"}}\'\n'
    )


def _own_name() -> str:
    """`postdate`, or its path where a shell does not find that."""
    found, own = shutil.which("postdate"), sys.argv[0]
    if found is None and Path(own).name == "postdate":
        return os.path.relpath(own) if Path(own).is_relative_to(Path.cwd()) else own
    return "postdate"


def _for_this_machine(settings: Settings) -> Settings:
    """On a loopback address, requests may go to this machine and errors are exact, unless the
    environment says otherwise. A public URL means a proxy: strangers seem local."""
    if not is_loopback(settings.host) or settings.public_url is not None:
        return settings
    if not _was_given("ALLOW_TARGETS"):
        settings = msgspec.structs.replace(settings, allow_targets=LOOPBACK)
    if not _was_given("DESTINATION_ERRORS"):
        settings = msgspec.structs.replace(settings, destination_errors="exact")
    return settings


def _was_given(name: str) -> bool:
    return bool(os.environ.get(f"POSTDATE_{name}", "").strip())
