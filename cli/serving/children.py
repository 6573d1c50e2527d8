"""Child processes, each kept alive. API and workers start together and end in order, whatever
signal their parent is sent; roles.py has their side."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
import structlog

from cli.serving.endings import hear_no_more
from cli.serving.port import Port
from scheduler.errors import PostdateError, SettingsError
from scheduler.runtime.settings import Settings, cidrs

_log = structlog.get_logger()

# How long a port may stay taken by the API of a parent that was killed: it is about to go.
ORPHAN_PATIENCE_S = 3.0
_LAST_PORT = 65_535
_STDERR_FD = 2
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_STEADY_AFTER_S = 30.0
# Of one that was asked to end, perhaps before it had learned to do so in order.
_AS_ASKED = (0, -signal.SIGTERM)
# How long a child may take to end; a worker beyond the time limit of a fire.
_API_GRACE_S = 20.0
_WORKER_GRACE_S = 10.0


class Child:
    """One process, in a session of its own so that Ctrl-C in the terminal does not reach it.

    `start` runs it once. After `keep_alive` it is started again whenever it ends, with a pause that
    doubles while it keeps ending; the log says so once. It prints to `output`, or to our stderr.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
        output: Path | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.name = name
        self._argv = argv
        self._environ = environ
        self._output = output
        self._pass_fds = pass_fds
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._hurried = False

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """Of the process that runs now, or ran last; 0 before the first."""
        return self._process.pid if self._process is not None else 0

    @property
    def ended(self) -> str:
        code = self._process.returncode if self._process else None
        if code is None:
            return "has not ended"
        return f"was killed by signal {-code}" if code < 0 else f"ended with exit status {code}"

    async def start(self, arguments: Sequence[str] = (), pass_fds: Sequence[int] = ()) -> None:
        """Runs it, with further arguments and descriptors this time. Raises OSError."""
        with self._open_output() as output:
            self._process = await asyncio.create_subprocess_exec(
                *self._argv,
                *arguments,
                env=self._environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(*self._pass_fds, *pass_fds),
                start_new_session=True,
            )

    def keep_alive(self) -> None:
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name=f"keep {self.name} alive")

    def let_end(self) -> None:
        """Does not start it again. Safe to repeat."""
        if self._keeper is not None:
            self._keeper.cancel()

    async def wait(self) -> None:
        """Until the process that runs now has ended."""
        if self._process is not None:
            await self._process.wait()

    async def stop(self, grace_s: float) -> bool:
        """Asks it to end, kills it after `grace_s`, and returns once it is gone. Safe to repeat.

        True if it ended as asked, did not run, or was hastened.
        """
        self.let_end()
        if self._keeper is not None:
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._process is None or not self.running:
            return True
        self._ask_to_end()
        try:
            await asyncio.wait_for(self._process.wait(), grace_s)
        except TimeoutError:
            _log.warning("does not stop, killed", child=self.name, after_s=grace_s)
            self._signal(signal.SIGKILL)
            await self._process.wait()
        return self._hurried or self._process.returncode in _AS_ASKED

    def hasten(self) -> None:
        """Kills it, for good."""
        self._hurried = True
        self.let_end()
        self._signal(signal.SIGKILL)

    def _ask_to_end(self) -> None:
        self._signal(signal.SIGTERM)

    def _has_refused(self) -> bool:
        """Whether starting it again is useless."""
        return False

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.running:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _keep(self) -> None:
        pause_s, said = _FIRST_PAUSE_S, False
        while True:
            since = time.monotonic()
            await self.wait()
            if self._has_refused():
                return
            if time.monotonic() - since > _STEADY_AFTER_S:
                pause_s, said = _FIRST_PAUSE_S, False
            if not said:
                _log.error("ended by itself, starting it again", child=self.name, how=self.ended)
                said = True
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            try:
                await self.start()
            except OSError as error:
                _log.error("cannot be started", child=self.name, error=str(error))

    def _open_output(self) -> IO[bytes]:
        if self._output is None:
            return os.fdopen(_STDERR_FD, "wb", closefd=False, buffering=0)
        return self._output.open("ab", buffering=0)


