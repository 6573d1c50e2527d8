"""A real Redis Cluster of the tests' own, and what its operator does with slots."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from typing import Any, Self

from redis import Redis
from redis.exceptions import RedisError

from tests.support.valkey import ValkeyProcess
from tests.support.waiting import free_port, until

SLOTS = 16_384
_NODE_TIMEOUT_MS = 2000
_MIGRATE_TIMEOUT_MS = 5000
# A failover that nodes do not agree on within 5 s is given up.
_GIVEN_UP_S = 6.0


class ValkeyCluster:
    """So many primaries that share the slots evenly, each with a replica if so wanted."""

    def __init__(self, primaries: int = 3, *, replicated: bool = False) -> None:
        self._stack = ExitStack()
        self.primaries = [self._node() for _ in range(primaries)]
        self.replicas = [self._node() for _ in range(primaries * replicated)]
        hosts = [f"127.0.0.1:{port_of(node)}" for node in self.nodes]
        self.url = "redis+cluster://" + ",".join(hosts)

    @property
    def nodes(self) -> list[ValkeyProcess]:
        return self.primaries + self.replicas

    def start(self) -> None:
        """Returns once all nodes agree."""
        for node in self.nodes:
            self._stack.enter_context(node)
        first, count = self.primaries[0], len(self.primaries)
        for number, node in enumerate(self.primaries):
            slots = number * SLOTS // count, (number + 1) * SLOTS // count - 1
            ask(node, "CLUSTER", "ADDSLOTSRANGE", *slots)
        for node in self.nodes[1:]:
            bus = first.options["cluster-port"]
            ask(node, "CLUSTER", "MEET", "127.0.0.1", port_of(first), bus)
        self._wait_until_agreed()
        for replica, primary in zip(self.replicas, self.primaries, strict=False):
            until(lambda r=replica, p=primary: _follows(r, p), "a replica that follows")

    def flush(self) -> None:
        """Empties it. Slots stay where they are."""
        self._wait_until_agreed()
        for node in self.primaries:
            ask(node, "FLUSHALL")

    def owner(self, slot: int) -> ValkeyProcess:
        """The node that has a slot, as the first node that answers knows it."""
        for node in self.nodes:
            try:
                ranges = ask(node, "CLUSTER", "SLOTS")
            except RedisError:
                continue
            for first, last, [_, port, *_], *_ in ranges:
                if first <= slot <= last:
                    return next(each for each in self.nodes if port_of(each) == port)
        raise AssertionError(f"nobody has slot {slot}")

    def fail_over(self, primary: ValkeyProcess) -> None:
        """Its replica takes over, as an operator asks it to: again where the nodes gave up."""
        replica = next(each for each in self.replicas if _replicates(each, primary))
        asked_s = -math.inf

        def taken_over() -> bool:
            nonlocal asked_s
            if time.monotonic() - asked_s > _GIVEN_UP_S and _replicates(replica, primary):
                asked_s = time.monotonic()
                ask(replica, "CLUSTER", "FAILOVER")
            return bool(ask(primary, "ROLE")[0] == b"slave")

        until(taken_over, "the replica to take over")

    def begin_move(self, slot: int, to: ValkeyProcess) -> None:
        """From now on the slot is on its way, key by key; as `redis-cli --cluster reshard` does."""
        source = self.owner(slot)
        ask(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", id_of(source))
        ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", id_of(to))

    def move_keys(self, slot: int, to: ValkeyProcess, most: int) -> int:
        """Moves up to so many keys; returns how many there were to move."""
        source = self.owner(slot)
        names = ask(source, "CLUSTER", "GETKEYSINSLOT", slot, most)
        migrate(source, to, names)
        return len(names)

    def end_move(self, slot: int, to: ValkeyProcess) -> None:
        """Moves the keys that are left, and gives the slot to its new node."""
        while self.move_keys(slot, to, 10):
            pass
        others = [each for each in self.primaries if each is not to]
        for node in (to, self.owner(slot), *others):
            ask(node, "CLUSTER", "SETSLOT", slot, "NODE", id_of(to))

    def _node(self) -> ValkeyProcess:
        options = {
            "cluster-enabled": "yes",
            "cluster-port": free_port(),
            "cluster-node-timeout": _NODE_TIMEOUT_MS,
            "cluster-require-full-coverage": "no",
            "repl-diskless-sync-delay": 0,
        }
        return ValkeyProcess(port=free_port(), options=options)

    def _wait_until_agreed(self) -> None:
        until(lambda: all(self._agrees(node) for node in self.nodes), "the nodes to agree")

    def _agrees(self, node: ValkeyProcess) -> bool:
        info = dict(
            line.split(":") for line in ask(node, "CLUSTER", "INFO").decode().split() if line
        )
        whole = info["cluster_state"] == "ok" and info["cluster_slots_ok"] == str(SLOTS)
        return whole and info["cluster_known_nodes"] == str(len(self.nodes))

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def migrate(source: ValkeyProcess, to: ValkeyProcess, names: list[bytes]) -> None:
    """Moves keys of a slot that is on its way."""
    if names:
        where = ("127.0.0.1", port_of(to), "", 0, _MIGRATE_TIMEOUT_MS)
        ask(source, "MIGRATE", *where, "KEYS", *names)


def port_of(node: ValkeyProcess) -> int:
    return int(str(node.options["port"]))


def id_of(node: ValkeyProcess) -> str:
    """The name that a node has in its cluster."""
    return str(ask(node, "CLUSTER", "MYID").decode())


def ask(node: ValkeyProcess, *words: Any) -> Any:
    """A node's own reply to a command."""
    with Redis.from_url(node.url) as client:
        client.response_callbacks.clear()
        return client.execute_command(*words)


def _replicates(node: ValkeyProcess, primary: ValkeyProcess) -> bool:
    role, _, port, *_ = ask(node, "ROLE")
    return bool(role == b"slave" and port == port_of(primary))


def _follows(replica: ValkeyProcess, primary: ValkeyProcess) -> bool:
    try:
        ask(replica, "CLUSTER", "REPLICATE", id_of(primary))
    except RedisError:
        return False  # it has not heard of it yet
    return bool(ask(replica, "ROLE")[3] == b"connected")
