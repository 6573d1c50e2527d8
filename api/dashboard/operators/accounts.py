"""For operators: the accounts in a table that is sorted by any column, and credits for one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlencode

from litestar import get, post

from api.dashboard.answer import Raw
from api.dashboard.operators.holds import ADDRESS, lost
from api.dashboard.render import page
from api.dashboard.shared import shared_by
from api.dashboard.viewer.csrf import ONCE, judged_operator, written
from api.dashboard.viewer.session import redirect_saying, signed_in
from api.service import HttpRequest, service_of
from scheduler.callers import Role
from scheduler.errors import NotFound
from scheduler.events import Kind
from scheduler.ids import parse_sharded
from scheduler.store.operators.roster import AccountRow, RosterLook

MOST_SHOWN = 50
# A whole name or id is found among any number.
_MOST_LOOKED_AT = 5000
_GOOD_FOR_S = 10.0
_MOST_CREDITS = 10**12
_LONGEST = 200


class _Column(NamedTuple):
    """`of` is what rows are sorted by; `falls`: at the first press the largest comes first."""

    words: str
    of: Callable[[AccountRow], Any]
    falls: bool = True


COLUMNS = {
    "name": _Column("Name", lambda row: row.name.lower(), falls=False),
    "state": _Column("State", lambda row: row.state),
    "plan": _Column("Plan", lambda row: row.plan, falls=False),
    "share": _Column("Share of traffic", lambda row: row.fired),
    "failed": _Column("Failed", lambda row: row.failed),
    "waiting": _Column("Waiting", lambda row: row.waiting),
    "overdue": _Column("Overdue", lambda row: (row.overdue, -(row.overdue_since_ms or 0))),
    "stored": _Column("Stored", lambda row: row.stored_bytes),
    "credits": _Column("Credits", lambda row: row.credits),
}
_FIRST = "share"


class Listed(NamedTuple):
    """`rows` of those that were wanted, in the order of the column `by`; `fired` by all of them
    that were looked at."""

    rows: list[AccountRow]
    matching: int
    look: RosterLook
    fired: int
    wanted: str
    by: str
    falls: bool

    def address(self, column: str) -> str:
        """Of the same accounts by this column; by that of now, the other way round."""
        falls = not self.falls if column == self.by else COLUMNS[column].falls
        return f"{ADDRESS}?{self._query(column, falls=falls)}#accounts"

    @property
    def news(self) -> str:
        return f"{ADDRESS}/accounts?{self._query(self.by, falls=self.falls)}"

    def order(self, column: str) -> str:
        if column != self.by:
            return "none"
        return "descending" if self.falls else "ascending"

    def _query(self, column: str, *, falls: bool) -> str:
        fields = {"q": self.wanted} if self.wanted else {}
        return urlencode(fields | {"sort": ("-" if falls else "") + column})


async def listed(request: HttpRequest) -> Listed:
    """As the address says: `q` is in the name or id, or a member's whole e-mail address; `sort` a
    column, with a minus the largest first. Other columns are the first one."""
    wanted = request.query_params.get("q", "").strip()[:_LONGEST]
    sort = request.query_params.get("sort", "")
    by, falls = sort.removeprefix("-"), sort.startswith("-")
    if by not in COLUMNS:
        by, falls = _FIRST, True
    rows, look = await found_accounts(request, wanted)
    rows = sorted(rows, key=lambda row: row.account_id)
    rows.sort(key=COLUMNS[by].of, reverse=falls)
    fired = sum(each.fired for each in look.rows)
    return Listed(rows[:MOST_SHOWN], len(rows), look, fired, wanted, by, falls)


async def found_accounts(request: HttpRequest, wanted: str) -> tuple[list[AccountRow], RosterLook]:
    """Those with a part in their name or id, or with a member of just that address; and the look
    that all operators share."""
    store = service_of(request).store
    look = await shared_by(request).get(
        "accounts", _GOOD_FOR_S, lambda: store.roster.look(_MOST_LOOKED_AT)
    )
    part = wanted.lower()
    found = [a for a in look.rows if part in f"{a.name} {a.account_id}".lower()]
    if wanted and not found:
        with contextlib.suppress(NotFound):
            member = await store.members.find(wanted)
            account_id = member.account_id if member else await store.accounts.id_of(wanted)
            found = [await store.roster.of(account_id)]
    return found, look


@get("/system/accounts")
async def accounts_news(request: HttpRequest) -> Raw:
    judged_operator(await signed_in(request))
    values = accounts_values(request, await listed(request))
    return page(request, "operators/system_accounts.html", **values)


@get("/system/grant", needs=Role.ACT)
async def ask_to_grant(request: HttpRequest) -> Raw:
    judged_operator(await signed_in(request))
    return await _grant_page(request, request.query_params.get("account", ""))


@post("/system/grant")
async def grant(request: HttpRequest) -> Raw:
    """Gives an account credits; a form that is sent twice gives them once."""
    viewer, form = await written(request)
    judged_operator(viewer)
    account_id, once, credits = (form.get(name, "") for name in ("account", "once", "credits"))
    whole = credits.isascii() and credits.isdigit() and len(credits) <= 13
    if not ONCE.fullmatch(once) or not whole or not 1 <= int(credits) <= _MOST_CREDITS:
        fault = "Credits are granted in whole numbers from 1 on."
        return await _grant_page(request, account_id, 400, fault)
    _judge_id(account_id)
    store, about = service_of(request).store, f"{int(credits):,} credits"
    async with store.events.act(
        Kind.GRANT, who=viewer.person, account_id=account_id, about=about
    ) as noted:
        account = await store.accounts.grant(account_id, int(credits), once)
    words = f"{int(credits):,} credits granted to {account.name}: {account.credits:,} are left."
    return await redirect_saying(request, viewer, words + lost(noted), ADDRESS)


def accounts_values(request: HttpRequest, found: Listed) -> dict[str, Any]:
    return {
        "listed": found,
        "columns": COLUMNS,
        "quotas": service_of(request).settings.stored_bytes,
        "now_ms": service_of(request).store.clock.now_ms(),
    }


async def _grant_page(
    request: HttpRequest, account_id: str, status: int = 200, fault: str | None = None
) -> Raw:
    _judge_id(account_id)
    account = await service_of(request).store.accounts.get(account_id)
    return page(request, "operators/grant.html", status=status, fault=fault, account=account)


def _judge_id(account_id: str) -> None:
    if parse_sharded(account_id, "acc") is None:
        raise NotFound("There is no such account.")


HANDLERS = [accounts_news, ask_to_grant, grant]