class TiedChild(Child):
    """One `postdate api` or `postdate worker` with these settings, tied to us by a socket pair.
    `arguments` follow the role on its command line. With a `port`, each start gets new listening
    sockets: those of a dead process are gone with it."""

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
        # -P: a directory that happens to be called as ours must not take its place.
        command = [sys.executable, "-P", "-m", "postdate_server"]
        argv = [*command, role, "--parent-fd", str(fd), *arguments]
        environ = {**os.environ, **_environment(settings)}
        super().__init__(name, argv, environ=environ, pass_fds=(fd,))
        self.role = role
        fire_s = settings.fire_timeout_ms / 1000
        self.grace_s = _API_GRACE_S if role == "api" else fire_s + _WORKER_GRACE_S
        self._is_ready = False
        self.refused = asyncio.Event()  # set once it has ended by itself before it was ready

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

    async def stop(self, grace_s: float) -> bool:
        as_asked = await super().stop(grace_s)
        self._ours.close()
        self._theirs.close()
        return as_asked

    def _ask_to_end(self) -> None:
        """By end-of-file: systemd sends SIGTERM to the group, and a second one would hasten it."""
        self._ours.close()
        if not self._is_ready:  # it would take a second before it looks
            super()._ask_to_end()

    def _has_refused(self) -> bool:
        status = self._process.returncode if self._process else None
        if self._is_ready or status is None or status < 0:
            return False
        self.refused.set()
        return True


class Children:
    """Children that are started again when they end. `stop` ends the APIs first, then the workers,
    so that what an API accepts meanwhile can still be fired."""

    def __init__(self) -> None:
        self._all: Sequence[TiedChild] = ()
        self.faults: list[str] = []

    async def start(self, children: Sequence[TiedChild], patience_s: float | None = None) -> None:
        """Returns once all are ready; a child that was killed meanwhile is started again. Raises
        PostdateError if one refuses to start, or after `patience_s`."""
        self._all = children
        for child in children:
            try:
                await child.start()
            except OSError as error:
                raise PostdateError(
                    f"The {child.name} process cannot be started: {error.strerror}."
                ) from None
            child.keep_alive()
        all_ready = asyncio.gather(*(child.ready() for child in self._all))
        refusals = [asyncio.ensure_future(child.refused.wait()) for child in self._all]
        awaited: list[asyncio.Future[Any]] = [all_ready, *refusals]
        try:
            await asyncio.wait(awaited, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            if not all_ready.done():
                raise PostdateError(self._why_not(patience_s))
        finally:
            for each in awaited:
                each.cancel()
            await asyncio.gather(*awaited, return_exceptions=True)

    def hasten(self) -> None:
        """Kills them: schedules in flight become due again."""
        for child in self._all:
            child.hasten()

    async def stop(self) -> None:
        """Returns once all are gone; `faults` then names those that did not end as asked."""
        if any(child.running for child in self._all):
            _log.info("stopping")
        for child in self._all:
            child.let_end()
        for role in ("api", "worker"):
            group = [child for child in self._all if child.role == role]
            as_asked = await asyncio.gather(*(child.stop(child.grace_s) for child in group))
            self.faults += [
                f"The {child.name} process {child.ended} when it was to stop."
                for child, well in zip(group, as_asked, strict=True)
                if not well
            ]

    def _why_not(self, patience_s: float | None) -> str:
        for child in self._all:
            if not child.running:
                return f"The {child.name} process {child.ended} before it was ready."
        return f"Postdate was not ready after {patience_s or 0:.0f} s."


async def supervise(
    children: Children, start: Callable[[contextlib.AsyncExitStack], Coroutine[Any, Any, None]]
) -> None:
    """Runs `start`, then waits for SIGINT, SIGTERM or SIGHUP and unwinds the stack that `start`
    filled. A second signal hastens the children.

    Raises PostdateError if it cannot start, or if a child did not end as asked.
    """
    asked_to_stop = asyncio.Event()

    def on_signal() -> None:
        if asked_to_stop.is_set():
            children.hasten()
        asked_to_stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
            continue  # as nohup has it
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    async with contextlib.AsyncExitStack() as stops:
        starting = asyncio.create_task(start(stops))
        stopping = asyncio.create_task(asked_to_stop.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
            await stopping
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            stopping.cancel()
    hear_no_more()
    if children.faults:
        raise PostdateError(" ".join(children.faults))


def with_metrics_port(settings: Settings, place: int) -> Settings:
    """Settings with the metrics port of the child at this place, counted from 0. Raises
    SettingsError if there is no such port."""
    if not settings.metrics_port:
        return settings
    port = settings.metrics_port + place
    if port > _LAST_PORT:
        raise SettingsError(
            f"POSTDATE_METRICS_PORT cannot be {settings.metrics_port}: each process takes the next"
            f" port, and {port} is none."
        )
    return msgspec.structs.replace(settings, metrics_port=port)


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
