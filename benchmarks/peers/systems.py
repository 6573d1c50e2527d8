"""The systems that are compared: how each is started, fed and stopped, and what it is set to.

Each has a store of its own for every measurement, one worker process, and a program in
`programs/` that stores requests through the system's own interface: a library call, and for
Postdate the HTTP API.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import redis

from benchmarks.peers import environments
from benchmarks.support import stage
from benchmarks.support.payload import BODY, HEADERS
from scheduler.models import Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store

_PROGRAMS = Path(__file__).parent / "programs"
_STOP_S = 5.0
_ADD_S = 300.0


class Added(NamedTuple):
    """What an adder says: how many it stored, and how long that took, connecting not counted.
    `beside_s` is the rest of its life: start, connecting, end."""

    count: int
    took_s: float
    beside_s: float = 0.0

    @property
    def per_second(self) -> float:
        return self.count / self.took_s


class Place(NamedTuple):
    """Where requests are stored: a store, what else the system needs to be spoken to, and the
    process that stores them, where that is not the caller's own."""

    socket: str
    more: dict[str, str]
    api: stage.Running | None = None


class System:
    """A peer whose worker and adder are one program; `Postdate` differs."""

    needs = ""
    """What its worker needs and this machine lacks; then only its adder can be measured."""
    worker_store: Path | None = None
    """The store of measurements with a worker; None: the Valkey of all others."""
    batches = 1
    """How many bulk calls are under way."""

    def __init__(
        self,
        name: str,
        title: str,
        packages: tuple[str, ...],
        settings: str,
        *,
        has_bulk: bool = False,
        burst_share: float = 1.0,
        fill_factor: float = 1.6,
    ) -> None:
        self.name, self.title, self.packages, self.settings = name, title, packages, settings
        self.has_bulk, self.burst_share, self.fill_factor = has_bulk, burst_share, fill_factor
        self._command: list[str] = []
        self._environment: dict[str, str] = {}

    def prepare(self) -> None:
        """Makes the environment if there is none yet. Raises Unavailable."""
        program = str(_PROGRAMS / f"{self.name}_program")
        if (environments.PINS / f"{self.name}.txt").exists():
            self._command = [str(environments.python(self.name)), f"{program}.py"]
        else:
            self._environment = {"NODE_PATH": str(environments.node_modules(self.name))}
            self._command = ["node", f"{program}.cjs"]

    def versions(self) -> dict[str, str]:
        return environments.versions(self.name, self.packages)

    @contextlib.contextmanager
    def place(self, store: stage.Running) -> Iterator[Place]:
        """What must run so that requests can be stored; for a library that is nothing."""
        yield Place(store.url.removeprefix("unix://"), {})

    @contextlib.contextmanager
    def worker(self, place: Place, url: str) -> Iterator[stage.Running]:
        """One worker process, ready."""
        process = subprocess.Popen(
            [*self._command, "work", json.dumps(self._plan(place, url))],
            env={**os.environ, **self._environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.strip() == "ready":
                    break
            else:
                raise SystemExit(f"The worker of {self.title} did not start.")
            yield stage.Running(process)
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)
            process.kill()
            process.communicate()

    def add(self, place: Place, url: str, **what: int | bool) -> Added:
        """Stores requests; see `programs/plan.py` for `what`. Raises SystemExit if it fails."""
        began_s = time.monotonic()
        done = subprocess.run(
            [*self._command, "add", json.dumps({**self._plan(place, url), **what})],
            env={**os.environ, **self._environment},
            capture_output=True,
            text=True,
            timeout=_ADD_S,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{self.title} could not store: {done.stderr[-2000:]}")
        said = json.loads(done.stdout.splitlines()[-1])
        return Added(**said, beside_s=time.monotonic() - began_s - said["took_s"])

    def _plan(self, place: Place, url: str) -> dict[str, object]:
        headers = {**HEADERS, "Content-Type": "application/json"}
        plan = {"socket": place.socket, "url": url, "headers": headers, "body": BODY.decode()}
        return {**plan, **place.more, "batches": self.batches}


class Postdate(System):
    """Ours: an API process stores schedules, and `postdate worker` fires them."""

    def prepare(self) -> None:
        self._command = [sys.executable, str(_PROGRAMS / "postdate_program.py")]

    def versions(self) -> dict[str, str]:
        return {"postdate": version("postdate")}

    @contextlib.contextmanager
    def place(self, store: stage.Running) -> Iterator[Place]:
        key = asyncio.run(_key(store.url))
        with stage.api(store.url, allow_targets="127.0.0.0/8", log_level="warning") as api:
            yield Place(store.url.removeprefix("unix://"), {"api": api.url, "key": key}, api)

    @contextlib.contextmanager
    def worker(self, place: Place, url: str) -> Iterator[stage.Running]:
        with stage.worker(f"unix://{place.socket}", log_level="warning") as running:
            yield running


class ChasquiMQ(System):
    """A native engine. It speaks TCP alone, and its worker needs a newer Redis than others do."""

    def prepare(self) -> None:
        super().prepare()
        self.worker_store = environments.redis_server((8, 6))
        self.needs = "" if self.worker_store else "needs Redis 8.6"

    @contextlib.contextmanager
    def place(self, store: stage.Running) -> Iterator[Place]:
        socket, port = store.url.removeprefix("unix://"), stage.free_port()
        with redis.Redis(unix_socket_path=socket) as client:
            client.config_set("bind", "127.0.0.1")
            client.config_set("port", port)
        yield Place(socket, {"tcp": f"redis://127.0.0.1:{port}"})


async def _key(redis_url: str) -> str:
    """A key of an account whose credits last."""
    store = await Store.open(Settings(redis_url=redis_url))
    try:
        account = await store.accounts.create("peers", credits=10**9, plan=Plan.UNLIMITED)
        return (await store.api_keys.create(account.account_id, "peers"))[1]
    finally:
        await store.aclose()
