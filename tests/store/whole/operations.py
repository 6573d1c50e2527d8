"""Every operation of the store that runs a script, as a table: which scripts, and how it is carried
out for some accounts."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from scheduler import ids
from scheduler.callers import Rate, Role
from scheduler.errors import StoreRefused, Unreadable
from scheduler.lane_settings import AccountCallback, LaneSettings, Pause
from scheduler.models import Idempotency, Invocation, Plan, Request, Schedule, Upsert
from scheduler.store import Store, keys
from scheduler.store.accounts.sign_in.sessions import Purpose
from scheduler.store.bulk.records import Asked, Group, Kind
from scheduler.store.events.events import _RECORD
from scheduler.store.lifecycle.callback.callbacks import CallbackAck
from scheduler.store.lifecycle.claim.claim import _REALIGN_LANES, _REALIGN_RULES
from scheduler.store.lifecycle.claim.clock_back import _CALLBACKS_BACK, _CLOCK_BACK
from scheduler.store.lifecycle.create.replays import CreatePlan, asked_for
from scheduler.store.lifecycle.create.results import CreateResult
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.operators.restore import _UNLEASE
from scheduler.store.preconditions import Precondition
from scheduler.store.scans import _SCAN
from scheduler.store.server.scripts import Script
from scheduler.store.server.server import _READ, _TOUCH
from scheduler.store.verdict import Verdict
from tests.store.recurring import ruled
from tests.store.scene import COMPLETED, URL
from tests.store.whole.parties import CREDITS, FAR_MS, LEASE_MS, ONCE, SAID, Party
from tests.support.plain import redis_of

PAUSED, RESUMED = [
    lambda before, pause=pause: replace(before, pause=pause) for pause in (Pause("a key"), None)
]
_CALLED = [
    lambda before, callback=callback: replace(before, callback=callback)
    for callback in (AccountCallback(URL), None)
]
# The callbacks that each party holds, where an operation is about some.
CALLS: dict[str, list[Invocation]] = {}
# What came of an operation for an account of which something is damaged.
DAMAGED = "damaged"
NEW_ACCOUNT = "acc_00_22222222"
SHARD = keys.shard(0)
_REQUEST, _OTHER = Request(FAR_MS, "POST", URL), Request(FAR_MS + 1, "PUT", URL)
_REFERRED = Request(FAR_MS, "POST", URL, reference="ours")
_ONTO = [
    Upsert(Request(FAR_MS + 1, "PUT", URL, reference=name), keep=False)
    for name in ("waiting", "waiting", "new")
]
_LANED = [replace(_OTHER, lane=name) for name in ("a", "b", "b")]
_ONTO_LANED = [each._replace(request=replace(each.request, lane="b")) for each in _ONTO]
_BULK = Asked(Kind.CANCEL, "dashboard", 1, bytes(16), {}, 1, {})
_NEW = Idempotency("a third", "of a third")
_NOT_AS_ANOTHER = Precondition(None, frozenset(('"x"',)))
_ACT = (10, "an operation", 0, "grant", "", "ann", "5", "", "")


class Hall(NamedTuple):
    """A store with two accounts; the same one, opened with a key; and what scripts last replied."""

    store: Store
    keyed: Store
    a: Party
    b: Party
    replies: dict[str, Any]


Act = Callable[[Hall, Sequence[Party]], Awaitable[list[Any]]]
Call = Callable[[Hall, Party], Awaitable[object]]


class Operation(NamedTuple):
    """`act` returns the result for each party, or DAMAGED; the same store gives the same result.
    `together`: one call of each script serves all parties. `walk`: each party has a call of its
    own, in turn. Otherwise `act` serves the first party only. `prepare` runs before an account is
    damaged: `whose`, or the first party."""

    name: str
    scripts: Sequence[str]
    act: Act
    together: bool = False
    walk: bool = False
    prepare: Act | None = None
    whose: str = ""


async def told(call: Awaitable[object]) -> object:
    try:
        return await call
    except StoreRefused:
        return DAMAGED
    except Exception as error:
        return type(error).__name__


def each(*calls: Call) -> Act:
    """Calls for each party, one after the other; of all parties at once, so that calls collected
    goes out together."""

    async def all_of(hall: Hall, party: Party) -> object:
        found = [await told(call(hall, party)) for call in calls]
        return DAMAGED if DAMAGED in found else found

    async def act(hall: Hall, parties: Sequence[Party]) -> list[object]:
        return list(await asyncio.gather(*(all_of(hall, party) for party in parties)))

    return act


def op(name: str, scripts: str, *calls: Call, act: Act | None = None, **more: Any) -> Operation:
    return Operation(name, scripts.split(), act or each(*calls), **more)


def shard_wide(call: Callable[[Hall], Awaitable[object]]) -> Act:
    """Calls about a whole shard must answer, whatever one account has."""

    async def act(hall: Hall, parties: Sequence[Party]) -> list[object]:
        return [await told(call(hall))] * len(parties)

    return act


def settle(script: str, call: Callable[[Store, list[Invocation]], Awaitable[object]]) -> Act:
    """Settles in one call what all parties hold, two each. Where the call tells no codes, they are
    those of the script."""

    async def act(hall: Hall, parties: Sequence[Party]) -> list[object]:
        hall.replies.clear()
        codes = await told(call(hall.store, [held for party in parties for held in party.held]))
        if not codes or not isinstance(codes[0], int):
            codes = hall.replies.get(script, (0, []))[1]
        found = [codes[2 * n : 2 * n + 2] for n in range(len(parties))]
        return [DAMAGED if each in ([-2] * 2, [Verdict.DAMAGED] * 2) else each for each in found]

    return act


def ack(store: Store, held: list[Invocation]) -> Awaitable[object]:
    """Every other one has failed, and its target said something."""
    outcomes = [(COMPLETED, SAID)[n % 2] for n in range(len(held))]
    return store.ends.ack(0, [Ack(*pair, 3) for pair in zip(held, outcomes, strict=True)])


def retry(store: Store, held: list[Invocation]) -> Awaitable[object]:
    return store.ends.ack(0, [Ack(each, SAID, 3, FAR_MS) for each in held])


def extend(store: Store, held: list[Invocation]) -> Awaitable[object]:
    return store.claims.extend(0, LEASE_MS, held)


def release(store: Store, held: list[Invocation]) -> Awaitable[object]:
    return store.claims.release(0, held)


async def invite_and_join(hall: Hall, party: Party) -> bool:
    """The party that comes second is refused: the address is the first one's."""
    link = await hall.store.members.invite(party.account_id, "x@example.com", Role.READ, "us")
    return await hall.store.members.join(link, "a hash") is not None


