"""The allocator that the embedded server is started with: found, tried, and never in the way.

libresolv stands for one: it is there wherever glibc is, and the server does not use it by itself.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cli import allocator as allocator_module
from cli.allocator import Allocator, find_allocator, preloading
from cli.data_dir import DataDir
from cli.embedded import EmbeddedValkey, find_server, server_environment
from tests.servers import processes_of

ANYWHERE = "libresolv.so.2"
REAL = find_allocator(find_server())


def use(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(allocator_module, "_NAMES", names)


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


async def started(data_dir: DataDir, malloc: str = "auto") -> tuple[str, list[str]]:
    """The libraries mapped into a server, and the log line about them."""
    valkey = EmbeddedValkey(data_dir, malloc=malloc)
    data_dir.make()
    with capture_logs() as said:
        await valkey.start()
        try:
            [pid] = processes_of(data_dir.path)
            maps = Path(f"/proc/{pid}/maps").read_text()
        finally:
            await valkey.stop()
    return maps, [event["library"] for event in said if "library" in event]


async def test_one_that_is_installed_is_preloaded_and_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, "libno-such-allocator.so.1", ANYWHERE)
    maps, told = await started(DataDir(tmp_path / "data"))
    [path] = told
    assert Path(path).name == ANYWHERE
    assert os.path.realpath(path) in maps


def test_it_is_for_the_server_alone_and_without_the_c_librarys_tuning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LD_PRELOAD", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    with_one = server_environment(Allocator("libx.so.2", "/lib/libx.so.2"))
    assert with_one["LD_PRELOAD"] == "libx.so.2"
    assert "GLIBC_TUNABLES" not in with_one
    assert "LD_PRELOAD" not in os.environ
    without = server_environment(None)
    assert "tcache_count" in without["GLIBC_TUNABLES"]
    assert "LD_PRELOAD" not in without


@pytest.mark.skipif(REAL is None, reason="no allocator is installed")
async def test_a_real_one_is_in_use(tmp_path: Path) -> None:
    assert REAL is not None
    maps, told = await started(DataDir(tmp_path / "data"))
    assert os.path.realpath(REAL.path) in maps
    assert told == [REAL.path]


@pytest.mark.parametrize(
    ("name", "malloc"), [(ANYWHERE, "libc"), ("libno-such-allocator.so.1", "auto")]
)
async def test_turned_off_or_without_one_the_server_starts_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, malloc: str
) -> None:
    use(monkeypatch, name)
    maps, told = await started(DataDir(tmp_path / "data"), malloc=malloc)
    assert "libresolv" not in maps
    assert told == []


@pytest.mark.parametrize("what", ["no library", "of another machine", "cut off"])
async def test_a_library_that_cannot_be_loaded_does_not_stop_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(allocator_module, "_NAMES", (ANYWHERE,))
    good = find_allocator(find_server())
    assert good is not None
    text = bytearray(Path(good.path).read_bytes())
    if what == "of another machine":
        text[18:20] = b"\xf3\x00"  # RISC-V, in the head of an ELF file
    broken = tmp_path / "libbroken.so.1"
    broken.write_bytes({"no library": b"hello", "cut off": bytes(text[:2000])}.get(what, text))
    use(monkeypatch, str(broken))
    maps, told = await started(DataDir(tmp_path / "data"))
    assert "libbroken" not in maps
    assert told == []


def test_one_that_the_server_does_not_run_with_is_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader takes both, and with the first one the server ends at once."""
    use(monkeypatch, ANYWHERE, "libdl.so.2")
    server = fake_server(tmp_path, f'[ "$LD_PRELOAD" = {ANYWHERE} ] && exit 134')
    found = find_allocator(server)
    assert found is not None
    assert found.name == "libdl.so.2"
    assert find_allocator(fake_server(tmp_path, '[ -z "$LD_PRELOAD" ] || exit 134')) is None


def test_a_server_that_was_built_with_one_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, ANYWHERE)
    assert find_allocator(fake_server(tmp_path, "", malloc="libc")) is not None
    assert find_allocator(fake_server(tmp_path, "", malloc="jemalloc-5.3.0")) is None
    assert find_allocator(tmp_path / "none") is None


def test_what_was_preloaded_before_stays() -> None:
    allocator = Allocator("libx.so.2", "/lib/libx.so.2")
    assert preloading(allocator, {}) == {"LD_PRELOAD": "libx.so.2"}
    assert preloading(allocator, {"LD_PRELOAD": "/a.so:/b.so libx.so.2"}) == {
        "LD_PRELOAD": "libx.so.2 /a.so /b.so"
    }
