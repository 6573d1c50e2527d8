"""The Lua scripts, one typed method each: no caller sees KEYS or ARGV.

They are called by hash, and sent whole when the server does not know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from scheduler.errors import OutcomeUnknown, StoreError
from scheduler.store import keys
from scheduler.store.calls import Argument, Calls
from scheduler.store.connection import Client, translated
from scheduler.store.items import (
    AckItem,
    Claimed,
    Codes,
    Created,
    CreateGroup,
    CreateReply,
    Head,
    HeldItem,
    Keeping,
    LogLine,
    ReleaseItem,
    Stand,
)
from scheduler.store.sources import source_and_sha1

_REPLICAS_TIMEOUT_MS = 1000
_ONCE_KEPT_MS = 24 * 3_600_000

_NOT_ONCE = ("", "", b"")


class Scripts:
    """Runs the scripts. `plain_lua` leaves out the `#!lua` line, for a server without it."""

    def __init__(
        self, client: Client, keeping: Keeping, *, wait_replicas: int = 0, plain_lua: bool = False
    ) -> None:
        self._client = client
        self._calls = Calls(client)
        self._keeping = keeping
        self._wait_replicas = wait_replicas
        self._plain_lua = plain_lua

    async def create(self, shard: int, groups: Iterable[CreateGroup]) -> Created:
        arguments: list[Argument] = [self._keeping.log_ms, _ONCE_KEPT_MS]
        for account, items, once in groups:
            arguments += (account, *(once or _NOT_ONCE), len(items))
            arguments += chain.from_iterable(items)
        now_us, replies = await self._write("create", keys.shard(shard), arguments)
        return Created(now_us, [CreateReply(*reply) for reply in replies])

    async def change(
        self,
        account_id: str,
        schedule: str,
        operation: str,
        *,
        before: bytes,
        after: bytes,
        trigger_at_ms: int,
    ) -> tuple[int, bytes]:
        shard, account = keys.parts(account_id)
        arguments = (account, schedule, operation, before, after, trigger_at_ms)
        both = (keys.account(account_id), keys.shard(shard))
        code, status = await self._write("change", both, arguments)
        return code, status

    async def cancel(
        self, account_id: str, schedule: str, operation: str, request: bytes, line: LogLine
    ) -> tuple[int, int, bytes]:
        keeping = self._keeping
        arguments: list[Argument] = [schedule, operation, request, *line]
        arguments += [keeping.schedule_ms, keeping.log_ms, keeping.log_entries]
        code, credits, status = await self._write("cancel", keys.account(account_id), arguments)
        return code, credits, status

    async def claim(
        self,
        shard: int,
        token: str,
        *,
        lease_ms: int,
        most: int,
        most_accounts: int,
        grace_ms: int = 0,
        late_ms: int = 0,
        asked_at_ms: int | None = None,
        pass_over: Iterable[str] = (),
    ) -> Claimed:
        arguments: list[Argument] = [token, lease_ms, most, most_accounts, grace_ms, late_ms]
        arguments += ("" if asked_at_ms is None else asked_at_ms, *pass_over)
        now_us, look, values = await self._run("claim", keys.shard(shard), arguments)
        return Claimed(now_us, None if look == b"-1" else float(look), values)

    async def realign(self, shard: int, place: int, count: int) -> tuple[int, int]:
        """The server's time (us), and how many accounts there were from this rank on."""
        now_us, found = await self._run("realign", keys.shard(shard), (place, count))
        return now_us, found

    async def extend(self, shard: int, lease_ms: int, items: Iterable[HeldItem]) -> Codes:
        arguments: list[Argument] = [lease_ms, *_flat(items)]
        return Codes(*await self._run("extend", keys.shard(shard), arguments))

    async def release(self, shard: int, items: Iterable[ReleaseItem]) -> Codes:
        arguments = _flat(items)
        return Codes(*await self._run("release", keys.shard(shard), arguments))

    async def ack(self, shard: int, items: Iterable[AckItem]) -> Codes:
        keeping = self._keeping
        arguments: list[Argument] = [keeping.schedule_ms, keeping.log_ms]
        arguments += [keeping.log_entries, keeping.seconds_ms]
        for account, schedule, token, status, outcome, line, response_ms, bucket in items:
            arguments += (account, schedule, token, status, outcome, line.entry)
            arguments += (response_ms, bucket, line.bucket, line.digest)
        return Codes(*await self._run("ack", keys.shard(shard), arguments))

    async def admit(
        self, shard: int, rates: Mapping[str, int], hashes: Sequence[str]
    ) -> list[list[Any]]:
        """For each hash `[account, key id, plan]`, with a rate also `limit, remaining, until full
        (s), until allowed (s)`; or `[]`."""
        arguments: list[Argument] = [len(rates), *_flat(rates.items()), *hashes]
        callers: list[list[Any]] = await self._run("admit", keys.shard(shard), arguments)
        return callers

    async def account_create(
        self,
        shard: int,
        account: str,
        operation: str,
        *,
        name: str,
        plan: str,
        credits: int,
        email: str,
        operator: bool,
    ) -> bool:
        arguments: list[Argument] = [account, operation, name, plan, credits, email]
        arguments += (int(operator), self._keeping.log_ms)
        return bool(await self._write("account_create", keys.shard(shard), arguments))

    async def grant(self, account_id: str, operation: str, credits: int) -> bool:
        arguments = (operation, credits, self._keeping.log_ms)
        return bool(await self._write("grant", keys.account(account_id), arguments))

    async def key_create(
        self, shard: int, account: str, key: str, sha256: str, *, name: str, prefix: str
    ) -> bool:
        arguments = [account, key, sha256, name, prefix]
        return bool(await self._write("key_create", keys.shard(shard), arguments))

    async def key_deactivate(self, shard: int, key: str) -> str:
        """The key's hash, or "" if there is no such key."""
        sha256: bytes = await self._write("key_deactivate", keys.shard(shard), [key])
        return sha256.decode()

    async def session_open(
        self, account_id: str, sha256: str, csrf: str, *, ttl_ms: int, most: int
    ) -> bool:
        shard, account = keys.parts(account_id)
        arguments = (account, sha256, csrf, ttl_ms, most)
        return bool(await self._write("session_open", keys.shard(shard), arguments))

    async def session_close(self, account_id: str, sha256: str) -> None:
        """Of "", all of the account's sessions."""
        shard, account = keys.parts(account_id)
        await self._write("session_close", keys.shard(shard), (account, sha256))

    async def password_set(self, account_id: str, password: str, keep: str) -> bool:
        shard, account = keys.parts(account_id)
        return bool(await self._write("password_set", keys.shard(shard), (account, password, keep)))

    async def link_make(self, account_id: str, sha256: str, purpose: str, ttl_ms: int) -> bool:
        shard, account = keys.parts(account_id)
        arguments = (account, sha256, purpose, ttl_ms)
        return bool(await self._write("link_make", keys.shard(shard), arguments))

    async def link_redeem(
        self,
        shard: int,
        link: str,
        purpose: str,
        password: str,
        session: str,
        csrf: str,
        *,
        ttl_ms: int,
        most: int,
    ) -> str:
        """The account's name in the shard, or "" if there is no such link (any more)."""
        arguments = (link, purpose, password, session, csrf, ttl_ms, most)
        account: bytes = await self._write("link_redeem", keys.shard(shard), arguments)
        return account.decode()

    async def attempt(self, whose: str, window_ms: int) -> tuple[int, int]:
        """Attempts so far, and how long until they are forgotten (ms)."""
        count, left_ms = await self._run("attempt", keys.attempts(whose), [window_ms])
        return count, left_ms

    async def pulse(self, account_id: str, minutes: int) -> list[Any]:
        """Six values, as the header says."""
        values: list[Any] = await self._run("pulse", keys.account(account_id), [minutes])
        return values

    async def series(
        self, account_id: str, width: int, bounds: int, ranges: Iterable[tuple[str, int, int]]
    ) -> tuple[list[int], list[int]]:
        """Completed, failed and total response time (ms) of each point, flat; and the lateness
        histogram of all of them."""
        arguments: list[Argument] = [width, bounds, *_flat(ranges)]
        points, lateness = await self._run("series", keys.account(account_id), arguments)
        return points, lateness

    async def heartbeat(self, worker_id: str, says: str, forget_ms: int) -> list[bytes]:
        """`[now (us), worker, "<heard at (ms)> <JSON>", …]`."""
        alive: list[bytes] = await self._run(
            "heartbeat", keys.WORKERS, [worker_id, says, forget_ms]
        )
        return alive

    async def raise_shards(self, default: int, wanted: int) -> int:
        """The number of shards in force, written or raised where that is due."""
        return int(await self._run("raise_shards", keys.META, [default, wanted]))

    async def inspect(self, account_id: str, schedules: Sequence[str]) -> list[Stand]:
        """How each of these stands, in all places at one moment."""
        values = await self._run("inspect", keys.account(account_id), schedules)
        rows = zip(*[iter(values)] * len(Stand._fields), strict=True)
        return [
            Stand(bool(there), status.decode(), token.decode(), bool(waiting), bool(held))
            for there, status, token, waiting, held in rows
        ]

    async def head(self, shard: int, account: str) -> Head:
        now_us, head, first = await self._run("head", keys.shard(shard), [account])
        return Head(now_us, float(head) if head else None, float(first) if first else None)

    async def waiting_page(
        self, account_id: str, after: tuple[int, str], *, down: bool, most: int
    ) -> tuple[list[bytes], list[bytes]]:
        """Waiting and held schedules after a place; four values for each, as the header says."""
        arguments = (*after, int(down), most)
        waiting, held = await self._run("waiting_page", keys.account(account_id), arguments)
        return waiting, held

    async def usage(
        self, account_id: str, ranges: Iterable[tuple[str, int, int]]
    ) -> tuple[int, int, int]:
        """Completed, failed and total response time (ms) over ranges of rollup buckets."""
        arguments = _flat(ranges)
        completed, failed, total = await self._run("usage", keys.account(account_id), arguments)
        return completed, failed, total

    async def _run(
        self, name: str, key: str | tuple[str, str], arguments: Sequence[Argument]
    ) -> Any:
        source, sha1 = source_and_sha1(name, plain_lua=self._plain_lua)
        names = (key,) if isinstance(key, str) else key
        return await self._calls.script(sha1, source, names, arguments)

    async def _write(
        self, name: str, key: str | tuple[str, str], arguments: Sequence[Argument]
    ) -> Any:
        """Runs a script whose effect the caller will rely on, so that replicas must have it."""
        reply = await self._run(name, key, arguments)
        if self._wait_replicas:
            await self._wait(key if isinstance(key, str) else key[0])
        return reply

    async def _wait(self, key: str) -> None:
        """Waits until enough replicas have all that was written so far.

        WAIT speaks of the writes of its own connection, so it comes behind a write of its own:
        replicas apply one stream, and what has the later write has the earlier ones. Whatever
        goes wrong here, the script before it was run: OutcomeUnknown, never StoreUnavailable.
        """
        source, _ = source_and_sha1("touch", plain_lua=self._plain_lua)
        try:
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.eval(source, 1, f"{key}waited")
                pipe.wait(self._wait_replicas, _REPLICAS_TIMEOUT_MS)
                with translated():
                    _, reached = await pipe.execute()
        except StoreError as error:
            raise OutcomeUnknown("The replicas could not be asked") from error
        if reached < self._wait_replicas:
            raise OutcomeUnknown("Too few replicas confirmed the write")


def _flat(items: Iterable[tuple[Argument, ...]]) -> list[Argument]:
    return list(chain.from_iterable(items))
