"""Rules as their owners see them: one, or a page of them. Read-only."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from scheduler import ids
from scheduler.errors import FieldError, InvalidRequest, NotFound, Unreadable, anew
from scheduler.recurring import Rule, RulePage, RuleState
from scheduler.store import keys
from scheduler.store.recurring.rules import DELETED, StoredRule, is_in, key_of, shown
from scheduler.store.recurring.steps import Named, Steps, parts_of
from scheduler.store.scans import Scan, Scans
from scheduler.store.server import Server

NO_RULE = "There is no such recurring schedule"
# How many rules a page looks at for those in a state, and the store's time for each (us).
_BUDGET, _LOOK_US = 2000, 3.0
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
        raise NotFound(NO_RULE)

    async def id_of(self, account_id: str, name: str) -> str | None:
        """Of the rule that has the name."""
        key = keys.account(account_id) + keys.RULE_NAMES
        local = await self._server.read("HGET", key, name)
        return None if local is None else ids.recurring_id(local.decode())

    async def page(
        self, account_id: str, state: RuleState | None, limit: int, cursor: str | None
    ) -> RulePage:
        """In the order of creation. Those in one state count as a search, and a page of them may
        be short. Raises InvalidRequest for a bad cursor, TooManyScans."""
        if cursor is not None and not ids.is_recurring_id(cursor):
            raise InvalidRequest([FieldError("cursor", "not a cursor from nextCursor")])
        after = "-" if cursor is None else f"({ids.local(cursor)}"
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
        page = ("ZRANGE", base + keys.RULES, after, "+", "BYLEX", "LIMIT", 0, most)
        listed = [each.decode() for each in await self._server.read(*page)]
        found = listed
        if state is not None:
            scan.us += _LOOK_US * len(listed)
            asked = [("HGET", key_of(account_id, each), "p") for each in listed]
            states = await self._server.reads(asked, damaged=True)
            both = zip(listed, states, strict=True)
            found = [each for each, p in both if is_in(state, p)][:limit]
        last = found[-1:] if len(found) == limit else listed[-1:] if len(listed) == most else []
        return found, ids.recurring_id(last[0]) if last else None

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
