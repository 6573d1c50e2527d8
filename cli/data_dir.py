"""The data dir: who holds it, where its Valkey listens, what lies in it.

lock          held by the `up` that uses the directory, and not inherited
valkey.lock   held by that `up` *and* by its Valkey, which inherits it: as long as any Valkey
              has the files open, even one whose `up` was killed, no second one can start
valkey.sock   its Unix socket, or a link to it (see `_socket_path`)
valkey.log, appendonlydir/
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Self
from urllib.parse import quote

from scheduler.errors import PostdateError

# The kernel takes socket paths of 107 bytes (Linux) or 103 (macOS).
_LONGEST_SOCKET_PATH_BYTES = 100


class DataDir:
    """The files of one embedded store. Making one touches nothing."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self.log = self.path / "valkey.log"

    @property
    def socket(self) -> Path:
        """Where this directory's Valkey listens, or would."""
        link = self.path / "valkey.sock"
        return link.readlink() if link.is_symlink() else _socket_path(self.path)

    @property
    def url(self) -> str:
        return "unix://" + quote(str(self.socket))

    def make(self) -> None:
        """Makes the directory, private to its owner, if it is missing."""
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

    def make_socket_path(self) -> Path:
        """Clears the way for a server's socket. Only for the holder of `valkey.lock`."""
        link, socket = self.path / "valkey.sock", _socket_path(self.path)
        link.unlink(missing_ok=True)
        if socket != link:
            _make_private(socket.parent)
            socket.unlink(missing_ok=True)
            link.symlink_to(socket)
        return socket

    def remove_socket(self) -> None:
        link, socket = self.path / "valkey.sock", self.socket
        socket.unlink(missing_ok=True)
        link.unlink(missing_ok=True)
        if socket.parent != self.path and socket.parent.is_dir():
            socket.parent.rmdir()


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


def _socket_path(directory: Path) -> Path:
    """`valkey.sock` in the data dir, unless that path is too long for a socket.

    Then the socket lies in a short private directory, named by a hash of the data dir's path, and
    `valkey.sock` is a link to it. Clients follow the link, so TMPDIR may change meanwhile.
    """
    path = directory / "valkey.sock"
    if len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH_BYTES:
        return path
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    return Path(_short_dir()) / f"postdate-{os.getuid()}-{digest}" / "valkey.sock"


def _short_dir() -> str:
    """Not XDG_RUNTIME_DIR: that is emptied when its user logs out."""
    directory = tempfile.gettempdir()
    return directory if len(os.fsencode(directory)) < _LONGEST_SOCKET_PATH_BYTES // 2 else "/tmp"  # noqa: S108


def _make_private(directory: Path) -> None:
    """Makes a directory where others may write too, and trusts none of theirs."""
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PostdateError(f"{directory} is not a private directory of this user; remove it.")


def _unusable(directory: Path, error: OSError) -> PostdateError:
    return PostdateError(f"The data dir {directory} cannot be used: {error.strerror}.")
