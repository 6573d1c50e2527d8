"""A store with something of each kind of key, as large as it may be."""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from scheduler import ids
from scheduler.callbacks import Callback, Response
from scheduler.callers import Role
from scheduler.events import MOST_CHARACTERS
from scheduler.events import Kind as EventKind
from scheduler.lane_settings import AccountCallback, LaneSettings, Pause
from scheduler.models import Answer, Idempotency, Invocation, Plan, Request
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from scheduler.rollups import COMPLETED, CREATED, LATENESSES, RESPONSE_TIME, RESPONSES
from scheduler.rollups import FAILED as FAILED_COUNT
from scheduler.store import keys
from scheduler.store.accounts.sign_in.members import MOST_MEMBERS
from scheduler.store.bulk.bulks import MOST_BULKS
from scheduler.store.bulk.records import Asked, Group, Kind, packed_ids
from scheduler.store.lifecycle.callback.callbacks import CallbackAck
from tests.store.scene import FAILED, URL, Scene
from tests.support.servers import until_async

# Kinds that are there for a moment only, or while something lasts.
BRIEF = {
    *(keys.WAITED, keys.LEAVING, keys.PARKED, keys.BACKLOG, keys.HOLD, keys.RESUMED),
    *(keys.RATE, keys.SCANS, keys.RESENDS, keys.NOTED, keys.BULK_DUE, keys.OPERATION),
}
_NO_KEY = re.compile("_|ALL_|ROOT$|CALLBACK_TURN$")
# Four bytes each.
_WIDE = "\U0001f514"
_PAUSE = Pause(_WIDE * 200, until_ms=2**42, note=_WIDE * 200)
_NETWORK = "2001:db8:ffff:ffff::/64"


def kinds() -> set[str]:
    """The names in `keys.py`."""
    found = {name: value for name, value in vars(keys).items() if isinstance(value, str)}
    return {value for name, value in found.items() if name.isupper() and not _NO_KEY.match(name)}


def pattern_of(key: str) -> str:
    """The name of a key's kind, as in `keys.py`."""
    if not key.startswith("pd:{"):
        beside = key.removeprefix("pd:")
        return "pd:" + (beside if "{" in beside else re.sub(r":.*$", ":", beside))
    below = key.partition("}")[2]
    of_account = re.match(r"[0-9a-z]{8}:", below)
    below = below[9:] if of_account else below
    return keys.SCHEDULE if below[0].isdigit() else re.sub(r":.*$", ":", below, flags=re.DOTALL)


async def fill(scene: Scene) -> None:
    """Something of each kind, as large as it may be."""
    await _fill_the_service(scene)
    await _fill_the_account(scene)
    await _fill_schedules(scene)
    await _fill_its_lists(scene)
    names = (COMPLETED, FAILED_COUNT, RESPONSE_TIME, *LATENESSES, *RESPONSES)
    for key, buckets, some in (
        (keys.MINUTE, 60, names[:3]),
        (keys.HOUR, 60, names),
        (keys.DAY, 24, names),
    ):
        packed = msgspec.msgpack.encode(dict.fromkeys(some, 10**9))
        full: dict[str, bytes | int] = {str(n): packed for n in range(buckets)}
        full |= {f"{n}{CREATED}": 10**9 for n in range(buckets) if key is keys.DAY}
        await scene.redis.hset(f"{scene.base}{key}1", mapping=full)


async def _fill_the_service(scene: Scene) -> None:
    store, wide = scene.store, _WIDE * MOST_CHARACTERS
    says = {"host": "h" * 255, "pid": 2**22, "version": "1.0", "concurrency": 2**20}
    for role in (store.workers, store.apis):
        for n in range(60):
            await role.beat(f"process {n}", says)
    await store.filling.note()
    await store.hold.begin()
    for _ in range(200):
        async with store.events.act(EventKind.GRANT, who=wide, about=wide):
            pass
        await store.events.record(EventKind.WORKER_LOST, who=wide, about=wide)
    await store.attempts.count("e" * 242 + "@example.com", _NETWORK)
    await store.attempts.forgive("e" * 242 + "@example.com", _NETWORK)