def create_account(hall: Hall, _: Party) -> Awaitable[object]:
    return hall.store.accounts.create(
        "new", credits=CREDITS, plan=Plan.FREE, email="new@example.com"
    )


def create(*wanted: Request | Upsert, once: Idempotency | None = None) -> Call:
    return lambda hall, party: hall.store.schedules.create_all(party.account_id, wanted, once)


def change(which: str, to: Request) -> Call:
    """That schedule of the party becomes another one."""

    def changed(hall: Hall, party: Party) -> Awaitable[object]:
        return hall.store.schedules.change(party.account_id, getattr(party, which), lambda _: to)

    return changed


def cancel_many(hall: Hall, party: Party) -> Awaitable[object]:
    some = [party.waiting, party.due, party.dead]
    return hall.store.canceller.by_id(party.account_id, some)


async def forget(hall: Hall, party: Party) -> object:
    letter = await hall.store.schedules.get(party.account_id, party.dead)
    return await hall.store.letters.forget(party.account_id, [letter])


def resend(hall: Hall, party: Party) -> Awaitable[object]:
    return hall.store.callbacks.resend(party.account_id, party.dead, URL, "an operation")


def resend_many(hall: Hall, party: Party) -> Awaitable[object]:
    some = [party.dead, party.waiting, party.older]
    return hall.store.callbacks.resend_steadily(party.account_id, some, "an operation")


def change_account(changed: Any) -> Call:
    return lambda hall, party: hall.store.pauses.change(party.account_id, changed)


def run(script: Script, of: Callable[[Party], tuple[str, Sequence[Any]]]) -> Call:
    """The script alone, with this key and these arguments."""
    return lambda hall, party: hall.store.server.run(script, *of(party))


def suspend(hall: Hall, party: Party) -> Awaitable[object]:
    return hall.store.changes.suspend(party.account_id)


async def make_door_keys(hall: Hall, party: Party) -> object:
    return await hall.store.signing.door_keys(party.account_id)


