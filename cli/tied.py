"""A child in a role, API or worker, that a socket pair ties to us; roles.py has its side of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Sequence

from cli.child import Child
from cli.port import Port
from scheduler.settings import Settings, cidrs

# How long a child may take to end; a worker beyond the time limit of a fire.
_API_GRACE_S = 20.0
_WORKER_GRACE_S = 10.0


class TiedChild(Child):
    """One `postdate api` or `postdate worker` with these settings. `arguments` follow the role on
    its command line. With a `port`, each start gets new listening sockets: those of a dead process
    are gone with it."""

    def __init__(
        self,
        name: str,
        role: str,
        settings: Settings,
        *,
        arguments: Sequence[str] = (),
        port: Port | None = None,
    ) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._port = port
        fd = self._theirs.fileno()
        # -P: a directory that happens to be called `cli` must not take our place.
        argv = [sys.executable, "-P", "-m", "cli.main", role, "--parent-fd", str(fd), *arguments]
        environ = {**os.environ, **_environment(settings)}
        super().__init__(name, argv, environ=environ, pass_fds=(fd,))
        self.role = role
        fire_s = settings.fire_timeout_ms / 1000
        self.grace_s = _API_GRACE_S if role == "api" else fire_s + _WORKER_GRACE_S
        self._is_ready = False
        self._refused = asyncio.Event()

    async def start(self, arguments: Sequence[str] = (), pass_fds: Sequence[int] = ()) -> None:
        listeners = self._port.listen() if self._port else []
        with contextlib.ExitStack() as ours:
            for each in listeners:
                ours.enter_context(each)
            fds = [each.fileno() for each in listeners]
            named = [word for fd in fds for word in ("--listen-fd", str(fd))]
            await super().start([*arguments, *named], [*pass_fds, *fds])

    async def ready(self) -> None:
        """Returns once it, or a process that replaced it, has said that it is ready."""
        if not self._is_ready:
            await asyncio.get_running_loop().sock_recv(self._ours, 1)
            self._is_ready = True

    async def refused(self) -> None:
        """Returns once it has ended by itself before it was ready."""
        await self._refused.wait()

    async def stop(self, grace_s: float) -> bool:
        as_asked = await super().stop(grace_s)
        self._ours.close()
        self._theirs.close()
        return as_asked

    def _ask_to_end(self) -> None:
        """By end-of-file: systemd sends SIGTERM to the whole group, and a second one would hasten
        it."""
        self._ours.close()
        if not self._is_ready:  # it would take a second before it looks
            super()._ask_to_end()

    def _has_refused(self) -> bool:
        status = self._process.returncode if self._process else None
        if self._is_ready or status is None or status < 0:
            return False
        self._refused.set()
        return True


def _environment(settings: Settings) -> dict[str, str]:
    """Settings that our own environment may lack."""
    return {
        "POSTDATE_REDIS_URL": settings.redis_url or "",
        "POSTDATE_DATA_DIR": os.fspath(settings.data_dir),
        "POSTDATE_HOST": settings.host,
        "POSTDATE_PORT": str(settings.port),
        "POSTDATE_METRICS_HOST": settings.metrics_host,
        "POSTDATE_METRICS_PORT": str(settings.metrics_port),
        "POSTDATE_PROCESSES": "1",
        "POSTDATE_ALLOW_TARGETS": cidrs(settings.allow_targets) or "none",
        "POSTDATE_DESTINATION_ERRORS": settings.destination_errors,
    }
