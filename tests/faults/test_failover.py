"""A replica takes over while the store is in use: from a primary that was killed, or on purpose."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from redis.exceptions import RedisError

from scheduler.store import keys
from tests.chaos.sentinels import SentinelStore
from tests.support.cluster import ask
from tests.support.commands import postdate
from tests.support.servers import (
    DEADLINE_S,
    Customer,
    Deployment,
    Receiver,
    ValkeyCluster,
    ValkeyProcess,
    until,
)

_PAUSE_S = 0.005  # in use, and not at its limit: all of it has to be fired and read as well
_CANCELLED_EVERY, _CANCELLED_BEFORE_S = 5, 4.0


class Load(threading.Thread):
    """Creates without an end, due a little later, and cancels some; remembers what was
    acknowledged."""

    def __init__(self, customer: Customer, target: str) -> None:
        super().__init__(daemon=True)
        self.customer, self._target = customer, target
        self._over = threading.Event()
        self.ids: list[str] = []
        self.once: set[str] = set()  # those that are at-most-once
        self.cancelled: set[str] = set()
        self.codes: Counter[int] = Counter()
        self.start()

    def run(self) -> None:
        while not self._over.is_set():
            delivery = ("at-least-once", "at-most-once")[len(self.ids) % 2]
            cancels = len(self.ids) % _CANCELLED_EVERY == 0
            due_in_s = _CANCELLED_BEFORE_S if cancels else 0.3
            answer = self.customer.post(self._target, due_in_s=due_in_s, delivery=delivery)
            self.codes[answer.status_code] += 1
            if answer.status_code == 201:
                self.ids.append(answer.json()["scheduleId"])
                if delivery == "at-most-once":
                    self.once.add(self.ids[-1])
                if cancels and self.customer.cancel(self.ids[-1]).is_success:
                    self.cancelled.add(self.ids[-1])
            self._over.wait(_PAUSE_S)

    def more(self) -> None:
        """Returns once twenty more were accepted."""
        wanted = len(self.ids) + 20
        until(lambda: len(self.ids) >= wanted, "creates that are accepted")

    def stop(self) -> None:
        self._over.set()
        self.join(30)


def test_when_a_node_is_lost_its_replica_has_all_that_was_acknowledged(receiver: Receiver) -> None:
    """With replicas that confirm each write: nothing is lost, no at-most-once schedule is sent
    twice. While the new primary has no replica its shard says so; the other one goes on."""
    with (
        ValkeyCluster(3, replicated=True) as cluster,
        Deployment(cluster, shards=2, lease_ms=2000, wait_replicas=1) as deployment,
    ):
        api, worker = deployment.api(), deployment.worker()
        in_shard: dict[int, Customer] = {}
        while len(in_shard) < 2:
            customer = deployment.customer()
            in_shard.setdefault(keys.parts(customer.account_id).shard, customer)
        moves, stays = [Load(in_shard[n], f"{receiver.url}/{n}") for n in range(2)]
        for load in (moves, stays):
            load.more()
        slot = keys.slot(keys.tag(0))
        lost = cluster.owner(slot)
        lost.kill()
        until(lambda: cluster.owner(slot) is not lost, "the replica to take over")
        accepted = len(moves.ids)
        refused = moves.codes[503]
        until(lambda: moves.codes[503] > refused + 20, "creates that are refused")
        assert len(moves.ids) == accepted
        stays.more()
        lost.start()
        until(lambda: ask(lost, "ROLE")[0] == b"slave", "the lost node to follow")
        for load in (moves, stays):
            load.more()
            _assert_kept(load, receiver)
        assert stays.codes.keys() == {201}
        assert deployment.problems() == []
        assert (worker.stop(), api.stop()) == (0, 0)


@pytest.mark.parametrize(
    ("wait_replicas", "by_the_book"), [(0, False), (1, False), (0, True)], ids=str
)
def test_a_failover_of_sentinels_that_was_asked_for_loses_nothing(
    receiver: Receiver, store_server: str, wait_replicas: int, by_the_book: bool
) -> None:
    """By the plain command, and as docs/how-to/sentinel-cluster.md has it."""
    with (
        SentinelStore() as store,
        Deployment(store, lease_ms=2000, wait_replicas=wait_replicas) as deployment,
    ):
        api, worker = deployment.api(), deployment.worker()
        load = Load(deployment.customer(), receiver.url)
        load.more()
        before = store.primary()
        if by_the_book:
            assert postdate("hold", redis_url=store.url).returncode == 0
            if store_server == "redis":  # it knows no coordinated failover
                ask(before, "CLIENT", "PAUSE", 5000, "WRITE")
            store.fail_over(*(() if store_server == "redis" else ("COORDINATED",)))
        else:
            store.fail_over()
        # A sentinel whose machine stood still does nothing for half a minute.
        until(lambda: store.primary() is not before, "the replica to take over", 3 * DEADLINE_S)
        load.more()
        until(lambda: _is_demoted(before), "the old primary to follow")
        if by_the_book:
            assert postdate("check", redis_url=store.url).returncode == 0
            assert postdate("resume", redis_url=store.url).returncode == 0
        load.more()
        _assert_kept(load, receiver)
        assert deployment.problems() == []
        assert (worker.stop(), api.stop()) == (0, 0)


@pytest.mark.parametrize("wait_replicas", [0, 1])
def test_a_failover_of_a_cluster_that_was_asked_for_loses_nothing(
    receiver: Receiver, wait_replicas: int
) -> None:
    with (
        ValkeyCluster(3, replicated=True) as cluster,
        Deployment(cluster, shards=1, lease_ms=2000, wait_replicas=wait_replicas) as deployment,
    ):
        api, worker = deployment.api(), deployment.worker()
        load = Load(deployment.customer(), receiver.url)
        load.more()
        cluster.fail_over(cluster.owner(keys.slot(keys.tag(0))))
        load.more()
        _assert_kept(load, receiver)
        assert deployment.problems() == []
        assert (worker.stop(), api.stop()) == (0, 0)


def _is_demoted(server: ValkeyProcess) -> bool:
    try:
        return bool(ask(server, "ROLE")[0] == b"slave")
    except RedisError:
        return False  # sentinels end its connections when they demote it


def _assert_kept(load: Load, receiver: Receiver) -> None:
    """Ends a load. Nothing of it was lost, nothing at-most-once was sent twice, and cancelled ones
    were not sent."""
    load.stop()
    until(lambda: not load.customer.log(status="scheduled"), "all to end")
    ended = {each["scheduleId"]: each["status"] for each in load.customer.log()}
    assert [each for each in load.ids if each not in ended] == []
    assert [each for each in load.cancelled if ended[each] != "cancelled"] == []
    assert load.cancelled
    sent = Counter(each.schedule_id for each in receiver.requests)
    assert [each for each in load.once if sent[each] > 1] == []
    assert [each for each in load.cancelled if sent[each]] == []
    assert load.codes.keys() <= {201, 503}, load.codes
