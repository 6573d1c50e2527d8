"""What is paused of an account: said on each of its pages while it lasts."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from scheduler.lane_settings import AccountSettings
from scheduler.store import Store
from scheduler.store.lanes.lanes import PausedLanes

_NAMED = 3


class Paused(NamedTuple):
    """`account` is None unless the account itself is paused."""

    account: AccountSettings | None
    lanes: PausedLanes


async def paused_of(store: Store, account_id: str) -> Paused:
    account, lanes = await asyncio.gather(
        store.pauses.read(account_id), store.lanes.paused(account_id, _NAMED)
    )
    return Paused(account if account.pause else None, lanes)
