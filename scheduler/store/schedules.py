"""Schedules as their owners see them: created, read, cancelled."""

from __future__ import annotations

from functools import partial

from scheduler import ids
from scheduler.errors import Conflict, InsufficientCredits, NotFound, StoreUnavailable
from scheduler.models import Request, Schedule, Status
from scheduler.store import keys, packing
from scheduler.store.clock import StoreClock
from scheduler.store.coalesce import Coalescer
from scheduler.store.connection import Client, translated
from scheduler.store.repeat import repeated
from scheduler.store.scripts import CreateItem, Scripts

_MOST_CREATED_AT_ONCE = 256
_MOST_CHANGES_MET = 20

_STORED, _TOO_FEW_CREDITS = 1, 0
_CANCELLED, _NO_SUCH, _ENDED, _HELD = 1, 0, -1, -2


class Schedules:
    """Creates, reads and cancels schedules."""

    def __init__(self, client: Client, scripts: Scripts, clock: StoreClock) -> None:
        self._client = client
        self._scripts = scripts
        self._clock = clock
        self._creating: dict[int, Coalescer[CreateItem, int]] = {}

    async def create(self, account_id: str, request: Request) -> str:
        """Stores a schedule, takes its credit, and returns its new id.

        Raises InsufficientCredits, NotFound (the account), StoreUnavailable (nothing was
        changed) or OutcomeUnknown. Each call makes another schedule; within one call, repeats
        after a lost reply do not.
        """
        shard, account = _parts(account_id)
        schedule_id = ids.new_schedule_id()
        item = CreateItem(
            account, schedule_id[4:], request.trigger_at_ms, packing.pack_request(request)
        )
        code = await self._creator(shard).submit(item)
        if code == _TOO_FEW_CREDITS:
            raise InsufficientCredits
        if code != _STORED:
            raise NotFound(f"There is no account {account_id}.")
        return schedule_id

    async def get(self, account_id: str, schedule_id: str) -> Schedule:
        """The schedule as it stands. Raises NotFound for an unknown one or another account's."""
        stored = await self._stored(account_id, schedule_id)
        packed, created, status, token, outcome, ended = stored
        final = Status(status.decode()) if status else Status.SCHEDULED
        return Schedule(
            schedule_id=schedule_id,
            created_at_ms=int(created),
            request=packing.unpack_request(packed),
            status=final,
            executing=token is not None,
            outcome=packing.unpack_outcome(final, outcome) if outcome else None,
            ended_at_ms=int(ended) if ended else None,
        )

    async def cancel(self, account_id: str, schedule_id: str) -> int:
        """Cancels a waiting schedule, gives its credit back, and returns the credits then left.

        Raises NotFound, or Conflict if it has ended or a worker holds it. Refunds once, however
        often it is called or a reply is lost.
        """
        operation = ids.new_token()
        for _ in range(_MOST_CHANGES_MET):
            packed, created, *_rest = await self._stored(account_id, schedule_id)
            request = packing.unpack_request(packed)
            line = packing.log_line(schedule_id, int(created), request, None)
            code, credits, status = await repeated(
                partial(self._scripts.cancel, account_id, schedule_id[4:], operation, packed, line)
            )
            if code == _CANCELLED:
                return credits
            _refuse(code, status)
        raise StoreUnavailable("The schedule keeps changing; try again")

    async def _stored(self, account_id: str, schedule_id: str) -> list[bytes]:
        """Packed request, created, status, token, packed outcome, ended. Raises NotFound."""
        if not ids.is_schedule_id(schedule_id):
            raise _unknown()
        key = keys.schedule(account_id, schedule_id)
        with translated():
            stored: list[bytes] = await self._client.hmget(key, "r", "c", "s", "t", "o", "e")
        if stored[0] is None:
            raise _unknown()
        return stored

    def _creator(self, shard: int) -> Coalescer[CreateItem, int]:
        creator = self._creating.get(shard)
        if creator is None:
            creator = Coalescer(lambda items: self._create(shard, items), _MOST_CREATED_AT_ONCE)
            self._creating[shard] = creator
        return creator

    async def _create(self, shard: int, items: list[CreateItem]) -> list[int]:
        now_us, codes = await repeated(lambda: self._scripts.create(shard, items))
        self._clock.observe(now_us)
        return codes


def _parts(account_id: str) -> ids.Sharded:
    parts = ids.parse_sharded(account_id, "acc")
    if parts is None:
        raise NotFound(f"There is no account {account_id}.")
    return parts


def _refuse(code: int, status: bytes) -> None:
    """Raises what a cancellation that did not happen means; returns if it may be tried again."""
    if code == _NO_SUCH:
        raise _unknown()
    if code == _ENDED:
        ended = Status(status.decode())
        raise Conflict(f"The schedule is {ended} already", ended)
    if code == _HELD:
        raise Conflict("Execution has started", Status.SCHEDULED)


def _unknown() -> NotFound:
    return NotFound("There is no such schedule")
