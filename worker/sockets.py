"""Sockets: how many files this process may have open, and what they are for."""

from __future__ import annotations

import resource
from typing import NamedTuple

import structlog

# For the store, look-ups, logs and what libraries open.
_RESERVED = 256
# Where the system sets no limit, that is what is asked for at the start as well.
_ENOUGH = 65_536
# Of all sockets, this part is for second attempts, which a fire can do without.
_SPARE_PART = 8
_log = structlog.get_logger(__name__)


class Budget(NamedTuple):
    """`sockets`: to targets, in all. `fires`: how many can be in flight, each with a socket.
    `spares`: those that second attempts may have."""

    sockets: int
    fires: int
    spares: int


def budget_of(most_files: int) -> Budget:
    """What a process that may have so many files open can do with them."""
    sockets = max(most_files // 2, most_files - _RESERVED)
    spares = sockets // _SPARE_PART
    return Budget(sockets, sockets - spares, spares)


def budget() -> Budget:
    """This process's, as its limit is now (RLIMIT_NOFILE)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return budget_of(_ENOUGH if soft == resource.RLIM_INFINITY else soft)


def fires_at_once(concurrency: int) -> int:
    """So many fires as were asked for, or as there are sockets for: an account's share of a worker
    is then its share of the sockets as well."""
    most = budget().fires
    if most < concurrency:
        _log.warning("the limit of open files (ulimit -n) allows fewer fires in flight", fires=most)
    return min(most, concurrency)
