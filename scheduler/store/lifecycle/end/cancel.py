"""Cancels schedules that wait, and stops those that wait for another attempt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import NamedTuple

from scheduler import ids
from scheduler.errors import Damaged, OutcomeUnknown, PostdateError, StoreError, anew
from scheduler.models import Outcome, Schedule, Status
from scheduler.store import keys
from scheduler.store.lifecycle.end.end_rows import (
    Ends,
    Waiting,
    cancelled_group,
    parts_of,
    stopped_group,
)
from scheduler.store.preconditions import ALWAYS, Precondition
from scheduler.store.queries.listing import Selection
from scheduler.store.queries.reading import Stored, read_by_id
from scheduler.store.queries.unended import Unended
from scheduler.store.server import Argument, Server
from scheduler.store.verdict import MOST_CHANGES_MET, Verdict, refusal

# So many at once are no long script.
_FEW = 20


class Stop(NamedTuple):
    """How many attempts were made, and what the last one came to."""

    attempts: int
    outcome: Outcome


class Cancellation(NamedTuple):
    """One schedule was cancelled, unless there is a refusal; or stopped after an attempt.
    `repeated`: by an earlier call. `recurring_id`: the rule of which it was an occurrence with a
    slot, so that the rule may have none that waits, and is to be tended."""

    schedule_id: str
    refusal: PostdateError | None = None
    stopped: Stop | None = None
    repeated: bool = False
    recurring_id: str | None = None


class Cancellations(NamedTuple):
    """A cancellation for each, in order, and the credits then left; `next_cursor` of their list,
    and how many occurrences were left out of it."""

    each: list[Cancellation]
    credits: int
    next_cursor: str | None = None
    left: int = 0


def unknown(schedule_id: str) -> Cancellation:
    """For a text that is no schedule's id."""
    return Cancellation(schedule_id, refusal(schedule_id, Verdict.UNKNOWN))


