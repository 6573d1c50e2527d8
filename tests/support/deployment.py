"""Postdate spread over processes, as on many machines: APIs and workers on one store."""

from __future__ import annotations

import itertools
from base64 import b64decode
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, Self, TypeVar

from cli.options import with_store
from scheduler.models import Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.store.server import Script
from tests.support.cluster import ValkeyCluster
from tests.support.customer import Customer
from tests.support.processes import PostdateProcess
from tests.support.valkey import ValkeyProcess

T = TypeVar("T")

CREDITS = 10_000


def script(path: str) -> bytes:
    """What a proxy finds the calls of a script (`lifecycle/end`) by, once the server knows it."""
    return Script(path).source_and_sha1[1].encode()


class Deployment:
    """A store and the processes that were started on it; `settings` hold for all of them.

    Without a Valkey it starts one. Requests may go to this machine.
    """

    def __init__(
        self, valkey: ValkeyProcess | ValkeyCluster | None = None, **settings: object
    ) -> None:
        self._stack = ExitStack()
        self._settings = {"allow_targets": "127.0.0.0/8", **settings}
        self._numbers = itertools.count(1)
        self.apis: list[PostdateProcess] = []
        self.valkey: ValkeyProcess | ValkeyCluster = valkey or self._stack.enter_context(
            ValkeyProcess()
        )

    def api(self, **settings: object) -> PostdateProcess:
        """Starts one more API; returns once it serves."""
        process = self._start("api", settings)
        self.apis.append(process)
        return process

    def worker(self, **settings: object) -> PostdateProcess:
        """Starts one more worker; returns once it works."""
        return self._start("worker", settings)

    def spawn(self, role: str, **settings: object) -> PostdateProcess:
        """Starts a process without waiting for anything."""
        process = self._made(role, settings)
        self._stack.callback(process.remove)
        process.spawn()
        return process

    def customer(self, api: PostdateProcess | None = None, *, credits: int = CREDITS) -> Customer:
        """The holder of a new account, at this API or the first one."""

        async def make(store: Store) -> tuple[str, str]:
            name = f"customer {next(self._numbers)}"
            account = await store.accounts.create(name, credits=credits, plan=Plan.UNLIMITED)
            _, key = await store.api_keys.create(account.account_id, "key")
            return account.account_id, key

        account_id, key = self.in_store(make)
        base_url = (api or self.apis[0]).base_url
        return self._stack.enter_context(Customer(base_url, key, account_id))

    def in_store(self, use: Callable[[Store], Awaitable[T]]) -> T:
        """Uses the store directly: for setting up, or for looking at what no API shows."""
        given = str(self._settings.get("secret_key", ""))
        secret_key = tuple(b64decode(each) for each in given.split(",") if each)
        return with_store(Settings(redis_url=self.valkey.url, secret_key=secret_key), use)

    def problems(self) -> list[str]:
        """What `postdate check` tells, without starting it."""
        return self.in_store(lambda store: store.check())

    def _start(self, role: str, settings: dict[str, Any]) -> PostdateProcess:
        return self._stack.enter_context(self._made(role, settings))

    def _made(self, role: str, settings: dict[str, Any]) -> PostdateProcess:
        given = {"redis_url": self.valkey.url, **self._settings, **settings}
        return PostdateProcess(role, **given)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: Any) -> None:
        self._stack.__exit__(*failure)
