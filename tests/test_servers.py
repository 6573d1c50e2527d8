"""The suite's own servers do what their descriptions say: other tests stand on it."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from redis import Redis
from redis import exceptions as redis_errors
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.proxy import command_end
from tests.servers import DroppingProxy, PostdateProcess, Receiver, ValkeyProcess, until
from tests.store_servers import REDIS, redis_embedded


def client(url: str) -> Redis:
    return Redis.from_url(url, retry=Retry(NoBackoff(), 0), decode_responses=True)


def test_a_killed_valkey_comes_back_with_what_it_had(own_valkey: ValkeyProcess) -> None:
    with client(own_valkey.url) as redis:
        redis.set("a", "1")
        own_valkey.kill()
        with pytest.raises(redis_errors.ConnectionError):
            redis.get("a")
        own_valkey.start()
        assert redis.get("a") == "1"


@pytest.mark.skipif(REDIS is None, reason="there is no redis-server on PATH")
def test_redis_takes_the_place_of_the_embedded_valkey_in_every_process() -> None:
    """In one that is forked, and in a new Python, as users have it."""
    with (
        redis_embedded(),
        ValkeyProcess() as server,
        PostdateProcess() as up,
        PostdateProcess(forked=False) as new,
    ):
        assert not any(is_valkey(url) for url in (server.url, up.redis_url, new.redis_url))
    with ValkeyProcess() as server:
        assert is_valkey(server.url)


def is_valkey(url: str) -> bool:
    with client(url) as redis:
        return "valkey_version" in redis.info("server")


def test_a_proxy_loses_replies_and_commands_by_their_name_or_a_scripts_hash(
    proxy: DroppingProxy, valkey: ValkeyProcess
) -> None:
    with client(proxy.url) as redis, client(valkey.url) as direct:

        def loses(command: Callable[[], object], count: str) -> None:
            with pytest.raises(redis_errors.ConnectionError):
                command()
            assert direct.get("n") == count

        proxy.drop_reply(b"INCR", nth=2)
        assert redis.incr("n") == 1
        loses(lambda: redis.incr("n"), "2")
        sha = redis.script_load("return redis.call('INCR', KEYS[1])")
        proxy.drop_reply(sha.encode(), times=2)
        loses(lambda: redis.evalsha(sha, 1, "n"), "3")
        loses(lambda: redis.evalsha(sha, 1, "n"), "4")
        proxy.drop_command(b"INCR")
        loses(lambda: redis.incr("n"), "4")
        assert proxy.dropped == 4
        assert redis.evalsha(sha, 1, "n") == 5


@pytest.mark.parametrize(
    ("stream", "end"),
    [
        (b"", None),
        (b"PING\r\nPING\r\n", 6),
        (b"*1\r\n$4\r\nPING\r\n*1", 14),
        (b"*2\r\n$3\r\nGET\r\n$4\r\n\r\n\r\n\r\n", 23),
        (b"*2\r\n$3\r\nGET\r\n$4\r\nab", None),
        (b"*2\r\n$3\r\nGET\r\n", None),
    ],
)
def test_the_end_of_a_command(stream: bytes, end: int | None) -> None:
    assert command_end(stream) == end


def test_a_receiver_remembers_what_arrived_and_when(receiver: Receiver) -> None:
    receiver.answer("/a", status=404, body=b"no", headers=(("X-Y", "z"),))
    before = time.time_ns()
    with httpx.Client(base_url=receiver.url) as http:
        answer = http.post("/a?b=1", content=b"{}", headers={"Some-Header": "v"})
        assert (answer.status_code, answer.content, answer.headers["x-y"]) == (404, b"no", "z")
        answer = http.post("/other")
        assert (answer.status_code, answer.content) == (200, b"")
    [received] = receiver.wait_for(1, "/a")
    assert before < received.at_ns < time.time_ns()
    assert (received.method, received.path, received.body) == ("POST", "/a?b=1", b"{}")
    assert received.headers["some-header"] == "v"
    assert len(receiver.requests) == 2


def test_a_receiver_delays_drips_resets_and_keeps_silent(receiver: Receiver) -> None:
    began = time.monotonic()
    assert httpx.get(receiver.answer("/slow", delay_s=0.1)).content == b""
    assert httpx.get(receiver.answer("/drip", body=b"abcd", drip_s=0.03)).content == b"abcd"
    assert time.monotonic() - began >= 0.19
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(receiver.answer("/reset", reset=True))
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(receiver.answer("/never", never=True), timeout=0.1)


def test_a_receiver_holds_an_answer_until_it_is_let_go(receiver: Receiver) -> None:
    target = receiver.answer("/held", status=404, held=True)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(httpx.get, target)
        receiver.wait_for(1, "/held")
        assert httpx.get(receiver.url).status_code == 200
        assert not waiting.done()
        receiver.let_go()
        assert waiting.result().status_code == 404
    assert httpx.get(target).status_code == 404


def test_a_proxy_keeps_back_a_reply_until_it_is_let_go(
    proxy: DroppingProxy, valkey: ValkeyProcess
) -> None:
    with client(proxy.url) as redis, client(valkey.url) as direct, ThreadPoolExecutor() as pool:
        proxy.hold_reply(b"INCR")
        waiting = pool.submit(redis.incr, "n")
        until(lambda: proxy.held == 1, "the reply")
        assert direct.get("n") == "1"
        assert not waiting.done()
        proxy.let_go()
        assert waiting.result() == 1
        assert redis.incr("n") == 2


DRAINED = re.compile(r"\S+ \[info +\] store opened .*\n\S+ \[info +\] draining held=0\n")


def seen_from_outside(process: PostdateProcess) -> dict[str, object]:
    """The system's view of a process, without values that differ at each start."""
    proc = Path(f"/proc/{process.pid}")
    status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines())
    variables = (proc / "environ").read_bytes().rstrip(b"\0").split(b"\0")
    return {
        "parent": int(status["PPid"]),
        "session": os.getsid(process.pid) == process.pid,
        "command": (proc / "cmdline").read_bytes().rstrip(b"\0").split(b"\0"),
        "environment": {each for each in variables if b"DATA_DIR" not in each},
        "directory": (proc / "cwd").readlink(),
        "signals": [status[name] for name in ("SigBlk", "SigIgn", "SigCgt")],
        "files": sorted(int(each.name) for each in (proc / "fd").iterdir()),
    }


def test_a_forked_process_looks_and_ends_as_a_new_one_does(valkey: ValkeyProcess) -> None:
    settings = {"redis_url": valkey.url, "port": 0}
    with (
        PostdateProcess("worker", forked=False, **settings) as new,
        PostdateProcess("worker", **settings) as forked,
    ):
        assert seen_from_outside(forked) == seen_from_outside(new)
        assert forked.stop() == new.stop() == 0
        assert all(DRAINED.fullmatch(each.stderr) for each in (forked, new))
        for process in (forked, new):
            process.start()
            process.signal(signal.SIGKILL)
        assert (forked.wait(), new.wait()) == (-signal.SIGKILL, -signal.SIGKILL)
