"""The service's own data after all has healed: read over HTTP, and by `postdate check`."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
import msgspec

from tests.chaos.clients import Customer
from tests.chaos.history import (
    Account,
    Answered,
    Entry,
    Final,
    Invoked,
    Secret,
    Skipped,
    read_history,
)
from tests.support.commands import postdate

_AT_ONCE = 8
_POLL_S = 0.3
_TRIES = 20
_FORGIVEN = 3
# The first retry of a callback comes after 16 s at most.
_REPORTED_S = 30.0


class Reader:
    """One account, read through one API. Now that all has healed, an answer of 500 and more is a
    mishap: it is noted in `mishaps`, and asked for again. The first 503s are not, from connections
    that broke while idle."""

    def __init__(self, api: str, customer: Customer) -> None:
        self.mishaps: list[str] = []
        self.http = httpx.AsyncClient(
            base_url=api, headers={"x-api-key": customer.api_key}, timeout=60.0, verify=False
        )

    async def settle(self, patience_s: float) -> None:
        """Returns once nothing that is due waits any more, or when the time is up."""
        end_s = time.monotonic() + patience_s
        while time.monotonic() < end_s:
            soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 30))
            # Held schedules may be missing in lists of waiting ones; the log has both.
            if not (await self._get("/stats/logs", status="scheduled", to=soon, limit=1))["logs"]:
                return
            await asyncio.sleep(_POLL_S)

    async def read(self, ids: set[str]) -> Account:
        """All its data; `ids` are those in answers to clients."""
        entries = await self._pages("/stats/logs", "logs", status="all", order="asc")
        skipped = [each for each in entries if each["status"] == "skipped"]
        log = [msgspec.convert(each, Entry) for each in entries if each["status"] != "skipped"]
        waiting = await self._pages("/schedule", "schedules")
        wanted = sorted(ids | {entry.schedule_id for entry in log})
        gate = asyncio.Semaphore(_AT_ONCE)
        found = await asyncio.gather(*(self._reported(each, gate) for each in wanted))
        return Account(
            credits=(await self._get("/stats/remaining-credits"))["creditsRemaining"],
            stats=await self._get("/stats"),
            log=log,
            schedules=dict(zip(wanted, found, strict=True)),
            waiting=[each["scheduleId"] for each in waiting],
            secrets=msgspec.convert((await self._get("/signing"))["secrets"], list[Secret]),
            rules=await self._pages("/recurring", "recurring"),
            skipped=msgspec.convert(skipped, list[Skipped]),
        )

    async def _reported(self, schedule_id: str, gate: asyncio.Semaphore) -> dict[str, Any] | None:
        """Once its callback has ended, or had the time for a retry."""
        end_s = time.monotonic() + _REPORTED_S
        while True:
            body = await self._schedule(schedule_id, gate)
            is_pending = ((body or {}).get("callback") or {}).get("status") == "pending"
            if not is_pending or time.monotonic() > end_s:
                return body
            await asyncio.sleep(1)

    async def _schedule(self, schedule_id: str, gate: asyncio.Semaphore) -> dict[str, Any] | None:
        async with gate:
            answer = await self._answer(f"/schedule/{schedule_id}", {})
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        return dict(answer.json())

    async def _pages(self, path: str, field: str, **query: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            page = await self._get(path, limit=100, **query, **cursor)
            found += page[field]
            if page["nextCursor"] is None:
                return found
            cursor = {"cursor": page["nextCursor"]}

    async def _get(self, path: str, **query: Any) -> dict[str, Any]:
        answer = await self._answer(path, query)
        answer.raise_for_status()
        return dict(answer.json())

    async def _answer(self, path: str, query: dict[str, Any]) -> httpx.Response:
        for attempt in range(_TRIES):
            answer = await self.http.get(path, params=query)
            if answer.status_code < 500:
                return answer
            if answer.status_code == 503 and attempt < _FORGIVEN:
                continue
            self.mishaps.append(f"all had healed, and GET {path} said {answer.status_code}")
            await asyncio.sleep(_POLL_S)
        return answer


async def read_final(
    directory: Path, api: str, customers: list[Customer], store_url: str, patience_s: float
) -> Final:
    """Waits until all has settled, for so long at most, and reads it."""
    readers = {customer.account: Reader(api, customer) for customer in customers}
    await asyncio.gather(*(reader.settle(patience_s) for reader in readers.values()))
    read_at_ms = time.time() * 1000
    told = _told_ids(directory)
    accounts = {name: await reader.read(told[name]) for name, reader in readers.items()}
    await asyncio.gather(*(reader.http.aclose() for reader in readers.values()))
    mishaps = [mishap for reader in readers.values() for mishap in reader.mishaps]
    return Final(read_at_ms, accounts, _problems(store_url), mishaps)


def _told_ids(directory: Path) -> defaultdict[str, set[str]]:
    """By account, the ids in answers to its clients."""
    account_of: dict[int, str] = {}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for event in read_history(directory):
        if isinstance(event, Invoked):
            account_of[event.op] = event.account
        elif isinstance(event, Answered):
            found[account_of[event.op]] |= {each for each in event.ids if isinstance(each, str)}
    return found


def _problems(store_url: str) -> list[str]:
    done = postdate("check", "--json", redis_url=store_url)
    told = json.loads(done.stdout or "{}")
    return list(told["problems"]) if "problems" in told else [f"it failed: {done.stderr[-500:]}"]
