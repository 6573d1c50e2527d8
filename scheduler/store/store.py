"""One process's way to the store, and what it finds there at the start."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from scheduler.errors import StoreError, StoreMisconfigured, StoreReplaced
from scheduler.runtime.settings import Settings, without_password
from scheduler.store import keys
from scheduler.store.accounts.accounts import Accounts, Changes
from scheduler.store.accounts.api_keys import ApiKeys
from scheduler.store.accounts.pauses import Pauses
from scheduler.store.accounts.sign_in.members import Members
from scheduler.store.accounts.sign_in.sessions import Attempts, Sessions
from scheduler.store.accounts.signing.signing import Signing
from scheduler.store.bulk.bulks import Bulks
from scheduler.store.check.check import broken_invariants
from scheduler.store.events.events import Events
from scheduler.store.lanes.lanes import Lanes
from scheduler.store.lifecycle.callback.callbacks import Callbacks
from scheduler.store.lifecycle.claim.claim import Claims
from scheduler.store.lifecycle.claim.clock_back import ClockBack
from scheduler.store.lifecycle.create.create import Schedules
from scheduler.store.lifecycle.end.cancel import Canceller
from scheduler.store.lifecycle.end.end_rows import Ends
from scheduler.store.lifecycle.end.letters import Letters
from scheduler.store.log.by_status import Kept
from scheduler.store.log.logs import Logs
from scheduler.store.log.overview import Overview
from scheduler.store.log.statistics import Statistics
from scheduler.store.operators.census import Census
from scheduler.store.operators.filling import Filling
from scheduler.store.operators.heartbeats import LOST_AFTER_MS, STORE_ID, Heartbeats
from scheduler.store.operators.owners import Owners
from scheduler.store.operators.reseal import Resealer, SealingKeys
from scheduler.store.operators.restore import Hold, Restore
from scheduler.store.operators.roster import Roster
from scheduler.store.operators.system import System, ended_branch, server_warnings, version_of
from scheduler.store.queries.held_by import Holders
from scheduler.store.queries.listing import Failed
from scheduler.store.queries.unended import Unended
from scheduler.store.recurring.recurring import Recurring
from scheduler.store.recurring.renewal import Renewal
from scheduler.store.retention import Retention
from scheduler.store.scans import Scans
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import Server, Way, pairs
from scheduler.store.server.clock import StoreClock
from scheduler.store.server.connection import connect
from scheduler.store.shards import Shards

_OLDEST_SERVER = (7, 0)
_MIN_REPLICAS = "min-replicas-to-write"
_ASKED = ("hash-max-*", "appendfsync", "save", _MIN_REPLICAS)
_log = structlog.get_logger(__name__)


class Store:
    """Everything that Postdate keeps, by noun. One per process and event loop."""

    def __init__(self, way: Way, settings: Settings, *, read_only: bool = False) -> None:
        self.clock = StoreClock()
        # Of the server, when it was inspected.
        self.uptime_s = 0
        self.server_version = self.persistence = ""
        self.server = server = Server(
            way, wait_replicas=settings.wait_replicas, secrecy=Secrecy(settings.secret_key)
        )
        self._kept = kept = Retention.of(settings)
        self.shards = Shards(server, settings.shards, read_only=read_only)
        self.accounts = Accounts(server, self.clock, self.shards, kept)
        rates = settings.rate_limits
        self.api_keys = ApiKeys(server, self.shards, self.accounts, rates)
        self.changes = Changes(server, self.accounts)
        self.pauses = Pauses(server)
        self.scans = scans = Scans(server)
        self.failed = Failed(server, self.clock, kept, scans)
        self.events = Events(server)
        self.workers = Heartbeats(keys.WORKERS, server, self.clock, self.events)
        self.holders = Holders(server, self.clock, self.workers.is_any_alive)
        self.unended = Unended(server, self.clock, scans, self.holders)
        self.schedules = Schedules(server, self.clock, kept, self.failed, rates)
        self.ends = Ends(server, self.clock, kept)
        self.letters = Letters(server, kept)
        self.kept = Kept(server, self.clock, kept, scans, self.unended)
        self.callbacks = Callbacks(server, self.clock, kept, self.kept)
        self.canceller = Canceller(server, self.ends, self.unended)
        self.recurring = Recurring(
            server,
            self.clock,
            kept,
            scans,
            self.schedules,
            self.canceller,
            settings.max_horizon_days,
        )
        self.claims = Claims(server, self.clock)
        self.clock_back = ClockBack(server, self.clock)
        self.logs = Logs(server, self.clock, kept, scans, self.unended)
        self.stats = Statistics(server, self.clock, kept)
        self.apis = Heartbeats(keys.APIS, server, self.clock, self.events)
        self.attempts = Attempts(server)
        self.sessions = Sessions(server, self.shards)
        self.members = Members(server, self.sessions)
        self.overview = Overview(server, self.clock)
        self.signing = Signing(server, self.clock)
        self.lanes = Lanes(server, self.clock, scans)
        self.renewal = Renewal(server, self.clock, self.recurring)
        self.census = Census(server, self.shards)
        self.filling = Filling(server, self.clock)
        self.roster = Roster(server, self.clock, self.shards)
        self.owners = Owners(server, self.shards)
        self.bulks = Bulks(server, self.clock, self.shards)
        self.hold = Hold(server, self.clock, self.shards)
        self.sealing_keys = SealingKeys(server)
        self.resealer = Resealer(server, self.shards, self.sealing_keys, (self.workers, self.apis))
        self.restore = Restore(
            server, self.clock, self.shards, self.claims, self.ends, self.recurring
        )
        self.system = System(server, self.claims, self.shards)

    @classmethod
    async def open(
        cls, settings: Settings, *, read_only: bool = False, needs_keys: bool = True
    ) -> Store:
        """Connects, checks the server and reads how many shards there are; an empty store gets its
        metadata, unless `read_only`. Without `needs_keys` it may lack keys that sealed something.
        Raises StoreUnavailable if it cannot be reached, StoreMisconfigured if it cannot be used."""
        if settings.redis_url is None:
            raise StoreMisconfigured("No store was named: give --redis-url or POSTDATE_REDIS_URL.")
        store = cls(connect(settings.redis_url), settings, read_only=read_only)
        try:
            await store.inspect()
            await store.start()
            if needs_keys:
                await store.sealing_keys.require()
        except BaseException:
            await store.aclose()
            raise
        return store

    async def inspect(self) -> None:
        """Refuses a server that cannot be used, and warns of what could be better in one."""
        config, info = await self._config(), dict[str, str]()
        for section in ("server", "persistence", "memory", "replication"):
            info |= await self.server.info(section)
        _refuse_unusable(info)
        self.uptime_s = int(info.get("uptime_in_seconds", 0))
        self.server_version = version_of(info)
        self.persistence = _persistence(config, info)
        warnings = server_warnings(info)
        if int(config.get("hash-max-listpack-value", 1024)) < 1024:
            warnings.append("hash-max-listpack-value is low: 4096 halves the memory per schedule")
        if ended := ended_branch(self.server_version):
            warnings.append(ended)
        if int(info.get("connected_slaves", 0)):
            warnings += _failover_warnings(config, self.server.wait_replicas)
        for warning in warnings:
            _log.warning("store", finding=warning)

    async def start(self) -> None:
        """Reads what must be known before the first use. Safe to repeat."""
        await self.shards.read()
        await self.tick()

    def log_opened(self, settings: Settings, **process: str) -> None:
        """Which store a process runs on, as it was found. `process` says which that is."""
        _log.info(
            "store opened",
            **process,
            store=without_password(settings.redis_url or ""),
            server=self.server_version,
            persistence=self.persistence,
            shards=self.shards.count,
            store_id=self.shards.store_id,
        )

    async def ping(self) -> None:
        """Raises a StoreError unless the store can be read right now, and was the one that was
        opened when that was looked at last."""
        await self.tick()
        if self.shards.replaced:
            raise StoreReplaced(self.shards.replaced)

    async def tick(self) -> None:
        self.clock.observe_reply(await self.server.ask("TIME"))

    async def check(self, tell: Callable[[int], None] = lambda _: None) -> list[str]:
        """Every broken invariant, as a sentence; and each process whose store was replaced. `tell`
        gets how much more was read."""
        found = [
            f"{each.process_id} runs on this store, but opened another one: this one was emptied or"
            " replaced under it"
            for processes in (self.workers, self.apis)
            for each in await processes.running(LOST_AFTER_MS)
            if each.says.get(STORE_ID) != self.shards.store_id
        ]
        return found + await broken_invariants(self.server, self.shards.count, self._kept, tell)

    async def aclose(self) -> None:
        await self.server.aclose()

    async def _config(self) -> dict[str, str]:
        """What may be asked of the configuration; hosted servers often forbid it."""
        try:
            found = await self.server.ask("CONFIG", "GET", *_ASKED)
        except StoreError:
            return {}
        return {name.decode(): value.decode() for name, value in pairs(found).items()}


def _persistence(config: dict[str, str], info: dict[str, str]) -> str:
    """`config` may be empty: then it is not known when snapshots are written."""
    if info.get("aof_enabled") == "1":
        return f"append-only file, fsync {config.get('appendfsync', 'unknown')}"
    save = config.get("save")
    if save is None:
        return "no append-only file"
    return f"snapshots only ({save})" if save else "none"


def _failover_warnings(config: dict[str, str], wait_replicas: int) -> list[str]:
    """What a store with replicas may lose by a failover, and what prevents that."""
    found = []
    if not wait_replicas:
        found.append(
            "It has replicas and POSTDATE_WAIT_REPLICAS is 0: a failover may lose schedules that"
            " were acknowledged just before it."
        )
    if config.get(_MIN_REPLICAS) == "0":
        found.append(
            f"It has replicas and {_MIN_REPLICAS} is 0: a primary that has lost them goes on, and a"
            " failover loses what it takes meanwhile."
        )
    return found


def _refuse_unusable(info: dict[str, str]) -> None:
    version = info.get("redis_version", "7.0.0")
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST_SERVER:
        raise StoreMisconfigured(f"The store is version {version}; Postdate needs 7.0 or newer.")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise StoreMisconfigured(
            f"The store evicts keys (maxmemory-policy {policy}), so it may forget schedules; "
            "set maxmemory-policy noeviction."
        )
