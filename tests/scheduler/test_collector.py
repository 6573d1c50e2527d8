"""The garbage collector as processes have it."""

from __future__ import annotations

import subprocess
import sys

_RING = """
import gc, weakref
from scheduler.collector import spare_the_collector

class Ring: pass

spare_the_collector()
ring = Ring()
ring.itself, lost = ring, weakref.ref(ring)
gc.collect()  # from now on it is as old as can be
del ring
kept = []
while lost() is not None:
    kept.append([])
print(len(kept))
"""


def test_a_ring_is_found_though_it_is_old() -> None:
    done = subprocess.run([sys.executable, "-c", _RING], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 2_000_000
