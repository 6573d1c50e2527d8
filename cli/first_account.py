"""The account that `up` makes at its first start, so that there is something to begin with."""

from __future__ import annotations

from contextlib import suppress

from cli.options import open_store
from scheduler.errors import NameTaken, NotFound
from scheduler.models import Account, Plan
from scheduler.settings import Settings
from scheduler.store import Store
from scheduler.store.accounts.sessions import Purpose

FIRST_ACCOUNT = "default"
FIRST_CREDITS = 1_000_000


async def first_key(settings: Settings) -> str | None:
    """A key for the account `default` if it has none: at the first start, or if the first start
    was cut off between making the account and its key."""
    store = await open_store(settings)
    try:
        account = await _first_account(store)
        if await store.accounts.list_keys(account.account_id):
            return None
        _, value = await store.accounts.create_key(account.account_id, "first key")
        return value
    finally:
        await store.aclose()


async def sign_in_link(settings: Settings) -> str:
    store = await open_store(settings)
    try:
        account = await _first_account(store)
        return await store.sessions.make_link(account.account_id, Purpose.SIGN_IN)
    finally:
        await store.aclose()


async def _first_account(store: Store) -> Account:
    try:
        return await store.accounts.find(FIRST_ACCOUNT)
    except NotFound:
        with suppress(NameTaken):  # by another `up` on the same store, just now
            await store.accounts.create(
                FIRST_ACCOUNT, credits=FIRST_CREDITS, plan=Plan.UNLIMITED, operator=True
            )
        return await store.accounts.find(FIRST_ACCOUNT)
