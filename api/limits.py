"""How much a client may ask of a process before it has shown a key. Pure."""

from __future__ import annotations

from scheduler.runtime.settings import Settings

MAX_HEAD_LINES = 256
# Of a request's path and query.
MAX_TARGET_BYTES = 8 * 1024
# Requests that may wait on a connection for the answer to an earlier one.
MAX_PIPELINED = 32
# Connections kept for /healthz and /readyz.
FOR_HEALTH = 32
# So much of each body is not counted: small schedules, and the dashboard's forms, which need no
# key, get in however full the budget is.
UNCOUNTED_BYTES = 64 * 1024
# Items of one call.
MAX_ITEMS = 1000
# Memory for each byte of a body until it is answered: the request, the request packed for the
# store, and packed again for the wire.
_MADE_OF_A_BYTE = 5
# And for each item of a batch, its answer included.
_MADE_OF_AN_ITEM_BYTES = 1024
# A body is found too large one read above the bound.
_ONE_READ_BYTES = 256 * 1024


def budgets(settings: Settings) -> tuple[int, int]:
    """The bytes for the bodies of all requests, and for the objects made of them: half of the
    setting each. A single body of the largest allowed size always fits into both."""
    largest_bytes = max(settings.max_batch_bytes, settings.max_body_bytes)
    half_bytes = settings.bodies_bytes // 2
    return (
        max(half_bytes, largest_bytes + _ONE_READ_BYTES),
        max(half_bytes, made_of(largest_bytes, MAX_ITEMS)),
    )


def made_of(body_bytes: int, items: int) -> int:
    """The memory (bytes) that a body of so many items costs; 0 for a small one."""
    of_bytes = _MADE_OF_A_BYTE * (body_bytes - UNCOUNTED_BYTES)
    of_items = _MADE_OF_AN_ITEM_BYTES * items - UNCOUNTED_BYTES
    return max(0, of_bytes) + max(0, of_items)