def set_lane(hall: Hall, party: Party) -> Awaitable[object]:
    limits = LaneSettings(rate=1, per_ms=1000)
    return hall.store.lanes.put(party.account_id, "a", limits)


async def claim(hall: Hall, parties: Sequence[Party]) -> list[Any]:
    batch: Any = await told(hall.store.claims.claim(0, lease_ms=LEASE_MS, most=128))
    if batch == DAMAGED:
        return [DAMAGED] * len(parties)
    found = [
        [each.schedule_id for each in batch.invocations if each.account_id == party.account_id]
        for party in parties
    ]
    broken = [party.account_id in batch.broken for party in parties]
    return [DAMAGED if is_broken else ids for is_broken, ids in zip(broken, found, strict=True)]


async def set_callback(hall: Hall, party: Party) -> None:
    """The account's default."""
    default = {"url": URL, "on": "executed"}
    await redis_of(hall.store).hset(party.base + keys.CALLBACK, mapping=default)


async def call_back(hall: Hall, parties: Sequence[Party]) -> list[Any]:
    """All that each party holds has ended, and its callbacks are held instead."""
    for party in parties:
        await set_callback(hall, party)
        await ack(hall.store, party.held)
    claimed = (await hall.store.claims.claim(0, lease_ms=LEASE_MS, most=128)).invocations
    for party in parties:
        CALLS[party.account_id] = [
            each for each in claimed if each.account_id == party.account_id and each.is_callback
        ]
        assert len(CALLS[party.account_id]) == 2
    return []


async def await_callbacks(hall: Hall, parties: Sequence[Party]) -> list[Any]:
    await call_back(hall, parties)
    await hall.store.claims.release(0, held_calls(parties))
    return []


def calls(script: str, call: Callable[[Store, list[Invocation]], Awaitable[object]]) -> Act:
    """As `settle`, of the callbacks that all parties hold."""

    async def act(hall: Hall, parties: Sequence[Party]) -> list[Any]:
        settled = settle(script, lambda store, _: call(store, held_calls(parties)))
        return await settled(hall, parties)

    return act


def held_calls(parties: Sequence[Party]) -> list[Invocation]:
    """As they were claimed."""
    return [copy.copy(each) for party in parties for each in CALLS[party.account_id]]


def answer(store: Store, held: list[Invocation]) -> Awaitable[object]:
    """Every other one is tried again."""
    dues = [None if n % 2 else FAR_MS for n in range(len(held))]
    acks = [CallbackAck(each, SAID, due_ms) for each, due_ms in zip(held, dues, strict=True)]
    return store.callbacks.ack(0, acks)


def realign(hall: Hall) -> Awaitable[object]:
    return hall.store.claims.realign(0)


async def census(hall: Hall) -> bool:
    figures = await hall.store.census.look()
    return bool(figures.due and figures.counted)


async def roster(hall: Hall) -> bool:
    return bool((await hall.store.roster.look(100)).rows)


async def reseal(hall: Hall) -> bool:
    return bool(await hall.keyed.resealer.reseal())


async def set_the_clock_back(hall: Hall, parties: Sequence[Party]) -> list[Any]:
    heads = {party.account_id[7:]: FAR_MS for party in parties}
    await redis_of(hall.store).zadd(SHARD + keys.HEADS, heads)
    return []


async def let_lapse(hall: Hall, party: Party) -> None:
    """Ends the leases of what it holds."""
    held, lane, redis = party.held, party.first.lane, redis_of(hall.store)
    ends = {each.schedule_id[4:]: 1.5 for each in held}
    await redis.zadd(party.base + (keys.LANED if lane else keys.WAITING), ends)
    if lane is not None:
        runs = {each.schedule_id[4:]: -1.5 for each in held}
        await redis.zadd(party.base + keys.LANE_QUEUE + lane, runs)


async def take_and_note(hall: Hall, party: Party) -> bool:
    """A step with a group of replays that is new, and one with what became of it."""
    bulk, group = await hall.store.bulks.take(party.account_id), Group(bytes(16), b"\0")
    for _ in range(2):
        of_one = (party.account_id, bulk, bulk.progress, bulk.state, 100, {0: group})
        bulk = await hall.store.bulks.note(*of_one)
    return bulk is not None


def made(original: Schedule) -> Request:
    return Request(FAR_MS, "POST", URL, replay_of=original.schedule_id)


