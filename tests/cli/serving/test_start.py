"""What `postdate api` and `postdate worker` say while they start."""

from __future__ import annotations

import json

import pytest
from redis import Redis

from tests.support.servers import PostdateProcess, ValkeyProcess, free_port, postdate_process, until

RUNS = [("api", 1), ("worker", 2)]


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
    assert (opened["role"], opened["store"]) == (role, own_valkey.url)
    assert process.stderr.count("hash-max-listpack-value") == 1


@pytest.mark.parametrize(("role", "processes"), RUNS)
def test_a_store_that_is_away_is_waited_for(role: str, processes: int) -> None:
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    process = PostdateProcess(role, redis_url=url, processes=processes)
    process.spawn()
    try:
        trying = "the store cannot be reached; trying on"
        until(lambda: process.stderr.count(trying) == processes, "the reason")
        assert f"store={url}" in process.stderr
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
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("Error: The store refuses us: ")
    assert "wrong" not in done.stderr
