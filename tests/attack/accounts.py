"""Accounts of an attack: what they schedule, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.models import LogEntry, LogStatus, Plan, Request
from scheduler.store import Store
from scheduler.store.log.logs import LogQuery

_AT_ONCE = 100


async def open_account(store: Store, name: str) -> tuple[str, str]:
    """A new account's id, and a key of it."""
    made = await store.accounts.create(name, credits=1_000_000, plan=Plan.UNLIMITED)
    return made.account_id, (await store.api_keys.create(made.account_id, "attack"))[1]


async def schedule_all(store: Store, account_id: str, requests: Sequence[Request]) -> None:
    for start in range(0, len(requests), _AT_ONCE):
        await store.schedules.create_all(account_id, requests[start : start + _AT_ONCE])


async def all_ended(store: Store, account_id: str) -> list[LogEntry]:
    """The log's entries of the account's requests that have ended."""
    found: list[LogEntry] = []
    cursor: str | None = None
    while True:
        page = await store.logs.page(account_id, LogQuery(limit=1000, cursor=cursor))
        found += [each for each in page.entries if each.status is not LogStatus.SCHEDULED]
        cursor = page.next_cursor
        if cursor is None:
            return found
