"""Goes on with bulk actions, a step at a time: each API process takes those up that are due.

A step notes what it is going to act on, acts, and notes what came of it. A process that dies in
between leaves the note, and another one acts on just the same: a cancellation and a replay by the
same key happen once, a move goes to a time that was fixed before, and a callback is sent again once
for an operation's name within a minute."""

from __future__ import annotations

import asyncio

import structlog
from msgspec.structs import replace

from api.bulk_actions.acts import Acts
from api.bulk_actions.found import meant_of, query_of, times_of
from api.schema.rules import Rules
from scheduler.errors import StoreError, StoreFull, TooManyScans, Unreadable
from scheduler.runtime.reminder import Reminder
from scheduler.store import Store
from scheduler.store.bulk.bulks import LEASE_MS, PACE_MS
from scheduler.store.bulk.records import (
    OF_A_RULE,
    STEP,
    Bulk,
    Group,
    Kind,
    Planned,
    Progress,
    State,
    chosen,
    groups_of,
    plan_of,
    planned,
)
from scheduler.store.verdict import SENTENCES, Verdict

# The most that one action acts on.
MOST = 200_000
_ACCOUNTS_AT_ONCE = 4
_IDLE_S = 1.0
_RETRY_MS = 5_000
# A step looks through so many pages of the log.
_PAGES = 5
# How often replays are looked at that have not ended: the older, the more seldom.
_LOOKS_MS = ((60_000, 1_000), (3_600_000, 10_000))
_SELDOM_MS = 60_000
# After this, replays that have not ended are not waited for.
_WATCHED_MS = 7 * 86_400_000
_GROUPS_AT_ONCE = 50
_ENOUGH = {
    SENTENCES[Verdict.UNPAID]: "The credits ran out",
    SENTENCES[Verdict.NO_ROOM]: "The account may store no more",
}
_RESENDS_LIMITED = "Callbacks are sent again at 25 a second"
_log = structlog.get_logger()


