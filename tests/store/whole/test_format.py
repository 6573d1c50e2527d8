"""The store's format: written at the first start, and one that is not ours is left alone.

A change of what is stored is a change of the format, unless programs of the present number treat it
well. `formats/` has, for each number, the kinds of keys and fields, and some data. Where a test
below says so, raise FORMAT, and run this file with `RECORD=1` in the environment.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from scheduler.errors import StoreMisconfigured
from scheduler.lane_settings import Pause
from scheduler.models import Request, Upsert
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.queries.listing import Selection
from scheduler.store.shards import FORMAT
from tests.store.clocks import ServerClock
from tests.store.scene import URL, Scene
from tests.store.whole.filled import fill, kinds, pattern_of
from tests.store.whole.operations import _BULK
from tests.store.whole.parties import FAR_MS, Party, parties
from tests.support.plain import redis_of
from tests.support.servers import ValkeyProcess

_FOLDER = Path(__file__).parent / "formats"
_DATA, _KINDS = _FOLDER / f"{FORMAT}.json", _FOLDER / f"{FORMAT}.kinds.json"
# Hashes with fields that are always the same, and not made of ids or moments.
_FIXED = {
    *(keys.META, keys.API_KEY, keys.SESSION, keys.LINK, keys.ACCOUNT, keys.MEMBER, keys.LANE),
    *(keys.RULE, keys.CALLBACK, keys.BULK, keys.SCHEDULE, keys.LOGGED),
}


async def metadata(store: Store) -> dict[bytes, bytes]:
    """But for its id."""
    found: dict[bytes, bytes] = await redis_of(store).hgetall(keys.META)
    return {name: value for name, value in found.items() if name != b"id"}


async def test_a_new_store_has_our_format(scene: Scene) -> None:
    expected = {b"shards": b"2", b"format": b"%d" % FORMAT}
    assert await metadata(scene.store) == expected
    await scene.store.start()
    assert await metadata(scene.store) == expected


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ({"shards": 4}, 0),
        ({"shards": 4, "format": 1}, 1),
        ({"shards": 4, "format": FORMAT - 1}, FORMAT - 1),
        ({"shards": 4, "format": FORMAT + 1}, FORMAT + 1),
        ({"shards": 40, "format": FORMAT + 1}, FORMAT + 1),
    ],
)
async def test_another_format_is_refused_and_left_as_it_is(
    valkey: ValkeyProcess, stored: dict[str, int], told: int
) -> None:
    fresh = await Store.open(Settings(redis_url=valkey.url))
    await redis_of(fresh).delete(keys.META)
    await redis_of(fresh).hset(keys.META, mapping=stored)
    advice = "newer version that wrote it" if told > FORMAT else "begin with an empty store"
    reads = f"has format {told}, .* reads format {FORMAT} only: .*{advice}"
    with pytest.raises(StoreMisconfigured, match=reads):
        await Store.open(Settings(redis_url=valkey.url, shards=16))
    names = sorted(await redis_of(fresh).keys("*"))
    assert names == [keys.META.encode()]
    found = await metadata(fresh)
    assert {name.decode(): int(value) for name, value in found.items()} == stored
    await fresh.aclose()


def _recorded(path: Path, found: object) -> Any:
    """What the file has; with RECORD it is written first, but never anew for the same number."""
    if os.environ.get("RECORD") and not path.exists():
        path.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
    assert path.exists(), f"nothing is recorded of format {FORMAT}"
    return json.loads(path.read_text())


@pytest.mark.slow
async def test_a_kind_of_key_or_field_comes_with_another_format(scene: Scene) -> None:
    await fill(scene)
    found: dict[str, list[str]] = {kind: [] for kind in kinds()}
    for name in [each async for each in scene.redis.scan_iter("pd:*", count=1000)]:
        kind = pattern_of(name.decode())
        fields = await scene.redis.hkeys(name) if kind in _FIXED else []
        type_ = (await scene.redis.type(name)).decode()
        named = {type_, *(each.decode() for each in fields)}
        found[kind] = sorted(named | {*found.get(kind, [])})
    before = _recorded(_KINDS, found)
    new = found.keys() - before.keys()
    changed = {name for name in found if {*found[name]} - {*before.get(name, [])}}
    assert new | changed == set(), f"programs of format {FORMAT} do not know them"


async def _dumped(redis: Any) -> list[list[Any]]:
    """Of each key its name, type, when it expires (ms; below 0: never), and what it has."""
    rows = []
    for name in sorted([each async for each in redis.scan_iter("pd:*")]):
        type_ = (await redis.type(name)).decode()
        match type_:
            case "string":
                value: Any = _text(await redis.get(name))
            case "hash":
                value = {_text(a): _text(b) for a, b in (await redis.hgetall(name)).items()}
            case "list":
                value = [_text(each) for each in await redis.lrange(name, 0, -1)]
            case "zset":
                scores = await redis.zrange(name, 0, -1, withscores=True)
                value = {_text(member): score for member, score in scores}
            case _:
                value = [
                    [entry.decode(), {_text(a): _text(b) for a, b in fields.items()}]
                    for entry, fields in await redis.xrange(name)
                ]
        rows.append([_text(name), type_, await redis.pexpiretime(name), value])
    return rows


async def _load(redis: Any, rows: list[list[Any]], now_ms: int) -> None:
    """Keys that have expired since are there for another minute, so that there are the same ones
    whenever the test runs."""
    for name, type_, expires_ms, value in rows:
        key = _bytes(name)
        match type_:
            case "string":
                await redis.set(key, _bytes(value))
            case "hash":
                await redis.hset(key, mapping={_bytes(a): _bytes(b) for a, b in value.items()})
            case "list":
                await redis.rpush(key, *map(_bytes, value))
            case "zset":
                await redis.zadd(key, {_bytes(member): score for member, score in value.items()})
            case _:
                for entry, fields in value:
                    words = {_bytes(a): _bytes(b) for a, b in fields.items()}
                    await redis.xadd(key, words, id=entry)
        if expires_ms > 0:
            await redis.pexpireat(key, max(expires_ms, now_ms + 60_000))


def _text(data: bytes) -> str:
    return data.decode("latin-1")


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


async def _made(store: Store) -> list[list[Any]]:
    """Data with all states that a schedule may have, and of all else that an account may have."""
    party: Party
    [party] = await parties(store, ["a"], "a")
    await store.claims.release(0, party.held)
    timing = Timing(every_ms=86_400_000, starts_at_ms=FAR_MS)
    for name, pause in (("active", False), ("paused", True)):
        draft = Draft(Request(0, "POST", URL, lane="a"), timing, name)
        rule = (await store.recurring.create(party.account_id, draft)).rule
        if pause:
            await store.recurring.pause(party.account_id, rule.recurring_id, Pause("us"))
    onto = [Upsert(Request(FAR_MS, "PUT", URL, reference=name), False) for name in ("x", "x", "y")]
    await store.schedules.create_all(party.account_id, onto)
    await store.bulks.add(party.account_id, "an action", _BULK)
    return await _dumped(redis_of(store))


async def test_data_of_this_format_is_read_by_later_programs(
    valkey: ValkeyProcess, checks_at_once: None
) -> None:
    """It is opened as it is after the time since it was recorded, in which nothing ran."""
    settings = Settings(redis_url=valkey.url, shards=1, max_horizon_days=36_500)
    first = await Store.open(settings)
    rows = _recorded(_DATA, await _made(first) if os.environ.get("RECORD") else None)
    await redis_of(first).flushall()
    await _load(redis_of(first), rows, await ServerClock(first).now_ms())
    store = await Store.open(settings)
    [account], _ = await store.accounts.some()
    scene = Scene(store, ServerClock(store), account.account_id)
    await store.claims.realign(0)
    claimed = await scene.claim()
    assert await scene.ack(claimed) == [1] * 3
    page = await store.unended.page(account.account_id, Selection(limit=100))
    assert len(page.schedules) == 7
    assert len((await store.recurring.page(account.account_id)).rules) == 2
    assert (await store.bulks.take(account.account_id)) is not None
    assert (await store.lanes.read(account.account_id, "a")).settings.parallelism
    assert await store.signing.secrets(account.account_id)
    assert await store.check() == []
    for each in (first, store):
        await each.aclose()
