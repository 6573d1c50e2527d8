"""Processes of Postdate that are forked from one which has imported all of it, the stem.

Half a second of imports is most of what a short-lived process costs, and hundreds are started
here. A fork is a process like any other: it has its own id, environment, descriptors,
signals and end, and is a child of its caller; `ps` shows the command line that was asked
for. On Linux only; elsewhere, and for every other command, `Popen` here is the usual one.
"""

from __future__ import annotations

import array
import atexit
import ctypes
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MOST_FDS = 64
MOST_BYTES = 128 * 1024
_OURS = ("cli.", "postdate_server", "tests.api.", "tests.isolation.")
_STEM = "tests.support.stem"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None)
_SIGNATURE = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """The system sends us this signal when the thread that is our parent is no more."""
    _libc.prctl(_PR_SET_PDEATHSIG, number)


def is_ours(command: Sequence[Any]) -> bool:
    """Whether it is Python that runs a command of Postdate: `-P -m cli.main up`."""
    words = list(command)
    ours = words[:3] == [sys.executable, "-P", "-m"] and words[3].startswith(_OURS)
    return ours and sys.platform == "linux"


def is_stem(pid: int) -> bool:
    """Whether this is a process that others are forked from, and none of Postdate's."""
    return f"\0{_STEM}\0".encode() in Path(f"/proc/{pid}/cmdline").read_bytes()


class Popen(subprocess.Popen):  # type: ignore[type-arg]
    """Forks Postdate's processes, starts others. With `preexec_fn` they die with us."""

    stem: Stem | None = None  # of this process

    def _execute_child(self, *arguments: Any) -> None:
        given = _SIGNATURE.bind(self, *arguments).arguments
        if not is_ours(given["args"]):
            super()._execute_child(*arguments)  # type: ignore[misc]
            return
        pipes = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        ends = [own if pipe == -1 else pipe for own, pipe in enumerate(pipes)]
        wanted = dict(zip((0, 1, 2), ends, strict=True)) | {fd: fd for fd in given["pass_fds"]}
        environment = os.environ if given["env"] is None else given["env"]
        self.pid = _stem().fork(
            {
                "command": [os.fspath(word) for word in given["args"]],
                "environment": dict(environment),
                "directory": os.fspath(given["cwd"] or Path.cwd()),
                "new_session": given["start_new_session"],
                "dies_with_us": given["preexec_fn"] is not None,
                "has_children": _has_children(given["args"], environment),
                "fds": list(wanted),
            },
            list(wanted.values()),
        )
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in _PIPES))  # type: ignore[attr-defined]


def _has_children(command: Sequence[Any], environment: Mapping[str, str]) -> bool:
    """Whether it starts processes of Postdate itself."""
    words = [*command, *environment]
    return "up" in words or "bench" in words or any("processes" in word.lower() for word in words)


_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


class Stem:
    """Our end of the way to a stem, which is a child of ours."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._turn = threading.Lock()

    @classmethod
    def start(cls) -> Stem:
        """A new Python. Its command line and environment have room for those of its forks."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", _STEM, str(theirs.fileno()), "." * 4096],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ROOM": "." * 16384},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        stem = cls(ours)
        atexit.register(stem._end_with, process)
        return stem

    def _end_with(self, process: subprocess.Popen[bytes]) -> None:
        self._end.close()
        process.wait()

    def fork(self, asked: dict[str, Any], fds: list[int]) -> int:
        """The id of the new process, which is a child of ours: the one between us and it is no
        more, and the system hands orphans to the next ancestor that takes them."""
        packed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        with self._turn:
            _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
            try:
                self._end.sendmsg([json.dumps(asked).encode()], packed)
                told = self._end.recv(100)
            finally:
                _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0)
        if not told:
            raise RuntimeError("the stem is gone")
        return int(told)


def _stem() -> Stem:
    if Popen.stem is None:
        Popen.stem = Stem.start()
    return Popen.stem
