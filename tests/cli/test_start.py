"""What `postdate api` and `postdate worker` say while they start."""

from __future__ import annotations

import json

import httpx
import pytest
from redis import Redis

from scheduler.version import version
from tests.servers import PostdateProcess, ValkeyProcess, free_port, postdate_process, until

ROLES = ("api", "worker")
RUNS = [("api", 1), ("api", 2), ("worker", 2)]


def answers_503(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").status_code == 503
    except httpx.ConnectError:
        return False


@pytest.mark.parametrize(("role", "processes"), RUNS)
def test_every_line_of_json_has_one_shape_and_one_names_the_store_and_what_is_found_of_it(
    own_valkey: ValkeyProcess, role: str, processes: int
) -> None:
    with Redis.from_url(own_valkey.url) as client:
        client.config_set("hash-max-listpack-value", "64")
    process = PostdateProcess(
        role, "--json", redis_url=own_valkey.url, processes=processes, log_level="info"
    )
    process.spawn()
    try:
        until(lambda: '"ready"' in process.stdout, "the ready line")
        assert process.stop() == 0
        [ready] = [json.loads(line) for line in process.stdout.splitlines()]
        lines = [ready, *(json.loads(line) for line in process.stderr.splitlines())]
    finally:
        process.remove()
    assert ready.get("processes", 1) == processes
    for line in lines:
        assert {"event", "level", "timestamp"} <= line.keys()
    [opened] = [line for line in lines if line["event"] == "store opened"]
    assert (opened["role"], opened["version"]) == (role, version())
    assert (opened["store"], opened["shards"]) == (own_valkey.url, 16)
    assert opened["server"].startswith(("Valkey ", "Redis "))
    assert opened["persistence"] == "append-only file, fsync always"
    assert process.stderr.count("hash-max-listpack-value") == 1


@pytest.mark.parametrize("role", ROLES)
def test_a_store_that_is_away_is_named_and_nothing_is_ready_before_it_is_there(role: str) -> None:
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    process = PostdateProcess(role, redis_url=url)
    process.spawn()
    try:
        until(lambda: "the store cannot be reached; trying on" in process.stderr, "the reason")
        assert f"store={url}" in process.stderr
        assert f"Error 111 connecting to 127.0.0.1:{port}." in process.stderr
        if role == "api":
            until(lambda: answers_503(process.base_url), "an API that says so")
        assert process.stdout == ""
        with ValkeyProcess(port=port):
            until(lambda: "is ready" in process.stdout, "the ready line")
            assert process.stop() == 0
    finally:
        process.remove()


@pytest.mark.parametrize(("role", "processes"), RUNS)
def test_a_store_that_cannot_be_used_is_one_sentence(role: str, processes: int) -> None:
    port = free_port()
    command = (role, "--processes", str(processes))
    with ValkeyProcess(port=port) as store, Redis.from_url(store.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        done = postdate_process(*command, "--json", redis_url=store.url, port=0)
        assert (done.returncode, done.stdout) == (1, "")
        assert "evicts keys" in json.loads(done.stderr)["error"]
        client.config_set("requirepass", "secret")
        url = f"redis://:wrong@127.0.0.1:{port}/0"
        done = postdate_process(*command, redis_url=url, port=0)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("The store refuses us: ")
    assert done.stderr.endswith(f" (redis://…@127.0.0.1:{port}/0).\n")
    assert done.stderr.count("\n") == 1
