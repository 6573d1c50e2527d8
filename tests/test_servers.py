"""A process that a test forks is what users start, and the store's server is the chosen one."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from redis import Redis

from tests.programs import lack_of
from tests.support.servers import PostdateProcess, ValkeyProcess
from tests.support.store_servers import REDIS, redis_embedded


@pytest.mark.slow
@pytest.mark.skipif(REDIS is None, reason=lack_of("redis-server"))
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
    with Redis.from_url(url) as redis:
        return "valkey_version" in redis.info("server")


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


@pytest.mark.slow
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
