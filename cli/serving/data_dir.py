"""The data dir: who holds it, where its Valkey listens, what lies in it.

lock          held by the `up` that uses the directory, and not inherited
valkey.lock   held by that `up` *and* by its Valkey, which inherits it: as long as any Valkey
              has the files open, even one whose `up` was killed, no second one can start
valkey.sock   its Unix socket
valkey.log, appendonlydir/
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from pathlib import Path
from typing import Self
from urllib.parse import quote

from scheduler.errors import PostdateError

_LONGEST_SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107  # of the kernel's


class DataDir:
    """The files of one embedded store. Making one touches nothing."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self.log = self.path / "valkey.log"
        self.socket = self.path / "valkey.sock"
        self.url = "unix://" + quote(str(self.socket))

    def make(self) -> None:
        """Makes the directory, private to its owner, if it is missing. Raises PostdateError."""
        if len(os.fsencode(self.socket)) > _LONGEST_SOCKET_PATH_BYTES:
            raise PostdateError(
                f"The path of the data dir {self.path} is too long for the socket in it: choose a"
                " shorter one with --data-dir."
            )
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(self.path, error) from None

    @property
    def open_to_others(self) -> str | None:
        """A sentence if users other than the owner may read the directory."""
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if not mode & 0o077:
            return None
        return (
            f"Others may look into the data dir {self.path} (mode {mode:03o}); what it holds"
            f" includes the secrets of targets: chmod 700 {self.path}"
        )


class Lock:
    """An exclusive lock on a file, for as long as any process has its descriptor open.

    The file has the holder's pid until it is freed: `abandoned` if the last holder was killed.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.abandoned = os.fstat(fd).st_size > 0
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())

    @classmethod
    def take(cls, directory: Path, name: str) -> Self | None:
        """The lock, or None if another process holds it."""
        try:
            fd = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable(directory, error) from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(fd)
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError as error:
            os.close(fd)
            raise _unusable(directory, error) from None

    def free(self) -> None:
        os.ftruncate(self.fd, 0)
        os.close(self.fd)


def take_lock(data_dir: DataDir) -> Lock:
    """Locks the data dir for this `up`, and makes it if it is missing. Raises PostdateError."""
    data_dir.make()
    lock = Lock.take(data_dir.path, "lock")
    if lock is None:
        raise PostdateError(f"Another `postdate up` uses the data dir {data_dir.path}.")
    return lock


def _unusable(directory: Path, error: OSError) -> PostdateError:
    return PostdateError(f"The data dir {directory} cannot be used: {error.strerror}.")
