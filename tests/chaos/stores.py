"""The store that a run breaks: its servers, and the lines between them and the processes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Self

from redis import Redis
from redis.exceptions import RedisError

from tests.support.proxy import DroppingProxy
from tests.support.valkey import ValkeyProcess
from tests.support.waiting import free_port, until

_SLOTS = 16_384


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
    """Three durable nodes without replicas. Each stands behind a line, whose port it announces."""

    kind = "cluster"
    NODES = 3

    def __init__(self) -> None:
        super().__init__()
        self.settings["shards"] = 6
        self._ports: list[int] = []
        self._nodes = [self._node(number) for number in range(1, self.NODES + 1)]
        self._meet()
        self.url = f"redis+cluster://127.0.0.1:{self._ports[0]}"

    def until_ready(self) -> None:
        until(lambda: all(self._agrees(node) for node in self._nodes), "the nodes to agree")

    def _node(self, number: int) -> ValkeyProcess:
        bus = free_port()
        options = {
            "cluster-enabled": "yes",
            "cluster-port": bus,
            "cluster-node-timeout": 2000,
            "cluster-require-full-coverage": "no",
            "cluster-announce-ip": "127.0.0.1",
            "cluster-announce-bus-port": bus,
        }
        node = ValkeyProcess(port=free_port(), options=options)
        line = self.add_line(f"line of store {number}", node)
        self._ports.append(line.port)
        node.options["cluster-announce-port"] = line.port
        self.stack.enter_context(node)
        self.servers[f"store {number}"] = node
        return node

    def _meet(self) -> None:
        for number, node in enumerate(self._nodes):
            first = number * _SLOTS // self.NODES
            last = (number + 1) * _SLOTS // self.NODES - 1
            with Redis.from_url(node.url) as client:
                client.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
                if number:
                    first_node = self._nodes[0].options
                    meet = ("127.0.0.1", self._ports[0], first_node["cluster-port"])
                    client.execute_command("CLUSTER MEET", *meet)
        self.until_ready()

    def _agrees(self, node: ValkeyProcess) -> bool:
        try:
            with Redis.from_url(node.url) as client:
                info = client.cluster("INFO")
        except RedisError:
            return False
        ok: bool = info["cluster_state"] == "ok" and info["cluster_slots_ok"] == str(_SLOTS)
        return ok and str(info["cluster_known_nodes"]) == str(self.NODES)
