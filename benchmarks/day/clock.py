"""A store whose clock can be stepped: a small library that is loaded into it (`clock.c`).

libfaketime does the same, but not in one process with jemalloc, which asks for the time before
libfaketime can answer.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
import time
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")
_STEP = struct.Struct("q")


class SteppedClock:
    """The store's wall clock: this machine's and `step_us` more, as a file says that all who need
    it have mapped. Steps go forward only."""

    def __init__(self, file: Path) -> None:
        self.file = file
        if not file.exists():
            file.write_bytes(_STEP.pack(0))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), _STEP.size)

    @property
    def step_us(self) -> int:
        return int(_STEP.unpack_from(self._map)[0])

    def now_us(self) -> int:
        return time.time_ns() // 1000 + self.step_us

    def now_ms(self) -> int:
        return self.now_us() // 1000

    def step_to(self, moment_ms: int) -> None:
        """From now on it is that moment, unless it has passed."""
        ahead_us = 1000 * moment_ms - self.now_us()
        if ahead_us > 0:
            _STEP.pack_into(self._map, 0, self.step_us + ahead_us)

    def environment(self) -> dict[str, str]:
        """For the store's process. Ends the benchmark where there is no C compiler."""
        compiler = shutil.which("cc")
        if compiler is None:
            raise SystemExit("A C compiler is needed, to step the store's clock: install gcc.")
        library = self.file.with_suffix(".so")
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        return {"LD_PRELOAD": str(library), "STEPPED_CLOCK": str(self.file)}
