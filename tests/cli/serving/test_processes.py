"""`--processes N`: one command fills a machine, and is one command to stop."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.support.forks import is_stem
from tests.support.processes import PostdateProcess, get_ok, processes_of
from tests.support.servers import Deployment, Receiver, ValkeyProcess, until
from tests.support.waiting import DEADLINE_S


@pytest.fixture
def deployment(valkey: ValkeyProcess) -> Iterator[Deployment]:
    with Deployment(valkey) as spread:
        yield spread


def children_of(parent: PostdateProcess) -> list[int]:
    found: list[str] = []
    for thread in Path(f"/proc/{parent.pid}/task").iterdir():
        with suppress(OSError):  # one that has ended meanwhile
            found += (thread / "children").read_text().split()
    return [pid for pid in map(int, found) if not is_stem(pid)]


def connections_of(api: PostdateProcess, pid: int) -> int:
    """How many that clients have made this process has accepted."""
    port = int(api.base_url.rpartition(":")[2])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    established = {
        f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "01"
    }
    found = 0
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # what has just been closed
            found += str(each.readlink()) in established
    return found


def until_at_work(deployment: Deployment, workers: PostdateProcess) -> None:
    """Returns once every child, or the only process, has sent two heartbeats. (A worker that is
    stopped in its very first moments may take its time.)"""
    pids = set(children_of(workers)) or {workers.pid}
    beats: dict[int, set[int]] = {pid: set() for pid in pids}

    def heard() -> bool:
        for each in deployment.in_store(lambda store: store.workers.all()):
            beats.get(each.says["pid"], set()).add(each.heard_at_ms)
        return all(len(times) > 1 for times in beats.values())

    until(heard, "the heartbeats")


def serves(process: PostdateProcess) -> bool:
    return get_ok(process.base_url + "/readyz", DEADLINE_S)


def connect(api: PostdateProcess) -> socket.socket:
    port = int(api.base_url.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)


def accepts(api: PostdateProcess, child: int) -> bool:
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(connect(api))
        assert serves(api)  # and time has passed
        return connections_of(api, child) > 0


def test_apis_share_a_port_and_one_that_dies_is_started_again(deployment: Deployment) -> None:
    api = deployment.api(processes=2)
    until(lambda: f"Postdate API is ready: {api.base_url} (2 processes)\n" in api.stdout)
    killed, kept = children_of(api)
    os.kill(killed, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{killed}").exists(), "its end")
    assert all(serves(api) for _ in range(20))
    [new] = until(lambda: set(children_of(api)) - {killed, kept}, "a new one")
    assert api.stderr.count("ended by itself") == 1
    assert "API 1" in api.stderr
    until(lambda: accepts(api, new) and accepts(api, kept), "its readiness")
    api.kill()  # and so the new one, which had no parent to report to
    until(lambda: not processes_of(api.data_dir), "the end of the orphans")


def test_workers_fire_on_when_one_of_them_dies_and_do_not_outlive_the_parent(
    deployment: Deployment, receiver: Receiver
) -> None:
    deployment.api()
    workers = deployment.worker(processes=2)
    killed, _ = children_of(workers)
    os.kill(killed, signal.SIGKILL)
    deployment.customer().schedule(receiver.url + "/fired")
    receiver.wait_for(1, "/fired")
    until(lambda: len(set(children_of(workers)) - {killed}) == 2, "a new one")
    until_at_work(deployment, workers)
    workers.kill()
    until(lambda: not processes_of(workers.data_dir), "the end of the orphans")
    assert deployment.problems() == []


def test_a_second_signal_waits_for_nothing(deployment: Deployment, receiver: Receiver) -> None:
    target = receiver.answer("/never", never=True)
    api = deployment.api(processes=2)
    workers = deployment.worker(processes=2)
    deployment.customer().schedule(target)
    receiver.wait_for(1, "/never")
    with connect(api) as busy:
        busy.sendall(b"POST /schedule HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")
        for process in (workers, api):
            process.signal(signal.SIGTERM)
            until(lambda process=process: "stopping" in process.stderr, "the drain")
            assert process.stop() == 0
            assert not processes_of(process.data_dir)


def test_a_signal_to_the_whole_group_as_systemd_sends_it_drains_as_well(
    deployment: Deployment,
) -> None:
    """Every child has the signal twice then, once from us; it is no reason to hurry."""
    api = deployment.api(processes=2)
    head = f"POST /schedule HTTP/1.1\r\nHost: a\r\nx-api-key: {deployment.customer().key}\r\n"
    with connect(api) as busy:
        busy.sendall(head.encode() + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert busy.recv(100).startswith(b"HTTP/1.1 100")  # so it is in flight
        for pid in (*children_of(api), api.pid):
            os.kill(pid, signal.SIGTERM)
        until(lambda: "stopping" in api.stderr, "the drain")
        busy.sendall(b"{}")
        assert busy.recv(100).startswith(b"HTTP/1.1 400")
    assert api.wait() == 0