async def replay(hall: Hall, parties: Sequence[Party]) -> list[Any]:
    """All are read before, so that one script replays for all parties."""
    schedules, once = hall.store.schedules, Idempotency("a fourth", "of a fourth")

    async def read(party: Party) -> CreatePlan:
        names = [party.dead, party.older, party.due]
        return await asked_for(names, await schedules._read(party.account_id, names), made)

    async def replayed(party: Party, what: object) -> object:
        if not isinstance(what, CreatePlan):
            return what
        return await schedules._replay(party.account_id, what, made, once, None)

    asked = [await told(read(party)) for party in parties]
    pairs = zip(parties, asked, strict=True)
    return list(await asyncio.gather(*(told(replayed(*pair)) for pair in pairs)))


async def create_by_key(hall: Hall, party: Party) -> tuple[CreateResult | None, list[Rate]]:
    key, standings = hall.store.api_keys.known(party.api_key), list[Rate]()
    created = await hall.store.schedules.create_by_key(key, _REQUEST, None, 1, standings.append)
    if created is None and not standings:
        raise Unreadable("The key, or its account, was refused")
    return created, standings


async def advance(hall: Hall, parties: Sequence[Party]) -> list[Any]:
    if await ruled.has_advanced(hall.store, parties[-1]):
        ids.new_schedule_ids(1, 0)  # as then, so that the other one gets the same again
    call = hall.store.recurring.advance(ruled.fired(parties[::-1]))
    return await ruled.verdicts(hall.store, parties, told(call))


async def tend(hall: Hall, parties: Sequence[Party]) -> list[Any]:
    return await ruled.verdicts(hall.store, parties, told(hall.store.recurring.tend_due(0)))


def long_leases(party: Party, held: Sequence[Invocation]) -> list[Any]:
    """Leases of these, as if none could last until now."""
    rows = [value for one in held for value in (ids.local(one.schedule_id), "", "", 0)]
    return [party.account_id[7:], -(2**40), *rows]


