"""The embedded Valkey: durable, alone in its data dir, back when it was killed."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis import Redis
from structlog.testing import capture_logs

from cli.serving import embedded
from cli.serving.data_dir import DataDir, take_lock
from scheduler.errors import PostdateError
from tests.support.servers import processes_of, until_async

# It stands for an allocator: it is wherever glibc is, and the server does not use it by itself.
ANYWHERE = "libresolv.so.2"


@pytest.fixture
async def valkey(tmp_path: Path) -> AsyncIterator[embedded.EmbeddedValkey]:
    data_dir = DataDir(tmp_path / "data")
    data_dir.make()
    server = embedded.EmbeddedValkey(data_dir)
    await server.start()
    yield server
    await server.stop()
    assert not processes_of(data_dir.path)


def pid_of(data_dir: DataDir) -> int:
    with Redis.from_url(data_dir.url) as client:
        return int(client.info("server")["process_id"])


async def test_it_is_durable(valkey: embedded.EmbeddedValkey) -> None:
    with Redis.from_url(valkey.data_dir.url, decode_responses=True) as client:
        config = client.config_get("*")
    expected = {
        "port": "0",
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
        "maxmemory-policy": "noeviction",
        "hash-max-listpack-value": "4096",
        "zset-max-listpack-entries": "16",
        "dir": str(valkey.data_dir.path),
    }
    assert {name: config[name] for name in expected} == expected


async def test_what_was_stored_is_there_after_the_next_start_and_after_a_kill(
    valkey: embedded.EmbeddedValkey,
) -> None:
    with Redis.from_url(valkey.data_dir.url) as client:
        client.set("a", "b")
    await valkey.stop()
    assert not embedded.is_running(valkey.data_dir)
    await valkey.start()
    with Redis.from_url(valkey.data_dir.url) as client:
        assert client.get("a") == b"b"
    before = pid_of(valkey.data_dir)
    assert os.getsid(before) == before
    os.kill(before, signal.SIGKILL)
    await until_async(lambda: embedded.ask(valkey.data_dir.socket, "PING") == "+PONG", "a new one")
    assert pid_of(valkey.data_dir) != before
    with Redis.from_url(valkey.data_dir.url) as client:
        assert client.get("a") == b"b"


def test_the_lock_tells_whether_its_last_holder_was_killed(tmp_path: Path) -> None:
    take_lock(DataDir(tmp_path)).free()
    killed = take_lock(DataDir(tmp_path))
    assert not killed.abandoned
    os.close(killed.fd)
    heir = take_lock(DataDir(tmp_path))
    assert heir.abandoned
    heir.free()


async def test_a_store_that_is_damaged_is_not_started_over(tmp_path: Path) -> None:
    """It refuses, says why, and leaves the file alone."""
    data_dir = DataDir(tmp_path)
    valkey = embedded.EmbeddedValkey(data_dir)
    await valkey.start()
    with Redis.from_url(data_dir.url) as client:
        client.set("a", "b" * 100)
        client.set("c", "d")
    await valkey.stop()
    [log] = (tmp_path / "appendonlydir").glob("*.incr.aof")
    damaged = log.read_bytes().replace(b"SET", b"\0\0\0", 1).replace(b"$3", b"!!", 1)
    log.write_bytes(damaged)
    with pytest.raises(PostdateError, match="Bad file format"):
        await valkey.start()
    await valkey.stop()
    assert log.read_bytes() == damaged


def test_a_data_dir_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, why in (
        (tmp_path / "file" / "data", "cannot be used: "),
        (tmp_path / ("d" * 99), "too long"),
    ):
        with pytest.raises(PostdateError, match=rf"^The .*data dir .*{why}.*\.$"):
            take_lock(DataDir(path))


def fake_server(
    directory: Path,
    script: str = "",
    malloc: str = "libc",
    name: str = "valkey-server",
    version: str = "9.0.0",
) -> Path:
    path, says = directory / name, f"Server v={version} sha=0 malloc={malloc} bits=64"
    path.write_text(f"#!/bin/sh\n{script}\necho '{says}'\n")
    path.chmod(0o755)
    return path


def test_a_server_on_path_does_if_it_is_new_enough(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    monkeypatch.setattr("shutil.which", lambda name: str(tmp_path / name))
    old = fake_server(tmp_path, version="6.2.9")
    with pytest.raises(PostdateError, match=rf"No valkey-server .* \({old} is 6\.2, .* install"):
        embedded.find_server()
    newer = fake_server(tmp_path, name="redis-server", version="7.0.15")
    assert embedded.find_server() == newer


def test_it_stops_growing_before_the_machine_is_full(tmp_path: Path) -> None:
    def most(*given: int) -> int:
        words = embedded.server_arguments(tmp_path, tmp_path / "s", tmp_path / "l", *given)
        return int(words[words.index("--maxmemory") + 1])

    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < most() <= machine * 0.75
    assert most(64 * 1024 * 1024) == 64 * 1024 * 1024


@pytest.mark.parametrize(
    ("names", "malloc", "used"),
    [(("libno-such-allocator.so.1", ANYWHERE), "auto", True), ((ANYWHERE,), "libc", False)],
)
async def test_one_that_is_installed_is_preloaded_unless_it_is_turned_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], malloc: str, used: bool
) -> None:
    monkeypatch.setattr(embedded, "_ALLOCATORS", names)
    data_dir = DataDir(tmp_path / "data")
    data_dir.make()
    valkey = embedded.EmbeddedValkey(data_dir, malloc=malloc)
    with capture_logs() as said:
        await valkey.start()
        try:
            [pid] = processes_of(data_dir.path)
            maps = Path(f"/proc/{pid}/maps").read_text()
        finally:
            await valkey.stop()
    assert ("libresolv" in maps) is used
    assert len([event for event in said if "library" in event]) == used


def test_one_that_the_server_does_not_run_with_is_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader takes both, and with the first one the server ends at once."""
    monkeypatch.setattr(embedded, "_ALLOCATORS", (ANYWHERE, "libdl.so.2"))
    server = fake_server(tmp_path, f'case "$LD_PRELOAD" in */{ANYWHERE}) exit 134; esac')
    found = embedded.find_allocator(server)
    assert found is not None
    assert found.endswith("/libdl.so.2")
    for given in ({"script": '[ -z "$LD_PRELOAD" ] || exit 134'}, {"malloc": "jemalloc-5.3.0"}):
        assert embedded.find_allocator(fake_server(tmp_path, **given)) is None
