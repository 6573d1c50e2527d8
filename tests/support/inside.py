"""What a process holds that it was not asked for, written to a file on SIGUSR1, for tests."""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import os
import signal
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.support.waiting import until

_LARGE_BYTES, _LARGE_BLOCKS = 256 * 1024, 100


class Inside(NamedTuple):
    """`uncollected`: objects by type that only the garbage collector could free; `texts` of all
    functools caches; `mapped`: how many of 100 large blocks are not from glibc's heap."""

    uncollected: dict[str, int]
    texts: list[str]
    mapped: int


def inside(pid: int) -> Inside:
    """What a process that has called `install` holds. From the first look on it collects no
    garbage of itself."""
    os.kill(pid, signal.SIGUSR1)
    path = _written_by(pid)
    until(path.exists, "the process to look inside")
    found = Inside(*json.loads(path.read_text()))
    path.unlink()
    return found


def install() -> None:
    signal.signal(signal.SIGUSR1, lambda *_: _write())


def _written_by(pid: int) -> Path:
    return Path(tempfile.gettempdir()) / f"inside-{pid}.json"


def _write() -> None:
    gc.disable()
    gc.unfreeze()
    path = _written_by(os.getpid())
    path.with_suffix(".half").write_text(json.dumps([_uncollected(), _texts(), _mapped()]))
    path.with_suffix(".half").rename(path)


def _uncollected() -> Counter[str]:
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


def _texts() -> list[str]:
    """What all functools caches have of texts, in keys and in values."""
    caches = [each for each in gc.get_objects() if isinstance(each, functools._lru_cache_wrapper)]
    looked = {id(part) for cache in caches for part in (cache.__wrapped__, cache.__dict__)}
    left, texts = [part for cache in caches for part in gc.get_referents(cache)], []
    while left:
        each = left.pop()
        if isinstance(each, str | bytes):
            texts.append(each if isinstance(each, str) else each.decode("latin-1"))
        elif id(each) not in looked and (
            isinstance(each, dict | tuple | list | set) or hasattr(each, "__struct_fields__")
        ):
            looked.add(id(each))
            left += gc.get_referents(each)
    return texts


class _Mallinfo2(ctypes.Structure):
    _fields_ = tuple((f"field_{n}", ctypes.c_size_t) for n in range(10))


def _mapped() -> int:
    mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo2 is None:  # another malloc
        return _LARGE_BLOCKS
    mallinfo2.restype = _Mallinfo2
    before = mallinfo2().field_3  # hblks
    blocks = [bytearray(_LARGE_BYTES) for _ in range(_LARGE_BLOCKS)]
    return int(mallinfo2().field_3 - before) if blocks else 0