CREATE, CHANGE = "lifecycle/create/create", "lifecycle/create/change"
CLAIM, LEASE, END = "lifecycle/claim/claim", "lifecycle/claim/lease", "lifecycle/end/end"
CALLBACK, STEP = "lifecycle/callback/callback", "recurring/step_with_room"
HAVE_RULE = each(lambda h, p: ruled.have_rule(h.store, p))
TOGETHER = [
    op("create", CREATE, create(*[_REQUEST] * 3)),
    op("create with a key that was used", CREATE, create(_REQUEST, once=ONCE)),
    op("create with a key that is new", CREATE, create(_REQUEST, once=_NEW)),
    op("create with a reference", CREATE, create(*[_REFERRED] * 2)),
    op("create onto what waits", CREATE, create(*_ONTO)),
    op("create in lanes", CREATE, create(_REQUEST, *_LANED)),
    op("create onto what waits, in lanes", CREATE, create(*_ONTO_LANED)),
    op("create by an API key", CREATE, create_by_key),
    op("replay", CREATE, act=replay),
    op("admit", "accounts/admit", lambda h, p: h.store.api_keys.admit(p.api_key)),
    op("claim", CLAIM, act=claim),
    op("ack", END, act=settle(END, ack)),
    op("retry", END, act=settle(END, retry)),
    op("extend", LEASE, act=settle(LEASE, extend)),
    op("release", LEASE, act=settle(LEASE, release)),
    op("ack with callbacks", END, act=settle(END, ack), prepare=each(set_callback)),
    op("claim callbacks", CLAIM, act=claim, prepare=await_callbacks),
    op("answers to callbacks", CALLBACK, act=calls(CALLBACK, answer), prepare=call_back),
    op("extend callbacks", LEASE, act=calls(LEASE, extend), prepare=call_back),
    op("release callbacks", LEASE, act=calls(LEASE, release), prepare=call_back),
    op("realign", "lifecycle/claim/realign", act=shard_wide(realign), prepare=set_the_clock_back),
    op("census", "operators/due operators/walk", act=shard_wide(census)),
    op("roster", "operators/roster", act=shard_wide(roster)),
]
OF_SCHEDULES = [
    op("change", CHANGE, change("waiting", _REQUEST)),
    op("change between attempts", CHANGE, change("retried", _OTHER)),
    op("change to another lane", CHANGE, change("waiting", _LANED[1])),
    op("cancel", END, lambda h, p: h.store.canceller.cancel(p.account_id, p.waiting)),
    op("stop", END, lambda h, p: h.store.canceller.cancel(p.account_id, p.retried)),
    op("cancel many", END, cancel_many),
    op("forget a dead letter", "lifecycle/end/forget", forget),
    op("send a callback again", "lifecycle/callback/resend", resend),
    op(
        "send callbacks again",
        "lifecycle/callback/resend",
        resend_many,
        prepare=each(set_callback),
    ),
    op("quota", "accounts/stored", lambda h, p: h.store.accounts.stored_bytes(p.account_id)),
]
OF_ACCOUNTS = [
    op("create account", "accounts/create", create_account, whose=NEW_ACCOUNT),
    op(
        "delete account",
        "accounts/leave accounts/left accounts/free",
        lambda h, p: h.store.changes.delete(p.account_id),
    ),
    op("grant", "accounts/grant", lambda h, p: h.store.accounts.grant(p.account_id, 7)),
    op(
        "rename",
        "accounts/set accounts/rename accounts/unset accounts/free",
        lambda h, p: h.store.changes.rename(p.account_id, "another name"),
    ),
    op("suspend", "accounts/suspend", suspend),
    op(
        "resume",
        "accounts/suspend",
        lambda h, p: h.store.changes.resume(p.account_id),
        prepare=each(suspend),
    ),
    op(
        "API keys",
        "accounts/key_create accounts/key_deactivate",
        lambda h, p: h.store.api_keys.create(p.account_id, "another key"),
        lambda h, p: h.store.api_keys.deactivate(p.key_id),
    ),
    op("search", "scan", run(_SCAN, lambda p: (p.base, (1000, 50_000, 10_000_000, 0)))),
    op("set a lane", "lanes/read lanes/set", set_lane),
    op(
        "lanes with a backlog",
        "lanes/backlog",
        lambda h, p: h.store.lanes.backlogs(p.account_id),
        prepare=each(set_lane),
    ),
    op(
        "realign lanes",
        "lifecycle/claim/realign_lanes",
        run(_REALIGN_LANES, lambda p: (SHARD, (p.account_id[7:], "", 100))),
        prepare=each(set_lane),
    ),
    op(
        "clear a lane",
        "lanes/clear",
        lambda h, p: h.store.lanes.clear(p.account_id, "a"),
        prepare=each(set_lane),
    ),
    op(
        "clear a lane that is not as another was",
        "lanes/read lanes/clear",
        lambda h, p: h.store.lanes.clear(p.account_id, "a", _NOT_AS_ANOTHER),
        prepare=each(set_lane),
    ),
    op("pause and resume", "accounts/pause", *map(change_account, (PAUSED, RESUMED))),
    op("set and remove the account's callback", "accounts/pause", *map(change_account, _CALLED)),
    op(
        "a bulk action",
        "bulk/add bulk/take bulk/step bulk/stop",
        lambda h, p: h.store.bulks.add(p.account_id, "an action", _BULK),
        take_and_note,
        lambda h, p: h.store.bulks.stop(p.account_id, "an action"),
    ),
    op(
        "rotate",
        "accounts/signing/signing_rotate",
        lambda h, p: h.store.signing.rotate(p.account_id, 1),
    ),
    op(
        "the keys of the QStash door",
        "accounts/signing/door_keys",
        make_door_keys,
    ),
    op(
        "rotate the keys of the QStash door",
        "accounts/signing/door_keys",
        lambda h, p: h.store.signing.door_keys(p.account_id, rotate=True),
        prepare=each(make_door_keys),
    ),
]
OF_HOLDERS = [
    op(
        "sign in",
        "accounts/sign_in/attempt accounts/sign_in/session_open",
        lambda h, p: h.store.attempts.count(p.email, "127.0.0.1"),
        lambda h, p: h.store.sessions.open(p.account_id, p.member_id),
    ),
    op(
        "sessions",
        "accounts/set accounts/unset accounts/sign_in/session_close",
        lambda h, p: h.store.sessions.say(p.session.session, "words"),
        lambda h, p: h.store.sessions.hear(p.session.session._replace(said="words")),
        lambda h, p: h.store.sessions.close(p.session.session),
        lambda h, p: h.store.sessions.close_all(p.session.session),
    ),
    op(
        "links",
        "accounts/sign_in/link_make accounts/sign_in/link_redeem",
        lambda h, p: h.store.sessions.make_link(p.account_id),
        lambda h, p: h.store.sessions.redeem(p.link, Purpose.SIGN_IN),
        lambda h, p: h.store.sessions.make_link(p.account_id, p.member_id),
    ),
    op(
        "members",
        "accounts/sign_in/invite accounts/sign_in/link_redeem accounts/sign_in/member",
        invite_and_join,
        lambda h, p: h.store.members.set_role(p.account_id, "x@example.com", Role.ACT, "us"),
    ),
    op(
        "remove a member",
        "accounts/sign_in/member",
        lambda h, p: h.store.members.remove(p.account_id, "x@example.com", "us"),
        prepare=each(invite_and_join),
    ),
    op(
        "password",
        "accounts/sign_in/session_open",
        lambda h, p: h.store.sessions.open(p.account_id, p.member_id, password="a hash"),
    ),
]
OF_OPERATORS = [
    op(
        "unlease",
        "operators/unlease",
        run(_UNLEASE, lambda p: (SHARD, (p.account_id[7:], 2**20))),
        prepare=each(let_lapse),
    ),
    op(
        "mend what a clock that was set back left",
        "lifecycle/claim/clock_back",
        run(_CLOCK_BACK, lambda p: (SHARD, long_leases(p, p.held))),
    ),
    op(
        "mend callbacks that a clock that was set back left",
        "lifecycle/callback/callbacks_back",
        run(_CALLBACKS_BACK, lambda p: (SHARD, long_leases(p, CALLS[p.account_id]))),
        prepare=call_back,
    ),
    op(
        "reseal",
        "operators/reseal operators/reseal_secrets",
        act=shard_wide(reseal),
        walk=True,
    ),
    op("check", "check/weigh", lambda h, _: h.store.check()),
    op(
        "store-wide",
        "operators/heartbeat operators/hold raise_shards read touch events/record",
        lambda h, _: h.store.workers.beat("a worker", {}),
        lambda h, _: h.store.hold.begin(),
        run(_RECORD, lambda _: (keys.ACTS, _ACT)),
        lambda h, _: h.store.start(),
        run(_TOUCH, lambda _: (keys.waited(SHARD), ())),
        run(_READ, lambda p: (p.base, (2, "HGETALL", p.base + keys.ACCOUNT))),
    ),
]
OF_RULES = [
    op("create a rule", STEP, lambda h, p: ruled.create_rule(h.store, p)),
    op(
        "create a rule with a key",
        STEP,
        lambda h, p: ruled.create_rule(h.store, p, ruled.ONCE_A_RULE),
    ),
    op("change a rule", STEP, lambda h, p: ruled.change_rule(h.store, p), prepare=HAVE_RULE),
    op(
        "pause a rule",
        "recurring/step lifecycle/end/end",
        lambda h, p: h.store.recurring.pause(p.account_id, ruled.id_of(p), Pause("us")),
        prepare=HAVE_RULE,
    ),
    op(
        "delete a rule",
        "recurring/step lifecycle/end/end",
        lambda h, p: h.store.recurring.delete(p.account_id, ruled.id_of(p)),
        prepare=HAVE_RULE,
    ),
    op("advance rules", "recurring/advance", act=advance, prepare=HAVE_RULE, together=True),
    op(
        "realign rules",
        "lifecycle/claim/realign_rules",
        run(_REALIGN_RULES, lambda p: (SHARD, (p.account_id[7:], "", 100))),
        prepare=HAVE_RULE,
    ),
    op(
        "tend rules",
        "recurring/step",
        act=tend,
        prepare=lambda h, parties: ruled.have_untended_rules(h.store, parties),
        together=True,
    ),
]
OPERATIONS = [
    *(operation._replace(together=True) for operation in TOGETHER),
    *(*OF_SCHEDULES, *OF_ACCOUNTS, *OF_HOLDERS, *OF_OPERATORS, *OF_RULES),
]
# Those that do something else where schedules have a lane.
_DIFFER = {
    *("claim", "ack", "retry", "extend", "release", "change between attempts", "stop"),
    *("create onto what waits, in lanes", "change to another lane", "cancel many"),
    *("delete account", "pause and resume", "unlease"),
}
OF_LANES = [each for each in OPERATIONS if each.name in _DIFFER]