async def _fill_the_account(scene: Scene) -> None:
    store, account_id = scene.store, scene.account_id
    email, note = "e" * 242 + "@example.com", _WIDE * 200
    await store.accounts.create(_WIDE * 200, credits=1, plan=Plan.FREE, email=email)
    url = "https://example.com/" + "u" * 8000
    callback = AccountCallback(url)
    await store.pauses.change(account_id, lambda old: replace(old, callback=callback))
    for _ in range(310):
        key, _ = await store.api_keys.create(account_id, _WIDE * 200)
        await store.api_keys.deactivate(key.key_id)
    for n in range(MOST_MEMBERS - 10):
        link = await store.members.invite(account_id, f"{n}{email[2:]}", Role.OWN, email)
        opened = await store.members.join(link, "h" * 200)
    member_id = opened.session.member_id
    await store.sessions.make_link(account_id, member_id, email)
    await store.members.invite(account_id, f"x{email[1:]}", Role.OWN, email)
    for _ in range(60):
        opened = await store.sessions.open(account_id, member_id)
        await store.sessions.say(opened.session, _WIDE * 200)
    await store.sessions.make_link(account_id)
    for _ in range(1010):
        await store.signing.rotate(account_id, 0)
    await store.signing.door_keys(account_id)
    for _ in range(600):
        await store.events.note(account_id, EventKind.BULK, who=note, about=note)


async def _fill_its_lists(scene: Scene) -> None:
    """Lists that have a number, and all that have it: as many members as that."""
    store, account_id = scene.store, scene.account_id
    await store.pauses.change(account_id, lambda old: replace(old, pause=_PAUSE))
    limits = LaneSettings(100_000, 86_400_000, 100_000, 10_000, _WIDE * 200, _PAUSE)
    await store.lanes.put(account_id, "l" * 64, limits)
    lanes = {f"{n:064}": 2**42 for n in range(10_000)}
    for name in (keys.LANES, keys.LANES_PAUSED, keys.LANE_HEADS):
        await scene.redis.zadd(scene.base + name, lanes)
    chosen = [ids.from_bytes(bytes((n % 256,)) * 16) for n in range(1000)]
    for n in range(MOST_BULKS):
        asked = Asked(Kind.AGAIN, "dashboard", 1, packed_ids(chosen), {}, 1, {"q": "x" * 1000})
        await store.bulks.add(account_id, f"action {n}", asked)
    bulk = await store.bulks.take(account_id)
    groups = {n: Group(bytes(16), bytes(200), (200, 0, 0)) for n in range(500)}
    await store.bulks.note(account_id, bulk, bulk.progress, bulk.state, None, groups)


async def _fill_schedules(scene: Scene) -> None:
    """What weighs in the quota, and what the log and the statistics keep of it."""
    store, account_id, now_ms = scene.store, scene.account_id, await scene.clock.now_ms()
    await store.accounts.grant(account_id, 10_000)
    url = "https://example.com/ended"
    callback = Callback(url, failure_url=url, with_response=True)
    said = replace(FAILED, error_message=_WIDE * 60, answer=Answer("text/plain", b"a" * 1024))
    said = replace(said, response=Response((("Content-Type", "text/plain"),), b"a" * 1024))
    wanted = [
        Request(now_ms - 1000, "POST", URL, reference=f"{n:0128}", lane=lane)
        for n in range(30)
        for lane in ("a", None)
    ]
    await store.schedules.create_all(account_id, wanted, Idempotency("k" * 255, "asked"))
    await store.hold.end()
    await scene.retry(await scene.claim(), 1)
    await scene.ack(await scene.claim(), said)
    for _ in range(2):
        await scene.create(-1000, callback=callback)
    await scene.ack(await scene.claim(), said)

    async def calls() -> list[Invocation]:
        return [each for each in await scene.claim() if each.is_callback]

    for due_ms in (1, 1, 1, 1, 1, None):
        one, *_ = await until_async(calls, "a callback")
        await store.callbacks.ack(scene.shard, [CallbackAck(one, said, due_ms)])
    waiting = [
        Request(2**41, "POST", URL, reference=f"{n:0128}", lane=lane)
        for n in range(300)
        for lane in ("a", None)
    ]
    await store.schedules.create_all(account_id, waiting)
    await scene.retry([await scene.held()], 60_000)
    await scene.held()
    for n in range(30):
        draft = Draft(Request(0, "POST", URL, lane="a"), Timing(every_ms=86_400_000), f"{n:0128}")
        rule = await store.recurring.create(account_id, draft, Idempotency(f"{n}", "asked"))
        if n % 2:
            await store.recurring.pause(account_id, rule.rule.recurring_id, _PAUSE)
        if n % 10 == 9:
            await store.recurring.delete(account_id, rule.rule.recurring_id)
    await scene.redis.rpush(scene.base + keys.RULES_DELETED, *(f"{n:026}" for n in range(997)))
