"""`postdate`, which on SIGUSR1 writes what `tests.support.inside` reads, and on SIGUSR2 how long
its containers are, to the file that ISOLATION_FILE names. A worker asks the name server
TEST_NAMES."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from cli.main import main
from tests.isolation.containers import lengths
from tests.support import inside
from worker.send import firer
from worker.send.addresses.resolver import SystemResolver


def _write(*_: object) -> None:
    path = Path(f"{os.environ['ISOLATION_FILE']}.{os.getpid()}")
    half = path.with_name(f"{path.name}.half")
    half.write_text(json.dumps(lengths()))
    half.rename(path)


if __name__ == "__main__":
    names = os.environ["TEST_NAMES"]
    firer.SystemResolver = lambda: SystemResolver([names])  # type: ignore[misc,assignment]
    inside.install()
    signal.signal(signal.SIGUSR2, _write)
    main()
