"""The process that others are forked from: see `forks`. It has imported Postdate and done nothing.

Each fork becomes what it was asked to be, and then runs it as Python does, to its own end.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.forks import MOST_BYTES, MOST_FDS, Popen, Stem, die_with_parent

# What processes of Postdate import; not `cli.main`, which is run.
_MODULES = """
    cli.serving.up cli.serving.roles api.serve api.metrics_source worker.worker
    worker.metrics_source metrics.port uvloop uvicorn.protocols.http.httptools_impl
    uvicorn.lifespan.on uvicorn.loops.uvloop anyio._backends._asyncio encodings.idna
"""
_ABOVE_ALL_FDS = 256


def import_all() -> None:
    for name in _MODULES.split():
        importlib.import_module(name)
    import api.serve
    from tests.support import apps

    apps.built()  # which takes longer than all else that an API does before it is ready
    api.serve.create_app = apps.app_of_a_fork
    gc.collect()
    gc.freeze()  # pages that are not touched again are never copied


def serve(end: socket.socket) -> dict[str, Any]:
    """Forks on request, until all callers are gone. Returns in each fork, which has
    become the requested process but has not begun."""
    while True:
        asked, fds = _received(end)
        if not _is_fork(end):
            _close(fds)
            continue
        end.close()
        if asked["has_children"] and (branch := _branched()):
            _close(fds)
            end = branch
            continue
        _become(asked, fds)
        return asked


def _received(end: socket.socket) -> tuple[dict[str, Any], list[int]]:
    words, packed, _, _ = end.recvmsg(MOST_BYTES, socket.CMSG_SPACE(MOST_FDS * 4))
    if not words:
        sys.exit()
    fds = array.array("i")
    for _, _, data in packed:
        fds.frombytes(data)
    return json.loads(words), list(fds)


def _is_fork(end: socket.socket) -> bool:
    """Makes a grandchild, sends its id to the caller, and returns in both. It begins as soon as
    the child between us is gone, and the caller is its parent."""
    told, tells = os.pipe()
    waits, lets = os.pipe()
    between = os.fork()
    if between == 0:
        fork = os.fork()
        if fork:
            os.write(tells, b"%d" % fork)
            os._exit(0)
        _close([told, tells, lets])
        os.read(waits, 1)
        os.close(waits)
        return True
    os.waitpid(between, 0)
    end.send(os.read(told, 100))
    _close([told, tells, waits, lets])
    return False


def _branched() -> socket.socket | None:
    """Makes a stem for the children that we shall have; returns in both, there with its socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        die_with_parent(signal.SIGKILL)
        os.setsid()
        return theirs
    theirs.close()
    ours = socket.socket(fileno=fcntl.fcntl(ours.detach(), fcntl.F_DUPFD_CLOEXEC, _ABOVE_ALL_FDS))
    Popen.stem = Stem(ours)
    subprocess.Popen = Popen  # type: ignore[misc]
    return None


def _become(asked: dict[str, Any], fds: list[int]) -> None:
    if asked["dies_with_us"]:
        die_with_parent()
    if asked["new_session"]:
        os.setsid()
    _hold(dict(zip(asked["fds"], fds, strict=True)))
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [each for each in path if each and each not in sys.path]
    time.tzset()
    _show(asked["command"], asked["environment"])


def _hold(fds: dict[int, int]) -> None:
    """Has these descriptors and no others, but for the way to a stem of ours."""
    out_of_the_way = {
        fd: fcntl.fcntl(held, fcntl.F_DUPFD, _ABOVE_ALL_FDS) for fd, held in fds.items()
    }
    os.closerange(0, _ABOVE_ALL_FDS)
    for fd, held in out_of_the_way.items():
        os.dup2(held, fd)
    _close(list(out_of_the_way.values()))


def _show(command: list[str], environment: dict[str, str]) -> None:
    """What `ps` and /proc show of us. This is where the system put what we were started with, and
    from where it reads it; Python and the C library have copies of their own by now."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    arguments, arguments_end, variables, variables_end = map(int, fields[45:49])
    lines = [f"{name}={text}" for name, text in environment.items()]
    _write(arguments, arguments_end, command)
    _write(variables, variables_end, lines)


def _write(start: int, end: int, words: list[str]) -> None:
    text = b"".join(os.fsencode(word) + b"\0" for word in words)[: end - start - 1]
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, text, len(text))


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


if __name__ == "__main__":
    import_all()
    _asked = serve(socket.socket(fileno=int(sys.argv[1])))
    _, _, _, _module, *_arguments = _asked["command"]
    sys.argv = [_module, *_arguments]
    runpy.run_module(_module, run_name="__main__", alter_sys=True)