class BulkRunner:
    def __init__(self, store: Store, rules: Rules) -> None:
        self._store = store
        self._acts = Acts(store, rules)
        self._woken = asyncio.Event()
        self._reminder = Reminder()

    def wake(self) -> None:
        """An action was added here, or stopped."""
        self._woken.set()

    async def begin(self, account_id: str) -> None:
        """The first step of an action that was added just now; few schedules need no other. Logs
        errors: the action is tried again later, so the caller must not fail."""
        await self._try(account_id)
        self.wake()

    async def run(self) -> None:
        """Until it is cancelled. No error ends it: what is not done stays due."""
        while True:
            self._woken.clear()
            try:
                busy = await self.round()
            except Exception as error:
                self._note("bulk actions cannot be looked for", error)
                busy = False
            if busy:
                await asyncio.sleep(PACE_MS / 1000)
                continue
            try:
                async with asyncio.timeout(_IDLE_S):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def round(self) -> bool:
        """A step of each account that is due, of a few at once; whether there was any."""
        gate = asyncio.Semaphore(_ACCOUNTS_AT_ONCE)

        async def step(account_id: str) -> None:
            async with gate:
                await self._try(account_id)

        due = await self._store.bulks.due()
        await asyncio.gather(*map(step, due))
        return bool(due)

    async def _try(self, account_id: str) -> None:
        try:
            await self.step(account_id)
        except Exception as error:
            self._note("a bulk action cannot go on", error, account=account_id)

    async def step(self, account_id: str) -> bool:
        """The next step of the account's action whose turn it is. False: none is due here. Safe to
        repeat. Raises StoreError: after its lease it is due again, and later if it is damaged."""
        bulk: Bulk | None = await self._store.bulks.take(account_id)
        if bulk is None:
            return False
        try:
            after = await self._act(account_id, bulk) if bulk.state.is_under_way else bulk
            if after is not None:
                await self._look(account_id, after)
        except Unreadable as error:
            if not error.key_id:  # else another process may have the key
                await self._store.bulks.defer(account_id, bulk.action_id)
            raise
        return True

    def _note(self, what: str, error: Exception, **about: str) -> None:
        if self._reminder.is_due():
            is_ours = not isinstance(error, StoreError)
            _log.error(what, error=str(error), exc_info=is_ours, **about)

    async def _keep(
        self, account_id: str, bulk: Bulk, progress: Progress, next_ms: int
    ) -> Bulk | None:
        return await self._store.bulks.note(account_id, bulk, progress, bulk.state, next_ms)

    # Acting

    async def _act(self, account_id: str, bulk: Bulk) -> Bulk | None:
        """None if another process has gone on with it, or it waits."""
        is_repeat = bool(bulk.progress.plan)
        if not bulk.progress.plan and bulk.state is State.RUNNING:
            found, wait_ms = await self._plan(account_id, bulk)
            kept = await self._keep(account_id, bulk, found, wait_ms or LEASE_MS)
            if kept is None or wait_ms:
                return None
            bulk = kept
        rows = list(planned(bulk.progress.plan))
        try:
            acted = await self._acts.carry_out(account_id, bulk, rows, is_repeat)
        except StoreFull:
            waiting = replace(bulk.progress, waits="The store is full")
            await self._keep(account_id, bulk, waiting, _RETRY_MS)
            return None
        progress = bulk.progress.acted(acted.done, acted.refused)
        if acted.left:
            rest = replace(progress, plan=plan_of(acted.left), waits=_RESENDS_LIMITED)
            await self._keep(account_id, bulk, rest, acted.wait_ms)
            return None
        groups = groups_of(acted.made)
        if groups:
            progress = replace(
                progress,
                made=progress.made + len(acted.made),
                made_at_ms=self._store.clock.now_ms(),
                groups=progress.groups + len(groups),
            )
        why = next((words for said, words in _ENOUGH.items() if said in acted.refused), "")
        if not why and progress.done + sum(progress.refused.values()) >= MOST:
            why = f"One action is of at most {MOST:,}"
        state = bulk.state
        if progress.is_planned:
            state = State.DONE
        elif state is State.STOPPING:
            state = State.STOPPED
        if why and not progress.is_planned:
            progress, state = replace(progress, why=why), State.FAILED
        places = dict(enumerate(groups, bulk.progress.groups))
        next_ms = PACE_MS if state.is_under_way or progress.open else None
        return await self._store.bulks.note(account_id, bulk, progress, state, next_ms, places)

    async def _plan(self, account_id: str, bulk: Bulk) -> tuple[Progress, int]:
        """With the next ones to act on; or how long to wait (ms) until they are looked for."""
        asked, progress = bulk.asked, bulk.progress
        if asked.schedules is None:
            return await self._search(account_id, bulk)
        names = chosen(asked, progress.taken)
        rows, taken = [Planned(each, 0) for each in names], progress.taken + len(names)
        if asked.kind is Kind.MOVE:
            rows = await times_of(self._store.server, account_id, names)
        is_planned = taken >= (asked.number or 0)
        plan = plan_of(rows)
        return replace(progress, plan=plan, taken=taken, is_planned=is_planned, waits=""), 0

    async def _search(self, account_id: str, bulk: Bulk) -> tuple[Progress, int]:
        """Those that the filter finds next, of what there was when the action was asked for."""
        asked, progress = bulk.asked, bulk.progress
        found, wait_ms = dict[str, int](), 0
        cursor, reached_ms, is_planned = progress.cursor, progress.reached_ms, False
        for _ in range(_PAGES):
            query = query_of(asked.query)._replace(cursor=cursor, limit=STEP - len(found))
            try:
                page = await self._store.logs.page(account_id, query, gives_way=True)
            except TooManyScans as refusal:
                wait_ms = 0 if found else refusal.wait_ms
                break
            meant, left = await meant_of(self._store.server, account_id, asked, page.entries)
            found |= meant
            if left:
                progress = progress.acted(0, {OF_A_RULE: left})
            cursor, reached_ms = page.next_cursor, page.reached_ms or reached_ms
            is_planned = cursor is None
            if is_planned or len(found) >= STEP:
                break
        after = replace(
            progress,
            plan=plan_of([Planned(*each) for each in found.items()]),
            cursor=cursor,
            reached_ms=reached_ms,
            is_planned=is_planned,
            waits="The searches of an account are limited" if wait_ms else "",
        )
        return after, wait_ms

    # Looking at how the replays end

    async def _look(self, account_id: str, bulk: Bulk) -> None:
        """At the next group of which some had not ended. A round over all groups is followed by a
        pause."""
        progress, bulks = bulk.progress, self._store.bulks
        if not progress.open:
            return
        first = progress.look
        some = await bulks.groups(account_id, bulk.action_id, first, _GROUPS_AT_ONCE)
        place, group = next(
            ((first + n, each) for n, each in enumerate(some) if each.is_open), (None, None)
        )
        changed = dict[int, Group]()
        look = first + len(some) if some else progress.groups
        if group is not None and place is not None:
            statuses = await bulks.statuses(account_id, group.schedule_ids)
            now = group.after_look(statuses)
            before, look = group.ended, place + 1
            ended = [a + b - c for a, b, c in zip(progress.ended, now.ended, before, strict=True)]
            progress = replace(progress, ended=(ended[0], ended[1], ended[2]))
            if now.ended != before:
                changed[place] = now
            some[place - first] = now
        # From the first one that may be open, if there is no other before this one.
        open_from = progress.open_from
        while first <= open_from < look and not some[open_from - first].is_open:
            open_from += 1
        has_gone_round = look >= progress.groups
        look = open_from if has_gone_round else look
        progress = replace(progress, open_from=open_from, look=look)
        next_ms = self._pause_ms(bulk, progress, has_gone_round)
        await bulks.note(account_id, bulk, progress, bulk.state, next_ms, changed)

    def _pause_ms(self, bulk: Bulk, progress: Progress, has_gone_round: bool) -> int | None:
        age_ms = self._store.clock.now_ms() - progress.made_at_ms
        if bulk.state.is_under_way:
            return PACE_MS
        if not progress.open or age_ms > _WATCHED_MS:
            return None
        if not has_gone_round:
            return PACE_MS
        return next((often for most, often in _LOOKS_MS if age_ms < most), _SELDOM_MS)
