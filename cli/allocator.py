"""A faster memory allocator for the embedded server than its C library's.

The wheel's server is built with the C library's malloc, and spends a third of its time there. If
one of these allocators is installed, the loader replaces malloc for this process. Linux only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

# The best one first. The loader of the server finds them where it finds all libraries.
_NAMES = (
    "libjemalloc.so.2",
    "libmimalloc.so.3",
    "libmimalloc.so.2",
    "libmimalloc.so.2.0",
    "libtcmalloc_minimal.so.4",
    "libtcmalloc.so.4",
)
_LOADED = re.compile(r"^\s*(\S+)(?: => (\S+))? \(0x", re.MULTILINE)
_BUILT_WITH = re.compile(r"\bmalloc=(\S+)")
_PATIENCE_S = 10.0


class Allocator(msgspec.Struct, frozen=True):
    """A library: its name for the loader, and where the loader finds it."""

    name: str
    path: str


def find_allocator(server: Path) -> Allocator | None:
    """The best installed allocator that this server runs with, or None; None for a server that was
    built with one. A library that does not fit is passed over, and never an error."""
    if sys.platform != "linux" or not _built_with_libc(server):
        return None
    for found in _loadable(server):
        if _runs_with(server, found):
            return found
    return None


def preloading(allocator: Allocator, environ: Mapping[str, str]) -> dict[str, str]:
    """LD_PRELOAD with the allocator before all other libraries."""
    names = [allocator.name, *environ.get("LD_PRELOAD", "").replace(":", " ").split()]
    return {"LD_PRELOAD": " ".join(dict.fromkeys(names))}


def _built_with_libc(server: Path) -> bool:
    done = version_of(server)
    match = _BUILT_WITH.search(done.stdout) if done else None
    return match is not None and match[1] == "libc"


def _loadable(server: Path) -> list[Allocator]:
    """Those that the server's own loader maps; the server itself does not run for that."""
    done = version_of(server, LD_PRELOAD=" ".join(_NAMES), LD_TRACE_LOADED_OBJECTS="1")
    loaded = dict(_LOADED.findall(done.stdout)) if done else {}
    return [Allocator(name, loaded[name] or name) for name in _NAMES if name in loaded]


def _runs_with(server: Path, allocator: Allocator) -> bool:
    """Runs the server once with it: the symbols are there, and it works on this machine."""
    done = version_of(server, **preloading(allocator, os.environ))
    return done is not None and done.returncode == 0 and "LD_PRELOAD" not in done.stderr


def version_of(server: Path, **environ: str) -> subprocess.CompletedProcess[str] | None:
    """What `--version` prints with these variables; None if the server cannot be run here."""
    try:
        return subprocess.run(  # noqa: S603 - the binary is ours or the operator's
            [server, "--version"],
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
