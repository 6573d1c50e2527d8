"""An account's own pause of all that it has, and a note beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from scheduler import ids
from scheduler.errors import KeepsChanging, NotFound, PreconditionFailed, Unreadable
from scheduler.lane_settings import AccountSettings
from scheduler.store import keys
from scheduler.store.pauses import pause_of, pause_values
from scheduler.store.server import Script, Server
from scheduler.store.verdict import MOST_CHANGES_MET, Verdict

_PAUSE = Script("accounts/pause")

Change = Callable[[AccountSettings], AccountSettings]


class Pauses:
    def __init__(self, server: Server) -> None:
        self._server = server

    async def read(self, account_id: str) -> AccountSettings:
        """Raises NotFound, Unreadable. Read-only."""
        shard, account = keys.parts(account_id)
        reply = await self._server.repeated(
            lambda: self._server.run(_PAUSE, keys.shard(shard), (account,))
        )
        return _verdict_of(reply, account_id)[1]

    async def change(
        self, account_id: str, changed: Change, if_match: Sequence[str] = ()
    ) -> AccountSettings:
        """Replaces the settings by what `changed` makes of them: it is paused, or what a pause held
        back goes on, unless the account is suspended. Safe to repeat: what is so already is done,
        whatever `if_match` says. Returns the settings then.

        Raises NotFound, PreconditionFailed, KeepsChanging, Unreadable, and what `changed` raises;
        then nothing was changed.
        """
        operation = ids.new_operation()
        before = await self.read(account_id)
        for _ in range(MOST_CHANGES_MET):
            assert before.etag is not None
            after = changed(before)
            is_so = replace(after, etag=before.etag) == before
            if is_so and not self._server.wait_replicas:  # which may lack it yet
                return before
            if if_match and not is_so and before.etag not in if_match:
                raise PreconditionFailed
            values = (after.note or "", *pause_values(after.pause))
            shard, account = keys.parts(account_id)
            arguments = (account, operation, before.etag, *values)
            reply = await self._server.write_until_answered(_PAUSE, keys.shard(shard), arguments)
            verdict, before = _verdict_of(reply, account_id)
            if verdict != Verdict.CHANGED:
                return before
        raise KeepsChanging


def _verdict_of(reply: list[Any], account_id: str) -> tuple[int, AccountSettings]:
    """The script's verdict, and the settings then. Raises NotFound, Unreadable."""
    verdict, digest, values = reply
    if verdict == Verdict.UNKNOWN:
        raise NotFound(f"There is no account {account_id}.")
    return verdict, _settings_of(digest, *values)


def _settings_of(digest: bytes, note: bytes, *pause: Any) -> AccountSettings:
    try:
        return AccountSettings(pause_of(*pause), note.decode() or None, digest.decode())
    except ValueError as error:
        raise Unreadable("The account's pause is damaged") from error
