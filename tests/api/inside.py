"""Objects that only the collector can free, written to a file on SIGUSR1, for tests.

The first look turns the garbage collector off; each one collects, and tells what only that could.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import tempfile
from collections import Counter
from pathlib import Path


def told_by(pid: int) -> Path:
    """Where a process tells it."""
    return Path(tempfile.gettempdir()) / f"inside-{pid}.json"


def install() -> None:
    signal.signal(signal.SIGUSR1, lambda *_: _tell())


def _tell() -> None:
    gc.disable()
    gc.unfreeze()
    path = told_by(os.getpid())
    path.with_suffix(".half").write_text(json.dumps(_uncollected()))
    path.with_suffix(".half").rename(path)


def _uncollected() -> Counter[str]:
    """Objects by type that nothing refers to but one another."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    found = Counter(map(_name, gc.garbage))
    gc.garbage.clear()
    gc.collect()
    return found


def _name(found: object) -> str:
    """Of a frame, a coroutine or a function its own; else of the type."""
    code = getattr(found, "f_code", None) or getattr(found, "cr_code", None)
    if code is not None:
        return f"{type(found).__name__} {code.co_qualname} {code.co_filename}"
    if isinstance(found, BaseException):
        return f"{type(found).__name__}: {found!s:.100}"
    return getattr(found, "__qualname__", type(found).__qualname__)
