"""As many open files as the system lets a process have: each connection is one."""

from __future__ import annotations

import contextlib
import resource

# Where the hard limit says "no limit", some systems refuse to be taken at their word.
_ENOUGH = 65_536


def raise_limit() -> None:
    """Raises the soft limit to the hard one, or to what is enough. The usual soft limit, 1,024,
    is below the 4,096 fires that a worker may have in flight. What cannot be raised stays."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
