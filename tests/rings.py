"""Rings: objects that refer to each other, so that only the garbage collector would free them."""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Iterator


@contextlib.contextmanager
def counting_rings() -> Iterator[Counter[str]]:
    """The collector does not run meanwhile; at the end there is how many objects of each type it
    would have freed."""
    gc.collect()
    found: Counter[str] = Counter()
    enabled = gc.isenabled()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found.update(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        if enabled:
            gc.enable()
