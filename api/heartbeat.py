"""The heartbeat of an API process: that it is alive, its keys, and where the API is found."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from contextlib import suppress

from scheduler.errors import OutcomeUnknown, StoreError, StoreUnavailable
from scheduler.settings import Settings
from scheduler.store import Store
from scheduler.store.operators.heartbeats import LOCAL_URL, PUBLIC_URL, STORE_ID
from scheduler.store.server.unreachable import Unreachable

_EVERY_S = 5.0
_GOODBYE_S = 1.0


class Heartbeat:
    def __init__(self, store: Store, settings: Settings, unreachable: Unreachable) -> None:
        self._store = store
        self._settings = settings
        self._unreachable = unreachable
        self._process_id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"

    async def run(self) -> None:
        """Until it is cancelled. It goes on while the store is away."""
        while True:
            with suppress(StoreError):  # the request that needs the store reports that
                await self._beat()
            await asyncio.sleep(_EVERY_S)

    async def _beat(self) -> None:
        try:
            url = PUBLIC_URL if self._settings.public_url else LOCAL_URL
            says = {"pid": os.getpid(), STORE_ID: self._store.shards.store_id}
            await self._store.apis.beat(self._process_id, says | {url: self._settings.url})
        except (StoreUnavailable, OutcomeUnknown) as error:
            self._unreachable.note(error)
            return
        self._unreachable.end()
        await self._store.sealing_keys.watch()
        await self._store.shards.newest()

    async def end(self) -> None:
        """Says good-bye, so that no operator waits for this process."""
        with suppress(StoreError, TimeoutError):
            await asyncio.wait_for(self._store.apis.leave(self._process_id), _GOODBYE_S)
