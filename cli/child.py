"""A child process: started, kept alive, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import structlog

_log = structlog.get_logger()

_STDERR_FD = 2
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_STEADY_AFTER_S = 30.0
# Of one that was asked to end, perhaps before it had learned to do so in order.
_AS_ASKED = (0, -signal.SIGTERM)


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
            await self._start_again()

    async def _start_again(self) -> None:
        try:
            await self.start()
        except OSError as error:
            _log.error("cannot be started", child=self.name, error=str(error))

    def _open_output(self) -> IO[bytes]:
        if self._output is None:
            return os.fdopen(_STDERR_FD, "wb", closefd=False, buffering=0)
        return self._output.open("ab", buffering=0)
