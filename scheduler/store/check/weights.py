"""Whether the bytes that are counted of an account are those that its schedules weigh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scheduler.store import keys
from scheduler.store.heads import LANE_BYTES, REFERENCE_BYTES
from scheduler.store.idempotency import is_weighed
from scheduler.store.server import Script, Server, pairs
from scheduler.store.stored import NOTE_BYTES

_HOUR_MS = 3_600_000
_KEPT = -1  # a key without an end
_NOTES_AT_ONCE = 20  # each may have 49 KB
_WEIGH = Script("check/weigh")


class _Counted(NamedTuple):
    """What an account says of itself."""

    ledger: list[bytes | None]
    bytes: int
    expiring: Counter[int]


class Weights:
    """Adds up the finds of a walk, and compares. Accounts that changed meanwhile are not judged.
    `before`: what each said of itself as the walk began."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._now_ms = 0
        self.before: dict[str, _Counted] = {}
        self._unended: Counter[str] = Counter()
        self._ended: dict[str, Counter[int]] = {}
        # When each of the schedules that were added last is forgotten (ms; < 0: not known).
        self._forgotten: dict[str, int] = {}

    async def begin(self, account_id: str) -> None:
        self.before[account_id] = await self._counted(account_id)
        await self.add(account_id, [])

    async def add(self, account_id: str, schedules: Sequence[str]) -> None:
        now_us, found = await self._server.run(_WEIGH, keys.account(account_id), schedules)
        self._now_ms = now_us // 1000
        self._forgotten = dict(zip(schedules, found[1::2], strict=True))
        for weight, forgotten_ms in zip(found[::2], found[1::2], strict=True):
            if forgotten_ms < 0:
                self._unended[account_id] += weight
            else:
                hours = self._ended.setdefault(account_id, Counter())
                hours[forgotten_ms // _HOUR_MS] += weight

    async def add_notes(self, account_id: str, notes: Sequence[bytes]) -> None:
        """Adds notes of calls with an Idempotency-Key, by their names below the account."""
        names = [f"{keys.account(account_id)}{keys.ONCE}{each.decode()}" for each in notes]
        hours = self._ended.setdefault(account_id, Counter())
        for first in range(0, len(names), _NOTES_AT_ONCE):
            some = names[first : first + _NOTES_AT_ONCE]
            commands = [(ask, name) for name in some for ask in ("GET", "PEXPIRETIME")]
            replies = await self._server.reads(commands)
            for value, forgotten_ms in zip(replies[::2], replies[1::2], strict=True):
                if value is not None and is_weighed(value):
                    hours[forgotten_ms // _HOUR_MS] += NOTE_BYTES + len(value)

    def refer(self, account_id: str, members: Sequence[bytes]) -> None:
        """Adds members of its references."""
        weights = (REFERENCE_BYTES + len(each) for each in members)
        self._unended[account_id] += sum(weights)

    def add_lane(self, account_id: str) -> None:
        """Adds the lane of an unended one."""
        self._unended[account_id] += LANE_BYTES

    def add_rule(self, account_id: str, size_bytes: int) -> None:
        """Adds a recurring schedule, beside its occurrences."""
        self._unended[account_id] += size_bytes

    def refer_letter(self, account_id: str, schedule: str, head: bytes) -> None:
        """Adds the reference of a failed one that was added last: it counts until the schedule is
        forgotten, also after it was trimmed or replayed, and while its callback is pending."""
        forgotten_ms = self._forgotten.get(schedule, -1)
        weight = REFERENCE_BYTES + len(head) - 2 + 1 + len(schedule)
        if forgotten_ms >= 0:
            self._ended[account_id][forgotten_ms // _HOUR_MS] += weight
        elif forgotten_ms == _KEPT:
            self._unended[account_id] += weight

    async def faults(self, account_id: str) -> list[str]:
        if await self._counted(account_id) != self.before[account_id]:
            return []
        return [f"{account_id}: {fault}" for fault in self._faults(account_id)]

    def _faults(self, account_id: str) -> Iterator[str]:
        counted = self.before[account_id]
        unended = counted.bytes - counted.expiring.total()
        if unended != self._unended[account_id]:
            yield (
                "its schedules that have not ended, or whose callback has not, are counted as"
                f" {unended} bytes, and weigh {self._unended[account_id]}"
            )
        ended = self._ended.get(account_id, Counter())
        # Schedules that expire in the present hour may be gone already.
        for hour in sorted(ended.keys() | counted.expiring.keys()):
            if hour > self._now_ms // _HOUR_MS and ended[hour] != counted.expiring[hour]:
                counts = f"counted as {counted.expiring[hour]} bytes, and weighs {ended[hour]}"
                yield f"what is forgotten in hour {hour} is {counts}"

    async def _counted(self, account_id: str) -> _Counted:
        base = keys.account(account_id)
        names = ("granted", "credits", "spent", "bytes")
        (*ledger, weight), expiring = await self._server.reads(
            [("HMGET", base + keys.ACCOUNT, *names), ("HGETALL", base + keys.EXPIRING)]
        )
        hours = Counter({int(hour): int(bytes_) for hour, bytes_ in pairs(expiring).items()})
        return _Counted(ledger, int(weight or 0), hours)
