"""A slot moves to another node while its shard is in use: right answers or 503, nothing lost."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster import ask, id_of, port_of
from tests.faults.load import Load, two_customers
from tests.servers import Deployment, Receiver, ValkeyCluster, until

REDIS_CLI = shutil.which("redis-cli")


@pytest.fixture(scope="module")
def _cluster(store_server: str) -> Iterator[ValkeyCluster]:
    with ValkeyCluster(2) as started:
        yield started


@pytest.fixture
def cluster(_cluster: ValkeyCluster) -> ValkeyCluster:
    _cluster.flush()
    return _cluster


def all_fired_once(loads: list[Load], receiver: Receiver) -> None:
    ids = [each for load in loads for each in load.ids]
    until(lambda: set(ids) <= {each.schedule_id for each in receiver.requests}, "all to be fired")
    for load in loads:
        until(lambda load=load: set(load.ids) <= load.ended(), "all to end")
    twice = [each for each, n in Counter(r.schedule_id for r in receiver.requests).items() if n > 1]
    assert twice == []
    for load in loads:
        assert load.codes.keys() <= {201, 503}, load.codes


@contextmanager
def in_use(
    cluster: ValkeyCluster, receiver: Receiver
) -> Iterator[tuple[Deployment, list[Load], int]]:
    """A deployment with a customer in each shard who creates, and the slot of the first one's;
    afterwards everything was fired once and adds up."""
    with Deployment(cluster, shards=2, lease_ms=2000) as deployment:
        api, worker = deployment.api(), deployment.worker()
        *customers, slot = two_customers(deployment)
        loads = [Load(customer, f"{receiver.url}/{n}") for n, customer in enumerate(customers)]
        for load in loads:
            load.more()
        yield deployment, loads, slot
        for load in loads:
            load.more()
            load.stop()
        all_fired_once(loads, receiver)
        for load in loads:
            assert load.unknown == 0
            assert load.slowest_s < 5
            assert load.customer.credits() == 10_000 - len(load.ids)
        assert deployment.problems() == []
        # Logged once, not at every attempt.
        assert worker.stderr.count("lost touch with the store") <= 2
        assert (worker.stop(), api.stop()) == (0, 0)


def test_while_a_slot_moves_key_by_key_its_shard_says_503_and_the_others_go_on(
    cluster: ValkeyCluster, receiver: Receiver
) -> None:
    with in_use(cluster, receiver) as (_, [moves, stays], slot):
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


@pytest.mark.skipif(not REDIS_CLI, reason="there is no redis-cli")
def test_redis_cli_reshards_under_load(cluster: ValkeyCluster, receiver: Receiver) -> None:
    """All slots of the node that has the shard, there and back."""
    with in_use(cluster, receiver) as (_, _, slot):
        for _ in range(2):
            source = cluster.owner(slot)
            [to] = [node for node in cluster.primaries if node is not source]
            cli = [REDIS_CLI, "--cluster", "reshard", f"127.0.0.1:{port_of(source)}"]
            cli += ["--cluster-from", id_of(source), "--cluster-to", id_of(to)]
            cli += ["--cluster-slots", "64", "--cluster-yes"]
            done = subprocess.run(cli, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stdout + done.stderr
            until(lambda to=to: cluster.owner(slot) is to, "the slot's new owner")


@pytest.mark.valkey_only
def test_an_atomic_migration_under_load_is_hardly_noticed(
    cluster: ValkeyCluster, receiver: Receiver
) -> None:
    with in_use(cluster, receiver) as (_, loads, slot):
        for _ in range(3):
            source = cluster.owner(slot)
            [to] = [node for node in cluster.primaries if node is not source]
            words = ("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", id_of(to))
            assert ask(source, *words) == b"OK"
            until(lambda to=to: cluster.owner(slot) is to, "the slot's new owner")
            for load in loads:
                load.more()
    assert sum(load.codes[503] for load in loads) == 0
