"""An account's own pause of all that it has, and its default callback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from scheduler import ids
from scheduler.callbacks import CallbackOn
from scheduler.errors import KeepsChanging, UnknownAccount, Unreadable
from scheduler.lane_settings import AccountCallback, AccountSettings
from scheduler.store import keys
from scheduler.store.pauses import pause_of, pause_values
from scheduler.store.preconditions import ALWAYS, Precondition
from scheduler.store.server import Script, Server
from scheduler.store.verdict import MOST_CHANGES_MET, Verdict

_PAUSE = Script("accounts/pause")

Change = Callable[[AccountSettings], AccountSettings]


class Pauses:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._secrecy = server.secrecy

    async def read(self, account_id: str) -> AccountSettings:
        """Raises NotFound, Unreadable. Read-only."""
        shard, account = keys.parts(account_id)
        reply = await self._server.look_up(_PAUSE, keys.shard(shard), (account,))
        return self._verdict_of(reply, account_id)[1]

    async def change(
        self, account_id: str, changed: Change, wanted: Precondition = ALWAYS, *, who: str = ""
    ) -> AccountSettings:
        """Replaces the settings by what `changed` makes of them: it is paused, or what a pause held
        back goes on, unless the account is suspended. Safe to repeat. Returns the settings then.

        Raises NotFound, PreconditionFailed, KeepsChanging, Unreadable, and what `changed` raises;
        then nothing was changed.
        """
        operation = ids.new_operation()
        before = await self.read(account_id)
        for _ in range(MOST_CHANGES_MET):
            assert before.etag is not None
            after = changed(before)
            is_so = replace(after, etag=before.etag) == before
            wanted.judge(before.etag, is_so=is_so)
            if is_so and not self._server.wait_replicas:  # which may lack it yet
                return before
            values = (*pause_values(after.pause), *self._callback_values(after))
            shard, account = keys.parts(account_id)
            by = (who, int(after.callback != before.callback))
            arguments = (account, operation, before.etag, *values, *by)
            reply = await self._server.write_until_answered(_PAUSE, keys.shard(shard), arguments)
            verdict, before = self._verdict_of(reply, account_id)
            if verdict != Verdict.CHANGED:
                return before
        raise KeepsChanging

    def _callback_values(self, after: AccountSettings) -> tuple[str, bytes]:
        callback = after.callback
        if callback is None:
            return "", b""
        return callback.on, self._secrecy.seal(callback.url.encode())

    def _verdict_of(self, reply: list[Any], account_id: str) -> tuple[int, AccountSettings]:
        """The script's verdict, and the settings then. Raises NotFound, Unreadable."""
        verdict, digest, values = reply
        if verdict == Verdict.UNKNOWN:
            raise UnknownAccount(account_id)
        return verdict, self._settings_of(digest, *values)

    def _settings_of(self, digest: bytes, *values: Any) -> AccountSettings:
        *pause, on, url = values
        try:
            callback = self._callback_of(on.decode(), url) if on else None
            return AccountSettings(pause_of(*pause), callback, digest.decode())
        except ValueError as error:
            raise Unreadable("The account's settings are damaged") from error

    def _callback_of(self, on: str, url: bytes) -> AccountCallback:
        """Raises ValueError, Unreadable."""
        return AccountCallback(self._secrecy.open(url).decode(), CallbackOn(on))
