"""Leaves nothing of a bench, however it ended: waits for its end, then ends its store and removes
its files.

    python -m cli.bench.sweeper FD DIRECTORY

FD is the read end of a pipe whose other end the bench alone has: it breaks when that is gone.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

from cli.data_dir import DataDir, Lock
from cli.embedded import ask

_PATIENCE_S = 30.0
_POLL_S = 0.02


def sweep(fd: int, directory: Path) -> None:
    while os.read(fd, 1):
        pass
    data_dir = DataDir(directory)
    deadline = time.monotonic() + _PATIENCE_S
    # Its Valkey holds this for as long as it runs; one that is starting is asked once more.
    while Lock.take(directory, "valkey.lock") is None and time.monotonic() < deadline:
        ask(data_dir.socket, "SHUTDOWN NOSAVE")
        time.sleep(_POLL_S)
    data_dir.remove_socket()
    shutil.rmtree(directory)


if __name__ == "__main__":
    sweep(int(sys.argv[1]), Path(sys.argv[2]))
