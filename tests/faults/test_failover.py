"""A replica takes over from a primary that was killed, while it is in use."""

from __future__ import annotations

import threading
from collections import Counter

from scheduler.store import keys
from tests.cluster import ask
from tests.servers import Customer, Deployment, Receiver, ValkeyCluster, until

_PAUSE_S = 0.005  # in use, and not at its limit: all of it has to be fired and read as well


class Load(threading.Thread):
    """Creates without an end, due a little later; remembers acknowledged ones."""

    def __init__(self, customer: Customer, target: str) -> None:
        super().__init__(daemon=True)
        self.customer, self._target = customer, target
        self._over = threading.Event()
        self.ids: list[str] = []
        self.once: set[str] = set()  # those that are at-most-once
        self.codes: Counter[int] = Counter()
        self.start()

    def run(self) -> None:
        while not self._over.is_set():
            delivery = ("at-least-once", "at-most-once")[len(self.ids) % 2]
            answer = self.customer.post(self._target, due_in_s=0.3, delivery=delivery)
            self.codes[answer.status_code] += 1
            if answer.status_code == 201:
                self.ids.append(answer.json()["scheduleId"])
                if delivery == "at-most-once":
                    self.once.add(self.ids[-1])
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
            load.stop()
            until(lambda load=load: not load.customer.log(status="scheduled"), "all to end")
            assert {each["scheduleId"] for each in load.customer.log()} >= set(load.ids)
            assert load.codes.keys() <= {201, 503}, load.codes
        assert stays.codes.keys() == {201}
        sent = Counter(each.schedule_id for each in receiver.requests)
        assert [each for each in moves.once | stays.once if sent[each] > 1] == []
        assert deployment.problems() == []
        assert (worker.stop(), api.stop()) == (0, 0)
