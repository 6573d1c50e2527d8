"""Objects that a process holds, written to a file on SIGUSR1, for tests.

The first look turns the garbage collector off; each one collects, and tells what only that could.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def told_by(pid: int) -> Path:
    """Where a process tells it."""
    return Path(tempfile.gettempdir()) / f"inside-{pid}.json"


def install() -> None:
    signal.signal(signal.SIGUSR1, lambda *_: _tell())


def _tell() -> None:
    gc.disable()
    gc.unfreeze()
    report = {"uncollected": _uncollected(), "texts": dict(_caches())}
    path = told_by(os.getpid())
    path.with_suffix(".half").write_text(json.dumps(report))
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


def _caches() -> Iterator[tuple[str, list[str]]]:
    """What each `functools.lru_cache` has of texts."""
    for cache in gc.get_objects():
        if isinstance(cache, functools._lru_cache_wrapper):
            yield f"{cache.__module__}.{cache.__qualname__}", list(_texts_in(cache))


def _texts_in(cache: functools._lru_cache_wrapper[Any]) -> Iterator[str]:
    seen = {id(cache.__wrapped__), id(cache.__dict__)}
    for each in gc.get_referents(cache):
        if not isinstance(each, type):
            yield from _texts(each, seen)


def _texts(found: object, seen: set[int]) -> Iterator[str]:
    if id(found) in seen:
        return
    seen.add(id(found))
    if isinstance(found, str):
        yield found
    elif isinstance(found, bytes):
        yield found.decode("latin-1")
    elif isinstance(found, dict):
        for each in (*found.keys(), *found.values()):
            yield from _texts(each, seen)
    elif isinstance(found, tuple | list | set) or hasattr(found, "__struct_fields__"):
        for each in gc.get_referents(found):
            yield from _texts(each, seen)
