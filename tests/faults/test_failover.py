"""A replica takes over from a primary that was killed, while it is in use."""

from __future__ import annotations

from collections import Counter

from tests.cluster import ask
from tests.faults.load import Load, two_customers
from tests.servers import Deployment, Receiver, ValkeyCluster, until


def test_when_a_node_is_lost_its_replica_has_all_that_was_acknowledged(receiver: Receiver) -> None:
    """With replicas that confirm each write: nothing is lost, no at-most-once schedule is sent
    twice. While the new primary has no replica its shard says so; the other one goes on."""
    with (
        ValkeyCluster(3, replicated=True) as cluster,
        Deployment(cluster, shards=2, lease_ms=2000, wait_replicas=1) as deployment,
    ):
        api, worker = deployment.api(), deployment.worker()
        *customers, slot = two_customers(deployment)
        moves, stays = [Load(each, f"{receiver.url}/{n}") for n, each in enumerate(customers)]
        for load in (moves, stays):
            load.more()
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
            assert load.slowest_s < 10
        assert stays.codes.keys() == {201}
        sent = Counter(each.schedule_id for each in receiver.requests)
        assert [each for each in moves.once | stays.once if sent[each] > 1] == []
        assert deployment.problems() == []
        assert (worker.stop(), api.stop()) == (0, 0)
