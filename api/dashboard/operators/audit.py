"""For operators: what they did, and what happened to the service, the latest first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple
from urllib.parse import urlencode

from litestar import get

from api.dashboard.answer import Raw
from api.dashboard.formats import duration
from api.dashboard.render import page
from api.dashboard.shared import shared_by
from api.dashboard.viewer.csrf import judged_operator
from api.dashboard.viewer.session import ROOT, asks_for_news, signed_in, zone_of
from api.dashboard.zones import Zone
from api.service import HttpRequest, service_of
from scheduler.errors import NotFound, StoreRefused
from scheduler.events import ACTS, OWN, SERVICE, Event, Kind
from scheduler.ids import parse_sharded
from scheduler.store.events.events import EventPage
from scheduler.times import format_iso8601

ADDRESS = f"{ROOT}/system/audit"
_PER_PAGE = 50
_LONGEST_TEXT = 200
_GOOD_FOR_S = 1.0
_NAMES_GOOD_FOR_S = 10.0

GROUPS = {
    "acts": ("operators' acts", ACTS),
    "service": ("workers and store", SERVICE),
    "own": ("of the account", OWN),
}
# Each as what happened, from its `about` (`{}`).
WORDS = {
    Kind.WORKER_STARTED: "a worker started: {}",
    Kind.WORKER_STOPPED: "a worker stopped: {}",
    Kind.WORKER_LOST: "a worker was lost: {}",
    Kind.WORKER_BACK: "a worker that was lost came back: {}",
    Kind.OTHER_VERSION: "a worker of another version than the others came: {}",
    Kind.STORE_AWAY: "the store was away",
    Kind.HOLD: "put all workers on hold {}",
    Kind.RESUMED: "resumed all workers {}",
    Kind.DRAIN: "drained {}",
    Kind.LOOK: "looked at the account {}",
    Kind.GRANT: "granted {}",
    Kind.PLAN: "changed the plan to {}",
    Kind.CREATE: "made the account {}",
    Kind.RENAME: "renamed the account to {}",
    Kind.SUSPEND: "suspended the account {}",
    Kind.REINSTATE: "resumed the account {}",
    Kind.DELETE: "deleted the account {}",
    Kind.KEY_MADE: "made the API key {}",
    Kind.KEY_DEACTIVATED: "deactivated the API key {}",
    Kind.LINK: "made a link to {}",
    Kind.MEMBERS: "changed the members: {}",
    Kind.RESTORE: "decided after a restore: {}",
    Kind.RESEAL: "sealed the store again {}",
    Kind.LANE_PAUSED: "lane {} was paused",
    Kind.LANE_RESUMED: "lane {} was resumed",
    Kind.LANE_CALM: "lane {} became calm, as its target asked",
    Kind.ACCOUNT_PAUSED: "the account was paused",
    Kind.ACCOUNT_RESUMED: "the account was resumed",
    Kind.ACCOUNT_SUSPENDED: "the account was suspended",
    Kind.ACCOUNT_REINSTATED: "the account's suspension ended",
    Kind.BULK: "a bulk action: {}",
    Kind.LANE_SET: "limits of lane {} were changed",
    Kind.LANE_CLEARED: "lane {} was cleared",
    Kind.RULE_MADE: "recurring schedule {} was made",
    Kind.RULE_CHANGED: "recurring schedule {} was changed",
    Kind.RULE_PAUSED: "recurring schedule {} was paused",
    Kind.RULE_RESUMED: "recurring schedule {} was resumed",
    Kind.RULE_DELETED: "recurring schedule {} was deleted",
    Kind.CALLBACK_SET: "the default callback was changed",
    Kind.SECRETS_ROTATED: "the signing secrets were rotated",
    Kind.API_KEY_MADE: "API key {} was made",
    Kind.API_KEY_DEACTIVATED: "API key {} was deactivated",
    Kind.MEMBER_INVITED: "invited {}",
    Kind.MEMBER_JOINED: "accepted the invitation",
    Kind.MEMBER_ROLE: "changed a role: {}",
    Kind.MEMBER_REMOVED: "removed {}",
    Kind.PASSWORD_LINK: "made a link for a new password of {}",
    Kind.SIGNED_OUT: "signed out everywhere",
}


class Wanted(NamedTuple):
    """`kind` names a group or a kind; `who` is a part of a person's name, in any letter case;
    `account` as it was given, and the id that it leads to ('': none)."""

    kind: str = ""
    who: str = ""
    account: str = ""
    account_id: str = ""
    from_ms: int | None = None
    to_ms: int | None = None
    cursor: str = ""

    @property
    def is_any(self) -> bool:
        return bool(self._replace(cursor="") != Wanted())

    def meets(self, event: Event) -> bool:
        if self.account_id and event.account_id != self.account_id:
            return False
        if self.who and self.who.lower() not in event.who.lower():
            return False
        _, kinds = GROUPS.get(self.kind, ("", frozenset()))
        return not self.kind or event.kind == self.kind or event.kind in kinds

    def address(self, cursor: str = "") -> str:
        times = (("from", self.from_ms), ("to", self.to_ms))
        pairs = {"kind": self.kind, "who": self.who, "account": self.account}
        pairs |= {name: "" if ms is None else format_iso8601(ms) for name, ms in times}
        given = {name: value for name, value in (pairs | {"cursor": cursor}).items() if value}
        return ADDRESS + (f"?{urlencode(given)}" if given else "")


@get("/system/audit")
async def audit_page(request: HttpRequest) -> Raw:
    """The page, or its news."""
    judged_operator(await signed_in(request))
    store = service_of(request).store
    wanted, faults = _read(request.query_params, zone_of(request))
    found = EventPage([], None)
    if wanted.account and not faults:
        try:
            wanted = wanted._replace(account_id=await store.accounts.id_of(wanted.account))
        except NotFound:
            faults["account"] = "No account is called so."

    async def read() -> EventPage:
        return await store.events.page(
            wanted.meets,
            limit=_PER_PAGE,
            account_id=wanted.account_id,
            from_ms=wanted.from_ms or 0,
            to_ms=wanted.to_ms,
            cursor=wanted.cursor or None,
        )

    try:
        if not faults:
            found = await shared_by(request).get(("audit", wanted), _GOOD_FOR_S, read)
    except ValueError:
        faults["cursor"] = "There is no such page of the list; begin at the first one."
    names = await _names(request, {each.account_id for each in found.events} - {""})
    return page(
        request,
        "operators/audit_live.html" if asks_for_news(request) else "operators/audit.html",
        status=400 if faults else 200,
        wanted=wanted,
        faults=faults,
        found=found,
        names=names,
        groups=GROUPS,
        kinds=list(Kind),
        happened=happened,
        now_ms=store.clock.now_ms(),
    )


def happened(event: Event) -> str:
    """What happened, but for when, who and to whom."""
    words = WORDS[event.kind]
    text = words.format(event.about).rstrip(": ")
    if "{}" not in words and event.about:
        text += f" ({event.about})"
    if event.since_ms is not None and event.at_ms > event.since_ms:
        lasted = duration(event.at_ms - event.since_ms)
        text += f" for {lasted}" if event.kind is Kind.STORE_AWAY else f", after {lasted}"
    return text


def _read(given: Mapping[str, str], zone: Zone) -> tuple[Wanted, dict[str, str]]:
    """What the address asks for, and its faults by name."""
    texts = {name: value.strip()[:_LONGEST_TEXT] for name, value in given.items()}
    faults: dict[str, str] = {}
    kind = texts.get("kind", "")
    if kind and kind not in GROUPS and kind not in set(Kind):
        kind, faults["kind"] = "", "There is no such kind of event."
    times: dict[str, int | None] = {"from": None, "to": None}
    for name in times:
        try:
            times[name] = max(zone.moment(texts[name]), 0) if texts.get(name) else None
        except (ValueError, OverflowError) as error:
            faults[name] = f"{str(error)[:1].upper()}{str(error)[1:]}."
    account = texts.get("account", "")
    wanted = Wanted(kind, texts.get("who", ""), account, "", times["from"], times["to"])
    return wanted._replace(cursor=texts.get("cursor", "")), faults


async def _names(request: HttpRequest, account_ids: set[str]) -> dict[str, str]:
    """The names of accounts that there still are, by id."""
    store, shared = service_of(request).store, shared_by(request)

    async def name(account_id: str) -> str:
        try:
            return (await store.accounts.get(account_id)).name
        except (NotFound, StoreRefused):  # it is gone, or damaged
            return ""

    ids = sorted(each for each in account_ids if parse_sharded(each, "acc") is not None)
    reads = [shared.get(("name", each), _NAMES_GOOD_FOR_S, partial(name, each)) for each in ids]
    return dict(zip(ids, await asyncio.gather(*reads), strict=True))


HANDLERS = [audit_page]
