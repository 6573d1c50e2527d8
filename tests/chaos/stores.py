"""The store that a run breaks: its servers, and the lines between them and the processes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Self

from redis.exceptions import RedisError

from tests.support.cluster import ValkeyCluster
from tests.support.proxy import DroppingProxy
from tests.support.valkey import ValkeyProcess


class ChaosStore:
    """A store to break. `url` leads to it directly, `url_for` by the line of a process;
    `settings` are further settings of the service. `servers` can be killed and started, paused and
    resumed; they are paused for `frozen_s`, from and to. Those that are `replicated` may fail over,
    and a kill of such a server loses writes unless replicas confirm them (`wait_replicas`)."""

    kind = ""
    replicated = False
    frozen_s = (0.2, 4.0)

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.servers: dict[str, Any] = {}
        self.lines: dict[str, DroppingProxy] = {}
        self.settings: dict[str, Any] = {}
        self.url = ""

    def url_for(self, process: str) -> str:
        return self.url

    def add_line(self, name: str, valkey: ValkeyProcess) -> DroppingProxy:
        line = self.lines[name] = self.stack.enter_context(DroppingProxy(valkey.socket))
        return line

    def until_ready(self) -> None:
        """Returns once it serves, after all its servers were started again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()


class SingleStore(ChaosStore):
    """One durable server; each process has a line of its own to it."""

    kind = "single"

    def __init__(self) -> None:
        super().__init__()
        self._valkey = self.stack.enter_context(ValkeyProcess())
        self.servers["store"] = self._valkey
        self.url = self._valkey.url

    def url_for(self, process: str) -> str:
        line = self.add_line(f"line of {process}", self._valkey)
        return f"redis://127.0.0.1:{line.port}"


class ClusterStore(ChaosStore):
    """Three durable nodes without replicas."""

    kind = "cluster"

    def __init__(self) -> None:
        super().__init__()
        self.settings["shards"] = 6
        self._cluster = self.stack.enter_context(_LinedCluster(self))
        self.url = f"redis+cluster://127.0.0.1:{next(iter(self.lines.values())).port}"

    def until_ready(self) -> None:
        self._cluster._wait_until_agreed()


class _LinedCluster(ValkeyCluster):
    """Each node stands behind a line, whose port it announces."""

    def __init__(self, store: ChaosStore) -> None:
        self._store = store
        super().__init__()

    def _node(self) -> ValkeyProcess:
        node, number = super()._node(), len(self._store.servers) + 1
        self._store.servers[f"store {number}"] = node
        node.options |= {
            "cluster-announce-ip": "127.0.0.1",
            "cluster-announce-port": self._store.add_line(f"line of store {number}", node).port,
            "cluster-announce-bus-port": node.options["cluster-port"],
        }
        return node

    def _agrees(self, node: ValkeyProcess) -> bool:
        try:
            return super()._agrees(node)
        except RedisError:
            return False
