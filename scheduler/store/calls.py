"""Commands on a connection of the client's pool, without what the client does around each.

redis-py's `execute_command` wraps every command in retries, events and tracing: 70 us of CPU, where
sending it and reading its reply takes 30, and a look at 16 shards 250 instead of 115. What the hot
paths send goes through here; a cluster's client, which must route, is asked as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.asyncio import RedisCluster
from redis.exceptions import NoScriptError, ReadOnlyError

from scheduler.store.connection import Client, translated
from scheduler.store.packed import packs_with_hiredis

Argument = str | bytes | int | float


class Calls:
    """Sends commands and returns their replies as they come, in bytes and ints.

    `routed`: there is more than one server behind it, and one may be away while others are not.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.routed = isinstance(client, RedisCluster)
        pool = getattr(client, "connection_pool", None)
        self._pool = pool if packs_with_hiredis(pool) else None

    async def script(
        self, sha1: str, source: str, keys: Sequence[str], arguments: Sequence[Argument]
    ) -> Any:
        """Runs a script by its hash, or whole where the server does not know it.

        Raises a StoreError, OutcomeUnknown among them if the reply was lost.
        """
        with translated():
            try:
                return await self._one("EVALSHA", sha1, len(keys), *keys, *arguments)
            except NoScriptError:
                return await self._one("EVAL", source, len(keys), *keys, *arguments)

    async def reads(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """The replies of commands that only read, in one round trip. Raises a StoreError."""
        if not commands:
            return []
        with translated():
            if self._pool is None:
                return await self._pipeline(commands)
            connection = await self._pool.get_connection()
            try:
                await connection.send_packed_command(connection.pack_commands(commands))
                return [await connection.read_response() for _ in commands]
            except BaseException:
                # Replies that nobody has read must not be taken for those of the next command.
                await connection.disconnect(nowait=True)
                raise
            finally:
                await self._pool.release(connection)

    async def _one(self, *words: Argument) -> Any:
        if self._pool is None:
            return await self._client.execute_command(*words)
        connection = await self._pool.get_connection()
        try:
            await connection.send_command(*words)
            return await connection.read_response()
        except ReadOnlyError:
            # It leads to what was the primary; the next one is looked up anew.
            await connection.disconnect(nowait=True)
            raise
        finally:
            await self._pool.release(connection)

    async def _pipeline(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        async with self._client.pipeline(transaction=False) as pipe:
            for words in commands:
                pipe.execute_command(*words)
            replies: list[Any] = await pipe.execute()
            return replies
