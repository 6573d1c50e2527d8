"""The account that `up` makes at its first start, so that there is something to begin with."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from scheduler.errors import NameTaken, NotFound
from scheduler.models import Account, Plan
from scheduler.store import Store

FIRST_ACCOUNT = "default"
FIRST_CREDITS = 1_000_000


class First(NamedTuple):
    """The first account as it is now, and a key of it if it had none until now."""

    account: Account
    key: str | None


async def first_account(store: Store) -> First | None:
    """Makes it and its key at the first start, or what of that the first start was cut off before.
    None if it was deleted since: it is not made again."""
    account = await _first_account(store)
    if account is None:
        return None
    if await store.api_keys.of_account(account.account_id):
        return First(account, None)
    _, value = await store.api_keys.create(account.account_id, "first key")
    return First(account, value)


async def _first_account(store: Store) -> Account | None:
    """It is noted by its id: it may be called otherwise by now."""
    noted = await store.accounts.first()
    if noted is not None:
        try:
            return await store.accounts.get(noted)
        except NotFound:
            return None
    with suppress(NameTaken):  # before it was noted, or by another `up` on the same store, just now
        await store.accounts.create(
            FIRST_ACCOUNT, credits=FIRST_CREDITS, plan=Plan.UNLIMITED, operator=True
        )
    account = await store.accounts.find(FIRST_ACCOUNT)
    await store.accounts.note_first(account.account_id)
    return account
