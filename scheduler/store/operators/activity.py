"""What accounts did of late: for operators, who look at many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scheduler.rollups import COMPLETED, CREATED, DAY_MS, FAILED, HOUR_MS
from scheduler.store import keys
from scheduler.store.server import Server

_HOURS = 2
_SUMS = (COMPLETED, FAILED, CREATED)


class Activity(NamedTuple):
    """Since the hour before this one began: executions, those of them that failed, and schedules
    that were created."""

    fired: int
    failed: int
    created: int


async def activity_of(
    server: Server, account_ids: Sequence[str], now_ms: int
) -> dict[str, Activity]:
    """Two hours of each account's rollups, in one round trip. Read-only."""
    hours = [now_ms // HOUR_MS - back for back in range(_HOURS)]
    replies = await server.reads(
        [_command(account_id, hour) for account_id in account_ids for hour in hours]
    )
    found = {}
    for index, account_id in enumerate(account_ids):
        mine = replies[index * _HOURS : (index + 1) * _HOURS]
        completed, failed, created = (
            sum(int(v or 0) for v in each) for each in zip(*mine, strict=True)
        )
        found[account_id] = Activity(completed + failed, failed, created)
    return found


def since_ms(now_ms: int) -> int:
    """From when on that is."""
    return (now_ms // HOUR_MS - _HOURS + 1) * HOUR_MS


def _command(account_id: str, hour: int) -> tuple[str, ...]:
    day, of_day = divmod(hour, DAY_MS // HOUR_MS)
    return (
        "HMGET",
        f"{keys.account(account_id)}{keys.DAY}{day}",
        *(f"{of_day}{sum_}" for sum_ in _SUMS),
    )
