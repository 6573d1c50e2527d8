"""A primary with two replicas, and three sentinels that choose the next one."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from redis import Redis
from redis.exceptions import RedisError, ResponseError
from redis.sentinel import MasterNotFoundError, Sentinel

from cli.serving.embedded import find_server
from tests.chaos.stores import ChaosStore
from tests.support.cluster import ask, port_of
from tests.support.valkey import ValkeyProcess
from tests.support.waiting import DEADLINE_S, free_port, until

SERVICE = "postdate"
_SENTINELS, _REPLICAS = 3, 2
# A server that is away for so long is not waited for.
_DOWN_AFTER_MS = 1500
_FAILOVER_TIMEOUT_MS = 6000


class SentinelStore(ChaosStore):
    """Replicated servers behind sentinels. Faults hit the primary of that moment.

    A primary that comes back while another one is being chosen makes two of them: replicas confirm
    to either, and the writes of one of the two are thrown away. That is how Sentinel works, and no
    client of it can do better. So here one is frozen only for so long that no other is chosen, and
    one that was killed comes back once another one was."""

    kind = "sentinel"
    replicated = True
    frozen_s = (0.2, 0.8)

    def __init__(self) -> None:
        super().__init__()
        self._servers = [self.stack.enter_context(_server()) for _ in range(_REPLICAS + 1)]
        first, *others = self._servers
        for other in others:
            _follow(other, first)
        self._sentinels = [
            self.stack.enter_context(SentinelProcess(port_of(first))) for _ in range(_SENTINELS)
        ]
        self._addresses = [("127.0.0.1", sentinel.port) for sentinel in self._sentinels]
        hosts = ",".join(f"{host}:{port}" for host, port in self._addresses)
        self.url = f"redis+sentinel://{hosts}/{SERVICE}"
        self.servers["store"] = _Primary(self)
        self.until_ready()

    def until_ready(self) -> None:
        until(self._is_whole, "sentinels and replicas to agree", DEADLINE_S * 2)

    def primary(self) -> ValkeyProcess:
        """The server that most sentinels know as the primary."""

        def port() -> int | None:
            try:
                return int(self._sentinel().discover_master(SERVICE)[1])  # type: ignore[no-untyped-call]
            except MasterNotFoundError:
                return None

        found = until(port, "a primary")
        return next(server for server in self._servers if port_of(server) == found)

    def fail_over(self, *words: str) -> None:
        """Asks a sentinel to promote a replica, though nothing is wrong."""
        with Redis(*self._addresses[0]) as client:
            client.execute_command("SENTINEL", "FAILOVER", SERVICE, *words)

    def _sentinel(self) -> Sentinel:
        return Sentinel(self._addresses, socket_timeout=1.0)  # type: ignore[no-untyped-call]

    def _is_whole(self) -> bool:
        """One primary, which all sentinels see with both replicas in step."""
        try:
            primary = self.primary()
            with Redis.from_url(primary.url) as client:
                info = client.info("replication")
            knows = [_knows_all(address) for address in self._addresses]
        except (RedisError, OSError):
            return False
        online = [info.get(f"slave{n}", {}).get("state") for n in range(_REPLICAS)]
        return info["role"] == "master" and online == ["online"] * _REPLICAS and all(knows)


class SentinelProcess:
    """One sentinel, for as long as the context lasts."""

    def __init__(self, primary_port: int) -> None:
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="pd-sentinel-"))
        self._configuration = self.directory / "sentinel.conf"
        self._configuration.write_text(
            f"port {self.port}\ndir {self.directory}\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary_port} 2\n"
            f"sentinel down-after-milliseconds {SERVICE} {_DOWN_AFTER_MS}\n"
            f"sentinel failover-timeout {SERVICE} {_FAILOVER_TIMEOUT_MS}\n"
        )

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [find_server(), str(self._configuration), "--sentinel"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(DEADLINE_S)
        shutil.rmtree(self.directory, ignore_errors=True)


class _Primary:
    """Whichever server is the primary when something is done to it; what heals it is done to the
    same one. A server that comes back follows the primary that there is by then."""

    _broken: ValkeyProcess

    def __init__(self, store: SentinelStore) -> None:
        self._store = store

    def kill(self) -> None:
        self._broken = self._store.primary()
        self._broken.kill()

    def start(self) -> None:
        until(lambda: self._store.primary() is not self._broken, "another one", DEADLINE_S * 2)
        self._broken.start()
        # At once: sentinels take seconds, and until then two confirm writes.
        _follow(self._broken, self._store.primary())

    def pause(self) -> None:
        self._broken = self._store.primary()
        self._broken.pause()

    def resume(self) -> None:
        self._broken.resume()

    def fail_over(self) -> None:
        # Sentinels refuse it while they are busy with another one.
        with suppress(ResponseError):
            self._store.fail_over()

    def settle(self) -> None:
        """Returns once the old primary follows the new one."""
        self._store.until_ready()

    def fill(self) -> None:
        self._broken = self._store.primary()
        self._broken.fill()

    def empty(self) -> None:
        self._broken.empty()


def _server() -> ValkeyProcess:
    return ValkeyProcess(port=free_port(), options={"repl-diskless-sync-delay": 0})


def _follow(server: ValkeyProcess, primary: ValkeyProcess) -> None:
    ask(server, "REPLICAOF", "127.0.0.1", port_of(primary))


def _knows_all(address: tuple[str, int]) -> bool:
    with Redis(*address, socket_timeout=1.0) as client:
        known = client.sentinel_master(SERVICE)
    others = int(known["num-other-sentinels"]) == _SENTINELS - 1
    return others and int(known["num-slaves"]) == _REPLICAS and not known["is_odown"]
