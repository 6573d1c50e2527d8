"""A slot moves to another node while its shard is in use: right answers or 503, nothing lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster import ask, id_of
from tests.faults.load import Load, two_customers
from tests.servers import Deployment, Receiver, ValkeyCluster, until


@pytest.fixture
def cluster() -> Iterator[ValkeyCluster]:
    with ValkeyCluster(2) as started:
        yield started


@contextmanager
def in_use(cluster: ValkeyCluster, receiver: Receiver) -> Iterator[tuple[list[Load], int]]:
    """A deployment with a customer in each shard who creates, and the slot of the first one's;
    afterwards everything was fired once and adds up."""
    with Deployment(cluster, shards=2, lease_ms=2000) as deployment:
        api, worker = deployment.api(), deployment.worker()
        *customers, slot = two_customers(deployment)
        loads = [Load(customer, f"{receiver.url}/{n}") for n, customer in enumerate(customers)]
        for load in loads:
            load.more()
        yield loads, slot
        for load in loads:
            load.more()
            load.stop()
            until(lambda load=load: set(load.ids) <= load.ended(), "all to end")
            assert load.codes.keys() <= {201, 503}, load.codes
            assert load.unknown == 0
            assert load.slowest_s < 5
            assert load.customer.credits() == 10_000 - len(load.ids)
        sent = Counter(each.schedule_id for each in receiver.requests)
        assert sent == Counter(each for load in loads for each in load.ids)
        assert deployment.problems() == []
        # Logged once, not at every attempt.
        assert worker.stderr.count("lost touch with the store") <= 2
        assert (worker.stop(), api.stop()) == (0, 0)


def test_while_a_slot_moves_key_by_key_its_shard_says_503_and_the_others_go_on(
    cluster: ValkeyCluster, receiver: Receiver
) -> None:
    with in_use(cluster, receiver) as ([moves, stays], slot):
        source = cluster.owner(slot)
        to = next(node for node in cluster.primaries if node is not source)
        known = moves.ids[0]
        cluster.begin_move(slot, to)
        for _ in range(3):
            assert cluster.move_keys(slot, to, 15) == 15
            refused = moves.codes[503]
            until(lambda refused=refused: moves.codes[503] > refused, "creates that are refused")
            stays.more()
            receiver.wait_for(len(receiver.at("/1")) + 5, "/1")
            for path in (f"/schedule/{known}", "/stats", "/stats/logs"):
                answer = moves.customer.get(path)
                assert answer.status_code in (200, 503), answer.text
        assert moves.customer.cancel(known).status_code == 503
        cluster.end_move(slot, to)
        moves.more()
        assert moves.customer.cancel(known).status_code == 409
        assert ask(source, "CLUSTER", "COUNTKEYSINSLOT", slot) == 0
        assert cluster.owner(slot) is to
    assert stays.codes.keys() == {201}


@pytest.mark.valkey_only
def test_an_atomic_migration_under_load_is_hardly_noticed(
    cluster: ValkeyCluster, receiver: Receiver
) -> None:
    with in_use(cluster, receiver) as (loads, slot):
        for _ in range(3):
            source = cluster.owner(slot)
            [to] = [node for node in cluster.primaries if node is not source]
            words = ("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", id_of(to))
            assert ask(source, *words) == b"OK"
            until(lambda to=to: cluster.owner(slot) is to, "the slot's new owner")
            for load in loads:
                load.more()
    assert sum(load.codes[503] for load in loads) == 0
