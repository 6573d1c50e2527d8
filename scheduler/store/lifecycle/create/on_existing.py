"""Creates that may mean a schedule which waits with their reference: what the script gets for each,
and what it says. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler import ids
from scheduler.models import Packed, Request, Upsert
from scheduler.store.stored import due_at

_LOCAL_BYTES = 26


def means_existing(requests: Sequence[Request | Packed | Upsert]) -> bool:
    return Upsert in map(type, requests)


def row_of(wanted: Upsert, created_ms: int, basis: str = "") -> tuple[Request | Packed, str]:
    """The request as it is stored, and what the script does if a schedule waits with its reference.
    `basis`: the local id of the one for which the request is made ("": for a new one). Its moment
    counts for the longest wait; what that has ended for is due at once. A request that is due by
    the longest wait of a new one fits no other: another process may have made one meanwhile, or
    tell the store's time earlier than this one does."""
    request, keep, max_wait_ms = wanted
    if keep or max_wait_ms is None:
        return request, "k" if keep else "r"
    first_ms = ids.created_at_ms(ids.schedule_id(basis)) if basis else created_ms
    latest_ms = max(first_ms + max_wait_ms, created_ms)
    due_ms = min(request.trigger_at_ms, latest_ms)
    is_bounded = due_ms < request.trigger_at_ms
    way = f"r={basis}" if basis or is_bounded else f"r<{ids.moment_digits(due_ms - max_wait_ms)}"
    return due_at(request, due_ms), way


def bases_of(reply: bytes) -> list[str]:
    """For which ids, if any, requests have to be made anew, by the script."""
    text = reply.decode()
    return [text[n : n + _LOCAL_BYTES].strip() for n in range(0, len(text), _LOCAL_BYTES)]