class Canceller:
    """Ends schedules for their owner. One that was not attempted yet is cancelled, and its credit
    comes back. Between two attempts it is stopped: it has failed as the last attempt did, that
    counts as its execution, and no credit moves."""

    def __init__(self, server: Server, ends: Ends, unended: Unended) -> None:
        self._server = server
        self._ends = ends
        self._unended = unended
        # By this process, since it began.
        self.cancelled = 0

    async def cancel(
        self, account_id: str, schedule_id: str, wanted: Precondition = ALWAYS
    ) -> Cancellations:
        """`by_id` of one. Raises NotFound, Damaged, Conflict if it has ended or is held,
        PreconditionFailed."""
        if not ids.is_schedule_id(schedule_id):
            raise refusal(schedule_id, Verdict.UNKNOWN)
        done = await self.by_id(account_id, [schedule_id], wanted)
        if (refused := done.each[0].refusal) is not None:
            raise anew(refused)
        return done

    async def by_id(
        self, account_id: str, schedule_ids: Sequence[str], wanted: Precondition = ALWAYS
    ) -> Cancellations:
        """Ends those that still wait, each once, a bounded group of them in one step, with which
        the group's credits come back. Safe to repeat: nothing is refunded twice, and one that was
        ended so before is answered alike, while it is kept. Raises StoreUnavailable if nothing was
        changed, OutcomeUnknown if groups before that one were done, or it may have been itself."""
        done: dict[str, Cancellation] = {}
        try:
            await self._end(account_id, list(dict.fromkeys(schedule_ids)), done, wanted)
            account = keys.account(account_id) + keys.ACCOUNT
            [credits] = await self._server.reads([("HGET", account, "credits")])
        except StoreError as error:
            if any(each.refusal is None and not each.repeated for each in done.values()):
                raise OutcomeUnknown("Some were cancelled before the store failed") from error
            raise
        finally:
            self.cancelled += sum(
                not (each.refusal or each.stopped or each.repeated) for each in done.values()
            )
        each = [done[name] for name in dict.fromkeys(schedule_ids)]
        return Cancellations(each, int(credits or 0))

    async def waiting(self, account_id: str, selected: Selection) -> Cancellations:
        """Ends those that wait, by triggerAt; as `by_id`. They leave the list, so that a repeat
        goes on with others. The next occurrence of a recurring schedule is left out, unless that is
        named: another would come in its place. Raises InvalidRequest for a bad cursor,
        TooManyScans."""
        selected = selected._replace(executing=False, others=True)
        page = await self._unended.page(account_id, selected)
        done = await self.by_id(account_id, [each.schedule_id for each in page.schedules])
        return done._replace(next_cursor=page.next_cursor, left=len(page.left))

    async def _end(
        self,
        account_id: str,
        schedule_ids: list[str],
        done: dict[str, Cancellation],
        wanted: Precondition,
    ) -> None:
        """Notes in `done` what came of each; those that were changed meanwhile are tried again: a
        change of the request, or an attempt, which moves the score."""
        left, unsure = schedule_ids, set[str]()
        base = keys.account(account_id)
        for _ in range(MOST_CHANGES_MET if left else 0):
            again = list[str]()
            # Before the schedules: an attempt that is made between the two reads moves the score.
            places = (base + keys.WAITING, base + keys.LANED)
            found = await self._server.reads(
                [("ZMSCORE", place, *map(ids.local, left)) for place in places]
            )
            names = iter(left)
            scores = (score or other for score, other in zip(*found, strict=True))
            async for chunk in read_by_id(self._server, account_id, left):
                waiting = list[Waiting]()
                for each, name, score in zip(chunk, names, scores, strict=False):
                    if isinstance(each, Stored) and each.schedule.status is Status.SCHEDULED:
                        wanted.judge(None if wanted == ALWAYS else each.etag)
                        waiting.append((each, str(round(float(score or 0) * 1000))))
                    else:
                        done[name] = _ended(name, each, unsure)
                again += await self._end_chunk(account_id, waiting, done, unsure)
            if not again:
                return
            left = again
        done |= {each: Cancellation(each, refusal(each, Verdict.CHANGED)) for each in left}

    async def _end_chunk(
        self,
        account_id: str,
        waiting: Sequence[Waiting],
        done: dict[str, Cancellation],
        unsure: set[str],
    ) -> list[str]:
        """Returns those that are to be read again. Those of them that may have been ended here, by
        a call whose reply was lost, are `unsure`."""
        kinds: dict[tuple[bool, bool], list[Waiting]] = {}
        for row in waiting:
            schedule = row[0].schedule
            kind = schedule.retry is not None, schedule.request.lane is not None
            kinds.setdefault(kind, []).append(row)
        secrecy, calls = self._server.secrecy, count()
        groups, rows = list[Argument](), list[Waiting]()
        for (attempted, has_lane), some in kinds.items():
            if has_lane:
                some.sort(key=lambda row: row[0].schedule.request.lane or "")
            group_of = stopped_group if attempted else cancelled_group
            for part in parts_of(some, self._ends.most if attempted else len(some)):
                groups += group_of(account_id, part, secrecy)
            rows += some

        async def send() -> list[Verdict]:
            next(calls)
            return await self._ends.run(keys.parts(account_id).shard, groups, self._server.write)

        verdicts = await self._answered(account_id, len(rows), send)
        lost = next(calls) > 1
        again = []
        for ((schedule, _), _), verdict in zip(rows, verdicts, strict=True):
            name = schedule.schedule_id
            match verdict:
                case Verdict.DONE:
                    retry = schedule.retry
                    stop = Stop(retry.attempts, retry.outcome) if retry else None
                    done[name] = Cancellation(name, stopped=stop, recurring_id=_rule(schedule))
                case Verdict.HELD | Verdict.UNKNOWN | Verdict.DAMAGED:
                    done[name] = Cancellation(name, refusal(name, verdict))
                case _:
                    again.append(name)
                    if verdict is Verdict.ENDED and lost:
                        unsure.add(name)
        return again

    async def _answered(
        self, account_id: str, count: int, send: Callable[[], Awaitable[list[Verdict]]]
    ) -> list[Verdict]:
        if count <= _FEW:
            return await self._server.repeated(send) if count else []
        async with self._server.long_script(keys.shard(keys.parts(account_id).shard), account_id):
            return await self._server.repeated(send)


def _ended(name: str, found: Stored | Damaged | None, unsure: set[str]) -> Cancellation:
    """Of one that does not wait."""
    if found is None:
        return unknown(name)
    if isinstance(found, Damaged):
        return Cancellation(name, found)
    schedule, repeated = found.schedule, name not in unsure
    if schedule.status is Status.CANCELLED:
        return Cancellation(name, repeated=repeated, recurring_id=_rule(schedule))
    if schedule.stopped and schedule.outcome is not None:
        stopped = Stop(schedule.attempts, schedule.outcome)
        return Cancellation(name, stopped=stopped, repeated=repeated)
    return Cancellation(name, refusal(name, Verdict.ENDED, schedule.status))


def _rule(schedule: Schedule) -> str | None:
    """The rule, if it was cancelled before its first attempt, and stood for a slot."""
    occurrence = schedule.request.recurring
    if occurrence is None or occurrence.slot_ms is None or schedule.retry is not None:
        return None
    return occurrence.recurring_id
