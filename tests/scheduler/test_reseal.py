"""`postdate reseal`: everything sealed anew with the newest key, beside whatever else is done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from scheduler.errors import OutcomeUnknown, PostdateError, StoreMisconfigured, StoreUnavailable
from scheduler.models import Answer, Outcome, Plan, Status
from scheduler.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.apart import Apart
from scheduler.store.claims.claims import Ack
from scheduler.store.operators import reseal as module
from scheduler.store.operators.reseal import Walked
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import Script, Server
from tests.cluster import ValkeyCluster
from tests.scheduler.clocks import ServerClock
from tests.scheduler.keyed import NEW, OLD, REQUEST, Stores, account_of, everything
from tests.scheduler.letters import replay
from tests.scheduler.scene import Scene
from tests.servers import DroppingProxy, script

OLD_ID, NEW_ID = (Secrecy([key]).key_ids[0] for key in (OLD, NEW))
COMPLETED, FAILED = Outcome(Status.COMPLETED, 200, 12, ""), Outcome(Status.FAILED, 503, 30, "no")
DUE = msgspec.structs.replace(REQUEST, trigger_at_ms=1)


@pytest.fixture
def cluster() -> Iterator[ValkeyCluster]:
    with ValkeyCluster(2) as started:
        yield started


async def furnished(store: Store) -> str:
    """An account with schedules that wait, completed, failed, were cancelled, and one that is held;
    and with two secrets."""
    account_id = await account_of(store)
    await store.signing.rotate(account_id, 60_000)
    for outcome in (COMPLETED, FAILED):
        await store.schedules.create(account_id, DUE)
        await ack(store, await claim(store), outcome)
    await store.schedules.create(account_id, REQUEST)
    await store.schedules.cancel(account_id, await store.schedules.create(account_id, REQUEST))
    await store.schedules.create(account_id, DUE)
    return account_id


async def claim(store: Store) -> list[Any]:
    return (await store.claims.claim(0, lease_ms=60_000, most=9)).invocations


async def ack(store: Store, invocations: list[Any], outcome: Outcome = COMPLETED) -> None:
    codes = await store.claims.ack(0, [Ack(each, outcome, 0) for each in invocations])
    assert codes == [1] * len(invocations)


@contextmanager
def before_the_first_write(store: Store, act: Callable[[], Awaitable[None]]) -> Iterator[None]:
    """Something that happens once the requests were read, and before one is replaced."""
    write, acts = store.server.write, [act]

    async def acting(sent: Any, *arguments: Any) -> Any:
        if sent.path == "operators/reseal" and acts:
            await acts.pop()()
        return await write(sent, *arguments)

    with patch.object(store.server, "write", acting):
        yield


async def sealed_by(store: Store, key_id: str) -> int:
    """How many requests this key has sealed."""
    head, count = b"\xc1" + bytes.fromhex(key_id), 0
    async for name in store.client.scan_iter(match=keys.schedule_pattern()):
        count += (await store.client.hget(name, "r") or b"").startswith(head)
    return count


async def test_an_old_key_can_be_dropped(stores: Stores) -> None:
    before = await stores.open(OLD)
    account_id = await furnished(before)
    held = await claim(before)
    secrets = await before.signing.secrets(account_id)
    await before.aclose()
    store = await stores.open(NEW, OLD)
    done = await store.resealer.reseal()
    assert (done.requests, done.secrets, done.held, done.unreadable) == (5, 2, 0, [])
    assert (done.forgotten, done.kept) == ([OLD_ID], {})
    assert await store.check() == []
    after = await stores.open(NEW)
    assert await after.signing.secrets(account_id) == secrets
    await ack(after, held)
    assert [each.request for each in (await after.schedules.page(account_id)).schedules] == [
        REQUEST
    ]
    assert await after.check() == []
    again = await after.resealer.reseal()
    assert (again.requests, again.secrets, again.forgotten, again.kept) == (0, 0, [], {})
    with pytest.raises(StoreMisconfigured):
        await stores.open(OLD)


@pytest.mark.parametrize("first", [(), (OLD,)], ids=["in clear", "old key"])
async def test_what_targets_said_is_sealed_anew_too(
    stores: Stores, first: tuple[bytes, ...]
) -> None:
    before = await stores.open(*first)
    account_id = await account_of(before)
    saying = [
        msgspec.structs.replace(FAILED, answer=Answer("text/plain", b"no" * size))
        for size in (1, 500)
    ]
    made = []
    for outcome in saying:
        made.append(await before.schedules.create(account_id, DUE))
        await ack(before, await claim(before), outcome)
    between = await before.schedules.create(account_id, DUE)
    again = [Ack(each, saying[0], 0, 2**42) for each in await claim(before)]
    assert await before.claims.ack(0, again) == [1]
    was = [await before.schedules.get(account_id, each) for each in (*made, between)]
    await before.aclose()
    store = await stores.open(NEW, *first)
    done = await store.resealer.reseal()
    assert (done.requests, done.answers, done.unreadable, done.kept) == (3, 3, [], {})
    assert b"nono" not in await everything(store)
    after = await stores.open(NEW)
    assert [await after.schedules.get(account_id, each) for each in (*made, between)] == was
    assert await after.check() == []
    assert (await after.resealer.reseal()).answers == 0


async def test_the_check_tells_of_an_answer_that_cannot_be_read(stores: Stores) -> None:
    store = await stores.open(NEW)
    account_id = await account_of(store)
    schedule_id = await store.schedules.create(account_id, DUE)
    said = msgspec.structs.replace(FAILED, answer=Answer("", b"no"))
    await ack(store, await claim(store), said)
    key = keys.schedule(account_id, schedule_id)
    spoiled = bytearray(await store.client.hget(key, "s") or b"")
    spoiled[-1] ^= 1
    await store.client.hset(key, "s", bytes(spoiled))
    [told] = await store.check()
    assert f"{schedule_id} cannot be read" in told


async def test_what_lay_in_clear_weighs_more_and_what_is_held_is_waited_for(stores: Stores) -> None:
    clear = await stores.open()
    account_id = await furnished(clear)
    held = await claim(clear)
    await clear.aclose()
    store = await stores.open(NEW)
    met: list[Walked] = []
    sealing = asyncio.create_task(store.resealer.reseal(met.append))
    while not met:
        await asyncio.sleep(0.01)
    assert met[0].held == 1
    assert await store.check() == []
    await ack(store, held)
    done = await sealing
    assert (done.requests, done.secrets, done.held) == (5, 2, 0)
    for hidden in (b"hush", b"DE12", b"whsec_"):
        assert hidden not in await everything(store)
    assert await store.check() == []
    assert (await store.accounts.get(account_id)).spent == 4


@pytest.mark.parametrize("what", ["change", "cancel", "end", "replay"])
async def test_whoever_races_it_loses_nothing(stores: Stores, what: str) -> None:
    before = await stores.open(OLD)
    account_id = await account_of(before)
    one = await before.schedules.create(account_id, DUE)
    if what == "replay":
        await ack(before, await claim(before), FAILED)
    await before.aclose()
    store, other = await stores.open(NEW, OLD), await stores.open(NEW, OLD)
    changed = msgspec.structs.replace(DUE, body=b'{"iban":"DE99, and longer"}')

    async def act() -> None:
        if what == "change":
            await other.schedules.change(account_id, one, lambda _: changed)
        elif what == "cancel":
            await other.schedules.cancel(account_id, one)
        elif what == "end":
            await ack(other, await claim(other))
        else:
            done = await replay(Scene(other, ServerClock(other), account_id), [one])
            assert done.each[0].schedule_id is not None

    with before_the_first_write(store, act):
        done = await store.resealer.reseal()
    found = await store.schedules.get(account_id, one)
    statuses = {"change": "scheduled", "cancel": "cancelled", "end": "completed"}
    assert found.status == statuses.get(what, "failed")
    wanted = changed if what == "change" else DUE
    assert found.request.url == wanted.url
    assert what == "cancel" or found.request.body == wanted.body
    assert done.forgotten == [OLD_ID]
    assert await sealed_by(store, OLD_ID) == 0
    assert await store.check() == []


async def test_it_goes_on_where_it_was_interrupted(stores: Stores) -> None:
    before = await stores.open(OLD)
    account_id = await account_of(before)
    for _ in range(8):
        await before.schedules.create(account_id, REQUEST)
    await before.aclose()
    dying = await stores.open(NEW, OLD)
    write, left = dying.server.write, [None, None, None, OutcomeUnknown("gone")]

    async def breaking(*arguments: Any) -> Any:
        if error := left.pop(0):
            raise error
        return await write(*arguments)

    with (
        patch.object(module, "_BYTES_AT_ONCE", 1),
        patch.object(dying.server, "repeated", lambda call: call()),
        patch.object(dying.server, "write", breaking),
        pytest.raises(OutcomeUnknown),
    ):
        await dying.resealer.reseal()
    assert await dying.check() == []
    assert OLD_ID in (await dying.keyrings.read()).keys
    await dying.aclose()
    store = await stores.open(NEW, OLD)
    done = await store.resealer.reseal()
    assert (done.requests, done.forgotten) == (6, [OLD_ID])
    assert await store.check() == []


@pytest.mark.parametrize("name", ["reseal", "reseal_secrets", "forget_key", "keyring", "unsealed"])
async def test_a_reply_may_get_lost(stores: Stores, proxy: DroppingProxy, name: str) -> None:
    # The scripts are known from here on.
    await furnished(await stores.open(OLD))
    await stores.opened.pop().aclose()
    warm = await stores.open(NEW, OLD)
    await warm.resealer.reseal()
    await stores.opened.pop().aclose()
    newest = b"3" * 32
    store = await Stores(proxy.url).open(newest, NEW)
    proxy.drop_reply(script(f"operators/{name}"), times=2)
    done = await store.resealer.reseal()
    assert proxy.dropped == 2
    assert (done.requests, done.secrets, done.forgotten) == (5, 2, [NEW_ID])
    assert await store.check() == []
    await store.aclose()


async def test_a_key_that_somebody_seals_with_is_not_forgotten(stores: Stores) -> None:
    sealing = await stores.open(OLD, NEW)
    await account_of(sealing)
    store = await stores.open(NEW, OLD)
    done = await store.resealer.reseal()
    assert (done.secrets, done.forgotten) == (1, [])
    assert "processes seal with it" in done.kept[OLD_ID]
    # One that came and went while others looked has sealed something where nobody looks again.
    await sealing.aclose()
    noted = await store.keyrings.read()
    await (await stores.open(OLD, NEW)).aclose()
    assert not await store.keyrings.forget(OLD_ID, noted.keys[OLD_ID])
    assert (await store.resealer.reseal()).forgotten == [OLD_ID]


async def test_nothing_is_sealed_that_a_running_process_cannot_read(stores: Stores) -> None:
    for secret_keys in ((), (OLD,)):
        for each in stores.opened:
            await each.aclose()
        reading = await stores.open(*secret_keys)
        if secret_keys:
            await reading.schedules.create(await account_of(reading), REQUEST)
        store = await stores.open(NEW, OLD)
        with pytest.raises(PostdateError, match=f"could not read what key {NEW_ID} seals"):
            await store.resealer.reseal()
        assert await sealed_by(store, NEW_ID) == 0
        await store.aclose()
        await reading.client.hdel(keys.META, f"key:{NEW_ID}", f"sealed:{NEW_ID}")


async def test_a_process_that_was_silent_for_long_seals_nothing_before_it_is_heard(
    stores: Stores,
) -> None:
    frozen = await stores.open(OLD, NEW)
    account_id = await account_of(frozen)
    store = await stores.open(NEW, OLD)
    meta: dict[bytes, bytes] = await store.client.hgetall(keys.META)
    for name, said in meta.items():
        if name.startswith(b"ring:") and said.endswith(f"{OLD_ID},{NEW_ID}".encode()):
            await store.client.hset(keys.META, name, b"%d %b" % (1, said.split(b" ")[1]))
    frozen.server.secrecy.may_seal_until_s = 0.0
    assert (await store.resealer.reseal()).forgotten == [OLD_ID]
    with pytest.raises(StoreUnavailable):
        await frozen.schedules.create(account_id, REQUEST)
    await frozen.keyrings.read()
    await frozen.schedules.create(account_id, REQUEST)
    with pytest.raises(StoreMisconfigured):
        await stores.open(NEW)


async def test_what_cannot_be_read_is_told_and_left_and_so_is_its_key(stores: Stores) -> None:
    before = await stores.open(OLD)
    account_id = await account_of(before)
    schedule_id = await before.schedules.create(account_id, REQUEST)
    key = keys.schedule(account_id, schedule_id)
    stored = await before.client.hget(key, "r")
    assert stored is not None
    await before.client.hset(key, "r", stored[:-1] + bytes([stored[-1] ^ 1]))
    await before.aclose()
    store = await stores.open(NEW, OLD)
    done = await store.resealer.reseal()
    assert done.kept == {OLD_ID: "it sealed 1 that are left"}
    assert len(done.unreadable) == 1
    assert schedule_id in done.unreadable[0]


async def test_without_a_key_there_is_nothing_to_seal_with(stores: Stores) -> None:
    with pytest.raises(PostdateError, match="no POSTDATE_SECRET_KEY"):
        await (await stores.open()).resealer.reseal()


async def test_a_walk_over_a_store_that_was_changed_over_forgets_nothing(stores: Stores) -> None:
    before = await stores.open(OLD)
    await furnished(before)
    await before.aclose()
    store = await stores.open(NEW, OLD)
    runs = iter(range(99))

    async def another() -> int:
        return next(runs)

    with patch.object(store.resealer, "_servers", another), patch.object(module, "_MOST_WALKS", 2):
        done = await store.resealer.reseal()
    assert done.kept == {OLD_ID: "the store was restarted or changed over meanwhile"}


async def test_it_walks_through_every_node_of_a_cluster(cluster: ValkeyCluster) -> None:
    def at(*secret_keys: bytes) -> Settings:
        return Settings(redis_url=cluster.url, shards=8, secret_key=secret_keys)

    before = await Store.open(at(OLD))
    for number in range(8):
        account = await before.accounts.create(f"a{number}", credits=9, plan=Plan.FREE)
        await before.schedules.create(account.account_id, REQUEST)
    await before.aclose()
    store = await Store.open(at(NEW, OLD))
    done = await store.resealer.reseal()
    assert (done.requests, done.secrets, done.forgotten) == (8, 8, [OLD_ID])
    await store.aclose()
    after = await Store.open(at(NEW))
    assert await after.check() == []
    await after.aclose()


@pytest.mark.parametrize("replicas", [0, 1])
@pytest.mark.parametrize("what", ["create", "change", "rotate", "end"])
async def test_what_was_sealed_before_a_pause_is_not_written_behind_the_back_of_a_reseal(
    stores: Stores, what: str, replicas: int
) -> None:
    """A process stands still between sealing and sending until its key is forgotten. What it then
    sends is refused once; its key is noted again before it is written."""
    slow = await stores.open(OLD, NEW)
    slow.server.wait_replicas = replicas
    account_id = await account_of(await stores.open(NEW, OLD))
    store = stores.opened[1]
    schedule_id = await store.schedules.create(account_id, DUE)
    held = await claim(store) if what == "end" else []
    said = msgspec.structs.replace(FAILED, answer=Answer("", b"no"))
    acts: dict[str, Callable[[], Awaitable[Any]]] = {
        "create": lambda: slow.schedules.create(account_id, REQUEST),
        "change": lambda: slow.schedules.change(account_id, schedule_id, lambda _: REQUEST),
        "rotate": lambda: slow.signing.rotate(account_id, 1000),
        "end": lambda: slow.claims.ack(0, [Ack(each, said, 0) for each in held]),
    }
    stopped, going = asyncio.Event(), asyncio.Event()
    one = Server._one
    apart_one = Apart.run

    async def standing_still(self: Server, key: str, words: Any) -> Any:
        if self is slow.server and keys.in_shard(key) and sealed_in(words):
            stopped.set()
            await going.wait()
        return await one(self, key, words)

    async def standing_apart(self: Apart, sent: Any, arguments: Any) -> Any:
        if sealed_in(arguments):
            stopped.set()
            await going.wait()
        return await apart_one(self, sent, arguments)

    def sealed_in(words: Any) -> bool:
        head = b"\xc1" + bytes.fromhex(OLD_ID)
        return any(isinstance(each, bytes) and each.startswith(head) for each in words)

    async def enough(*_: Any) -> None: ...

    with (
        patch.object(Server, "_one", standing_still),
        patch.object(Apart, "run", standing_apart),
        patch.object(Apart, "replicated", enough),
        patch.object(Server, "_enough_replicas", enough),
    ):
        act = asyncio.create_task(acts[what]())  # type: ignore[arg-type]
        await asyncio.wait_for(stopped.wait(), 10)
        meta: dict[bytes, bytes] = await store.client.hgetall(keys.META)
        for name, ring in meta.items():
            if name.startswith(b"ring:") and ring.endswith(f"{OLD_ID},{NEW_ID}".encode()):
                await store.client.hset(keys.META, name, b"%d %b" % (1, ring.split(b" ")[1]))
        assert (await store.resealer.reseal()).forgotten == [OLD_ID]
        going.set()
        await asyncio.wait_for(act, 10)
    # The store knows that the key is needed, so that nobody starts without it.
    with pytest.raises(StoreMisconfigured):
        await stores.open(NEW)
    assert await store.check() == []
    # And what was written so is met by the next walk, once nobody seals with that key any more.
    await slow.aclose()
    assert (await store.resealer.reseal()).forgotten == [OLD_ID]
    assert await (await stores.open(NEW)).check() == []


@pytest.mark.parametrize("replicas", [0, 1])
async def test_a_script_that_fails_behind_a_fence_is_counted_as_failed(
    stores: Stores, replicas: int
) -> None:
    store = await stores.open(OLD)
    account_id = await account_of(store)
    await store.keyrings.fence(OLD_ID, 1)
    store.server.wait_replicas = replicas
    grant = next(each for each in Script.all if each.path == "accounts/grant")
    calls, errors = grant.calls, grant.errors

    async def refused(key: str) -> None:
        raise StoreUnavailable("away")

    async def enough(*_: Any) -> None: ...

    with (
        patch.object(store.server, "readmit", refused),
        patch.object(Server, "_enough_replicas", enough),
        pytest.raises(StoreUnavailable, match="away"),
    ):
        await store.server.write(grant, keys.account(account_id), ["one", "1", "1"])
    assert (grant.calls, grant.errors) == (calls + 1, errors + 1)


async def test_a_worker_that_was_taken_for_gone_claims_again(stores: Stores) -> None:
    """Where replicas must have its claims as well."""
    store = await stores.open(OLD)
    account_id = await account_of(store)
    await store.schedules.create(account_id, DUE)
    await store.keyrings.fence(OLD_ID, 1)
    store.server.wait_replicas = 1
    assert len(await claim(store)) == 1


async def test_what_only_reads_names_no_fence(stores: Stores) -> None:
    store = await stores.open(OLD)
    account_id = await account_of(store)
    sent: set[int] = set()
    one = Server._one

    async def heard(self: Server, key: str, words: Any) -> Any:
        sent.add(words[2])
        return await one(self, key, words)

    with patch.object(Server, "_one", heard):
        await store.schedules.page(account_id)
        assert sent == {1}
        await store.schedules.create(account_id, REQUEST)
    assert sent == {1, 2}
