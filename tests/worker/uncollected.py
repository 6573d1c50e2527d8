"""`postdate`, but the garbage collector runs only when SIGUSR1 comes: then stderr has a line of
JSON with how many objects of each type were left to it, and one with how many large blocks glibc
maps of 100 that are allocated (null: it is another malloc). Names are asked of the server that
ATTACK_NAMES says."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
from collections import Counter

from cli.main import main
from worker import firer, worker
from worker.resolver import SystemResolver

_LARGE_BYTES, _LARGE_BLOCKS = 256 * 1024, 100


def _collect_nothing() -> None:
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)


def _tell(*_: object) -> None:
    gc.collect()
    found = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage)
    gc.garbage.clear()
    sys.stderr.write(f"mapped {json.dumps(_mapped(_LARGE_BYTES, _LARGE_BLOCKS))}\n")
    sys.stderr.write(f"rings {json.dumps(found)}\n")
    sys.stderr.flush()


class _Mallinfo2(ctypes.Structure):
    _fields_ = tuple((f"field_{n}", ctypes.c_size_t) for n in range(10))


def _mapped(size: int, count: int) -> int | None:
    """How many of so many blocks are not taken from the heap."""
    mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo2 is None:
        return None
    mallinfo2.restype = _Mallinfo2
    before = mallinfo2().field_3  # hblks
    blocks = [bytearray(size) for _ in range(count)]
    return int(mallinfo2().field_3 - before) if blocks else None


if __name__ == "__main__":
    firer.SystemResolver = lambda: SystemResolver([os.environ["ATTACK_NAMES"]])  # type: ignore[misc,assignment]
    worker.spare_the_collector = _collect_nothing
    signal.signal(signal.SIGUSR1, _tell)
    main()
