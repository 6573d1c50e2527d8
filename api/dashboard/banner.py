"""The banner of an account with a pause, on each of its pages while that lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import NamedTuple, TypeVar

import structlog

from scheduler.errors import StoreRefused
from scheduler.lane_settings import AccountSettings
from scheduler.store import Store
from scheduler.store.lanes.lanes import PausedLanes

T = TypeVar("T")

_NAMED = 3
_log = structlog.get_logger()


class Paused(NamedTuple):
    """`account` is None unless the account itself is paused. `damaged`: the store does not say all
    of it."""

    account: AccountSettings | None
    lanes: PausedLanes
    damaged: bool


async def paused_of(store: Store, account_id: str) -> Paused:
    """Damage does not take the page away that the banner stands on."""
    account, lanes = await asyncio.gather(
        readable(store.pauses.read(account_id), account_id),
        readable(store.lanes.paused(account_id, _NAMED), account_id),
    )
    return Paused(
        account if account and account.pause else None,
        lanes or PausedLanes(0, []),
        damaged=account is None or lanes is None,
    )


async def readable(reading: Awaitable[T], account_id: str) -> T | None:
    """None if it is damaged, which is logged."""
    try:
        return await reading
    except StoreRefused as error:
        _log.error("a pause is damaged", account=account_id, error=str(error))
        return None
