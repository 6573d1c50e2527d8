"""Rules as their owners see them: one, or a page of them. Read-only."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import structlog

from scheduler import ids
from scheduler.errors import (
    FieldError,
    InvalidRequest,
    UnknownRecurring,
    Unreadable,
    anew,
)
from scheduler.recurrence.recurring import Rule, RulePage, RuleState
from scheduler.store import keys
from scheduler.store.recurring.rules import DELETED, STATE_NUMBERS, StoredRule, shown
from scheduler.store.recurring.steps import Named, Steps, parts_of
from scheduler.store.scans import Scan, Scans
from scheduler.store.server import Server

# How many rules a page looks at for active ones, and the time for each (us), the store's and ours.
_BUDGET, _LOOK_US = 2000, 0.5
_log = structlog.get_logger(__name__)


class Rules:
    def __init__(self, server: Server, steps: Steps, scans: Scans) -> None:
        self._server = server
        self._steps = steps
        self._scans = scans

    async def one(self, account_id: str, recurring_id: str) -> StoredRule:
        """Raises NotFound, Unreadable."""
        if ids.is_recurring_id(recurring_id):
            [(_, found)] = await self._steps.read([(account_id, ids.local(recurring_id))])
            if isinstance(found, Unreadable):
                raise anew(found)
            if found is not None and found.state != DELETED:
                return found
        raise UnknownRecurring

    async def was_deleted(self, account_id: str, recurring_id: str) -> bool:
        """Of one that is not there: whether a deletion of it is remembered. Raises Unreadable."""
        if not ids.is_recurring_id(recurring_id):
            return False
        base, local = keys.account(account_id), ids.local(recurring_id)
        lately, place = await self._server.reads(
            [("EXISTS", base + keys.OPERATION + local), ("LPOS", base + keys.RULES_DELETED, local)]
        )
        return bool(lately) or place is not None

    async def id_of(self, account_id: str, name: str) -> str | None:
        """Of the rule that has the name."""
        key = keys.account(account_id) + keys.RULE_NAMES
        local = await self._server.read("HGET", key, name)
        return None if local is None else ids.recurring_id(local.decode())

    async def beginning(self, account_id: str, begin: str, most: int) -> list[tuple[str, str]]:
        """Names that begin so, in any letter case, with the ids of their rules, by name. Looks at
        all names, 10,000 at most, and counts as a search. Raises TooManyScans."""
        key, found = keys.account(account_id) + keys.RULE_NAMES, list[tuple[str, str]]()
        pattern = "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else c for c in begin) + "*"
        async with self._scans.of(account_id, searches=True) as scan:
            size = await self._server.read("HLEN", key)
            scan.us += _LOOK_US * size
            place: bytes | int = 0
            while size:
                steps = ("MATCH", pattern, "COUNT", _BUDGET)
                place, flat = await self._server.read("HSCAN", key, place, *steps)
                some = zip(flat[::2], flat[1::2], strict=True)
                found += [(name.decode(), ids.recurring_id(local.decode())) for name, local in some]
                if not int(place):
                    break
        return sorted(dict(found).items())[:most]

    async def blocked(self, account_id: str, most: int) -> tuple[int, list[Rule]]:
        """How many are blocked, and the first ones of them, but for those that cannot be read."""
        number = STATE_NUMBERS[RuleState.BLOCKED]
        states = keys.account(account_id) + keys.RULE_STATES
        count, some = await self._server.reads(
            [
                ("ZCOUNT", states, number, number),
                ("ZRANGE", states, number, number, "BYSCORE", "LIMIT", 0, most),
            ]
        )
        return count, await self._shown([(account_id, each.decode()) for each in some])

    async def page(
        self, account_id: str, state: RuleState | None, limit: int, cursor: str | None
    ) -> RulePage:
        """In the order of creation. Those in one state count as a search, and a page of active ones
        may be short. Raises InvalidRequest for a bad cursor, TooManyScans."""
        if cursor is not None and not ids.is_recurring_id(cursor):
            raise InvalidRequest([FieldError("cursor", "not a cursor from nextCursor")])
        after = "" if cursor is None else ids.local(cursor)
        async with self._scans.of(account_id, searches=state is not None) as scan:
            found, behind = await self._listed(account_id, state, limit, after, scan)
        parts = list(parts_of(await self._steps.sizes([(account_id, each) for each in found])))
        if len(parts) > 1:  # a page of large requests is short
            behind = ids.recurring_id(parts[0][-1][1])
        return RulePage(await self._shown(parts[0]) if parts else [], behind)

    async def _listed(
        self, account_id: str, state: RuleState | None, limit: int, after: str, scan: Scan
    ) -> tuple[list[str], str | None]:
        """The local ids of a page, and the cursor behind it."""
        base, most = keys.account(account_id), limit if state is None else _BUDGET
        if state in STATE_NUMBERS:
            return await self._in_state(base, STATE_NUMBERS[state], limit, after, scan)
        page = ("ZRANGE", base + keys.RULES, f"({after}", "+", "BYLEX", "LIMIT", 0, most)
        listed = await self._server.read(*page)
        found = listed
        if state is not None and listed:
            scan.us += _LOOK_US * len(listed)
            others = await self._server.read("ZMSCORE", base + keys.RULE_STATES, *listed)
            both = zip(listed, others, strict=True)
            found = [each for each, other in both if other is None][:limit]
        is_full = len(found) == limit
        last = found[-1:] if is_full else listed[-1:] if len(listed) == most else []
        return _page_of(found, last)

    async def _in_state(
        self, base: str, number: int, limit: int, after: str, scan: Scan
    ) -> tuple[list[str], str | None]:
        """`_listed` of those that are not active: the index has them side by side, 10,000 at most,
        and cannot begin in between."""
        listed = await self._server.read(
            "ZRANGE", base + keys.RULE_STATES, number, number, "BYSCORE"
        )
        scan.us += _LOOK_US * len(listed)
        first = bisect_right(listed, after.encode())
        found = listed[first : first + limit]
        return _page_of(found, found[-1:] if first + limit < len(listed) else [])

    async def _shown(self, names: Sequence[Named]) -> list[Rule]:
        """But for those that cannot be read, which are logged."""
        rules = list[Rule]()
        for (account_id, local), found in await self._steps.read(names):
            try:
                if isinstance(found, Unreadable):
                    raise found
                if found is not None and found.state != DELETED:
                    rules.append(shown(found, self._server.secrecy))
            except Unreadable as error:
                what = {"account": account_id, "recurring": ids.recurring_id(local)}
                _log.error("left out of a list: it cannot be read", **what, error=str(error))
        return rules


def _page_of(found: Sequence[bytes], last: Sequence[bytes]) -> tuple[list[str], str | None]:
    behind = ids.recurring_id(last[0].decode()) if last else None
    return [each.decode() for each in found], behind
