"""`postdate up`, as its users meet it: real processes, started, interrupted, killed."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from redis import Redis

from scheduler.target.destinations import is_loopback
from tests.support.processes import PostdateProcess, get_ok, postdate_process, processes_of
from tests.support.servers import Customer, Receiver, ValkeyProcess, free_port, postdate_json, until

KEY = re.compile(r"\bpd_\d+_[\w-]{43}\b")


@pytest.fixture
def up() -> Iterator[PostdateProcess]:
    """Not started yet; whatever becomes of it, nothing is left."""
    process = PostdateProcess()
    yield process
    process.remove()


def test_only_a_loopback_address_is_this_machines_own() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.0.2.1", "example.com")))


def test_behind_a_proxy_nobody_is_let_to_this_machine() -> None:
    """Clients of the proxy come from a loopback address too."""
    with PostdateProcess(public_url="https://postdate.example") as process:
        assert "may be sent to this machine" not in process.stdout
        assert "see it at https://postdate.example/dashboard/requests" in process.stdout
        with Customer(process.base_url, process.api_key) as customer:
            answer = customer.post("http://127.0.0.1:9000/")
            assert (answer.status_code, answer.json()["error"]) == (400, "Destination not allowed")
            entry = customer.outcome(customer.schedule("http://localhost:9000/"))
            assert entry["errorMessage"] == "Host not found, or destination not allowed"


def test_a_first_start_prints_one_key_and_the_ready_line_last(postdate_up: PostdateProcess) -> None:
    lines = postdate_up.stdout.splitlines()
    assert lines[-1] == f"Postdate is ready: {postdate_up.base_url}"
    assert set(KEY.findall(postdate_up.stdout)) == {postdate_up.api_key}
    assert any("127.0.0.0/8" in line for line in lines)
    assert "fsync always" in postdate_up.stderr
    [command] = [line for line in lines if line.lstrip().startswith("curl ")]
    _, url, _, header, _, body = shlex.split(command)
    # `postdate listen` shows it arrive.
    assert "listen --port 9000`" in postdate_up.stdout
    assert json.loads(body)["targetUrl"] == "http://127.0.0.1:9000/hello"
    with urlopen(Request(url, body.encode(), dict([header.split(": ")]))) as answer:
        assert answer.status == 201
    assert get_ok(postdate_up.base_url + "/readyz")


def test_a_second_up_on_the_same_data_dir_is_refused_in_one_sentence(
    postdate_up: PostdateProcess,
) -> None:
    second = postdate_process("up", data_dir=postdate_up.data_dir, port=0)
    assert (second.returncode, second.stdout) == (1, "")
    where = os.path.realpath(postdate_up.data_dir)
    assert second.stderr == f"Error: Another `postdate up` uses the data dir {where}.\n"


def test_ctrl_c_stops_everything_but_first_what_is_in_flight_finishes(
    up: PostdateProcess, receiver: Receiver
) -> None:
    """And the next start, which says no key, finds all of it."""
    target = receiver.answer("/slow", held=True)
    up.start()
    [account] = postdate_json("account", "list", data_dir=up.data_dir)
    assert (account["name"], account["credits"]) == ("default", 1_000_000)
    assert (account["plan"], account["quotaBytes"]) == ("unlimited", None)
    with Customer(up.base_url, up.api_key) as customer:
        schedule_id = customer.schedule(target)
    receiver.wait_for(1, "/slow")
    up.signal(signal.SIGINT)
    until(lambda: "draining" in up.stderr, "the drain of the worker")
    receiver.let_go()
    assert up.wait() == 0
    assert not processes_of(up.data_dir)
    assert not list(up.data_dir.glob("*.sock"))
    up.start()
    assert not KEY.search(up.stdout)
    with Customer(up.base_url, customer.key) as customer:
        [entry] = customer.entries_of(schedule_id)
    assert (entry["status"], entry["statusCode"]) == ("completed", 200)
    assert len(receiver.requests) == 1
    assert up.interrupt() == 0


def test_ctrl_c_before_it_is_ready_stops_what_was_started(up: PostdateProcess) -> None:
    up.spawn()
    until(lambda: pids_of(up, "valkey-server"))
    assert up.interrupt() == 0
    assert not processes_of(up.data_dir)


def test_after_kill_9_the_next_start_is_as_if_nothing_had_been() -> None:
    with PostdateProcess(port=free_port()) as up:
        url, key = up.base_url, up.api_key
        up.kill()
        until(
            lambda: {*processes_of(up.data_dir)} == pids_of(up, "valkey-server") != set(),
            "only the Valkey left",
        )
        [orphan] = processes_of(up.data_dir)
        up.start()
        assert up.base_url == url
        assert not KEY.search(up.stdout)
        assert orphan not in processes_of(up.data_dir)
        [kept] = postdate_json("key", "list", "default", data_dir=up.data_dir)
        assert key.startswith(kept["prefix"])
        assert up.interrupt() == 0


def test_a_child_that_dies_is_started_again() -> None:
    with PostdateProcess(allow_targets="none") as up:
        assert "127.0.0.0/8" not in up.stdout  # what was given is not touched
        for deaths, role in enumerate((" api ", " worker ", "valkey-server"), start=1):
            [killed] = pids_of(up, role)
            os.kill(killed, signal.SIGKILL)
            until(lambda role=role, killed=killed: pids_of(up, role) - {killed}, f"a new {role}")
            until(lambda: get_ok(f"{up.base_url}/readyz"), "served again")
            assert up.stderr.count("ended by itself") == deaths
        assert up.interrupt() == 0


def pids_of(up: PostdateProcess, role: str) -> set[int]:
    return {pid for pid, command in processes_of(up.data_dir).items() if role in command}


def test_what_it_writes_is_for_its_owner_alone(postdate_up: PostdateProcess) -> None:
    with Customer(postdate_up.base_url, postdate_up.api_key) as customer:
        customer.schedule("http://127.0.0.1:9999/", targetHeaders={"Authorization": "secret"})
    files = [path for path in postdate_up.data_dir.rglob("*") if path.is_file() or path.is_dir()]
    assert any(path.suffix == ".aof" for path in files)
    assert [path for path in files if path.stat().st_mode & 0o077] == []
    assert "Others may look" not in postdate_up.stderr


def test_with_a_url_no_valkey_is_started_and_what_it_finds_of_that_one_is_said_once(
    own_valkey: ValkeyProcess, tmp_path: Path
) -> None:
    """And not by each process. An account without a key, as a first start leaves it that was cut
    off between the two, gets one."""
    postdate_json("account", "create", "default", redis_url=own_valkey.url)
    with Redis.from_url(own_valkey.url) as client:
        client.config_set("hash-max-listpack-value", "64")
    data_dir = tmp_path / "d"
    given: dict[str, Any] = {"prot": "1", "workers": 2, "data_dir": data_dir}
    with PostdateProcess(redis_url=own_valkey.url, **given) as up:
        assert KEY.search(up.stdout)
        assert not pids_of(up, "valkey-server")
        assert up.stderr.count("hash-max-listpack-value is low") == 1
        assert up.stderr.count("POSTDATE_PROT is no setting of Postdate") == 1
        assert up.interrupt() == 0
    assert not data_dir.exists()


def test_workers_json_and_a_data_dir_that_others_may_look_into(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    up = PostdateProcess("up", "--json", "--workers", "2", data_dir=tmp_path)
    up.spawn()
    try:
        until(lambda: '"ready"' in up.stdout, "the ready line")
        first, targets, dashboard, ready = [json.loads(line) for line in up.stdout.splitlines()]
        assert first["account"] == dashboard["account"] == "default"
        assert KEY.fullmatch(first["apiKey"])
        assert targets["allowTargets"] == "127.0.0.0/8,::1/128"
        assert dashboard["signIn"].startswith(ready["ready"] + "/dashboard/link/")
        assert len(pids_of(up, " worker ")) == 2
        assert up.stderr.count("Others may look into the data dir") == 1
        assert f"chmod 700 {tmp_path}" in up.stderr
        assert up.interrupt() == 0
    finally:
        up.remove()
