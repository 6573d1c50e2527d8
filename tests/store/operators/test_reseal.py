"""`postdate reseal`: everything sealed anew with the newest key, beside whatever else is done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from structlog.testing import capture_logs

from scheduler.callbacks import Callback, Response
from scheduler.errors import OutcomeUnknown, PostdateError, StoreMisconfigured
from scheduler.lane_settings import Pause
from scheduler.models import Answer, Delivery, Outcome, Plan, Status
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft, Rule
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.heads import head_of, heads_of
from scheduler.store.lifecycle.callback.callbacks import CallbackAck
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.operators import reseal as module
from scheduler.store.operators.reseal import Resealed
from scheduler.store.queries.listing import Selection
from scheduler.store.secrecy import Secrecy
from scheduler.target.short_texts import short_headers
from tests.store.clocks import ServerClock
from tests.store.keyed import NEW, OLD, REQUEST, Stores, account_of, everything
from tests.store.lifecycle.end.dead_letters import replay
from tests.store.scene import URL, Scene
from tests.support.cluster import ValkeyCluster
from tests.support.plain import redis_of

pytestmark = pytest.mark.usefixtures("_no_pauses")
OLD_ID, NEW_ID = (Secrecy([key]).key_ids[0] for key in (OLD, NEW))
COMPLETED, FAILED = Outcome(Status.COMPLETED, 200, 12, ""), Outcome(Status.FAILED, 503, 30, "no")
DUE = msgspec.structs.replace(REQUEST, trigger_at_ms=1)


@pytest.fixture
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.01)


async def set_callback(store: Store, account_id: str) -> None:
    """Where its callbacks go. None is wanted."""
    url = store.server.secrecy.seal(URL.encode())
    await redis_of(store).hset(keys.account(account_id) + keys.CALLBACK, "url", url)


async def callback_url(store: Store, account_id: str) -> str:
    url = await redis_of(store).hget(keys.account(account_id) + keys.CALLBACK, "url")
    return store.server.secrecy.open(url).decode()


async def furnished(store: Store) -> str:
    """An account with schedules that wait, completed, failed, were cancelled, and one that is held;
    and with two secrets."""
    account_id = await account_of(store)
    await store.signing.rotate(account_id, 60_000)
    await set_callback(store, account_id)
    for outcome in (COMPLETED, FAILED):
        await store.schedules.create(account_id, DUE)
        await ack(store, await claim(store), outcome)
    await store.schedules.create(account_id, REQUEST)
    await store.canceller.cancel(account_id, await store.schedules.create(account_id, REQUEST))
    await store.schedules.create(account_id, DUE)
    return account_id


async def test_answers_for_reports_are_sealed_anew_and_weigh_as_before(stores: Stores) -> None:
    before = await stores.open(OLD)
    account_id = await account_of(before)
    asks = msgspec.structs.replace(DUE, callback=Callback(URL, with_response=True), door=None)
    said = Response((("A", "b"),), b"the answer" * 1000)
    for outcome in (COMPLETED, FAILED):
        await before.schedules.create(account_id, asks)
        await ack(before, await claim(before), msgspec.structs.replace(outcome, response=said))
        [call] = [each for each in await claim(before) if each.is_callback]
        if outcome is FAILED:  # that one is pending, and the other one's has failed
            await before.claims.release(0, [call])
        else:
            assert await before.callbacks.ack(0, [CallbackAck(call, FAILED)]) == [1]
    weight = await before.accounts.stored_bytes(account_id)
    store = await stores.open(NEW, OLD)
    done = await store.resealer.reseal()
    assert (done.requests, done.answers, done.forgotten) == (2, 2, [OLD_ID])
    assert await store.check() == []
    after = await stores.open(NEW)
    assert await after.accounts.stored_bytes(account_id) == weight
    [call] = await claim(after)
    assert b'"responseBody":"the answer' in (call.request.body or b"")


async def claim(store: Store) -> list[Any]:
    return (await store.claims.claim(0, lease_ms=60_000, most=9)).invocations


async def ack(store: Store, invocations: list[Any], outcome: Outcome = COMPLETED) -> None:
    codes = await store.ends.ack(0, [Ack(each, outcome, 0) for each in invocations])
    assert codes == [1] * len(invocations)


@contextmanager
def before_the_first_write(
    store: Store, act: Callable[[], Awaitable[None]], script: str = "operators/reseal"
) -> Iterator[None]:
    """Something that happens once all was read, and before the script replaces something."""
    write, acts = store.server.write, [act]

    async def acting(sent: Any, *arguments: Any) -> Any:
        if sent.path == script and acts:
            await acts.pop()()
        return await write(sent, *arguments)

    with patch.object(store.server, "write", acting):
        yield


async def sealed_by(store: Store, key_id: str, account_id: str = "") -> int:
    """How many requests this key has sealed, of one account or of all."""
    head, count = b"\xc1" + bytes.fromhex(key_id), 0
    whose = keys.account(account_id) + "[0-7]*" if account_id else keys.ALL_SCHEDULES
    async for name in redis_of(store).scan_iter(match=whose):
        _, packed = head_of(await redis_of(store).hget(name, "r") or b"")
        count += packed.startswith(head)
    return count


async def test_an_old_key_can_be_dropped(stores: Stores) -> None:
    before = await stores.open(OLD)
    account_id = await furnished(before)
    held = await claim(before)
    secrets = await before.signing.secrets(account_id)
    store = await stores.open(NEW, OLD)
    done = await store.resealer.reseal()
    assert (done.requests, done.secrets, done.held, done.unreadable) == (5, 3, 0, [])
    assert (done.forgotten, done.kept) == ([OLD_ID], {})
    assert await store.check() == []
    after = await stores.open(NEW)
    assert await after.signing.secrets(account_id) == secrets
    assert await callback_url(after, account_id) == URL
    await ack(after, held)
    page = await after.unended.page(account_id, Selection())
    assert [each.request for each in page.schedules] == [REQUEST]
    assert await after.check() == []
    again = await after.resealer.reseal()
    assert (again.requests, again.secrets, again.forgotten, again.kept) == (0, 0, [], {})
    with pytest.raises(StoreMisconfigured):
        await stores.open(OLD)


async def test_what_targets_said_is_sealed_anew_too(stores: Stores) -> None:
    before = await stores.open(OLD)
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
    assert await before.ends.ack(0, again) == [1]
    was = [await before.schedules.get(account_id, each) for each in (*made, between)]
    store = await stores.open(NEW, OLD)
    done = await store.resealer.reseal()
    assert (done.requests, done.answers, done.unreadable, done.kept) == (3, 3, [], {})
    assert b"nono" not in await everything(store)
    after = await stores.open(NEW)
    assert [await after.schedules.get(account_id, each) for each in (*made, between)] == was
    assert await after.check() == []
    assert (await after.resealer.reseal()).answers == 0


async def test_what_lay_in_clear_weighs_more_and_what_is_held_is_waited_for(stores: Stores) -> None:
    clear = await stores.open()
    account_id = await furnished(clear)
    held = await claim(clear)
    store = await stores.open(NEW)
    met: list[Resealed] = []
    sealing = asyncio.create_task(store.resealer.reseal(met.append))
    while not met or not met[-1].held:
        await asyncio.sleep(0.01)
    assert met[-1].held == 1
    assert await store.check() == []
    await ack(store, held)
    done = await sealing
    assert (done.requests, done.secrets, done.held) == (5, 3, 0)
    for hidden in (b"hush", b"DE12", b"whsec_"):
        assert hidden not in await everything(store)
    assert await store.check() == []
    assert (await store.accounts.get(account_id)).spent == 4


@pytest.mark.parametrize("keys_before", [(), (OLD,)])
async def test_the_requests_of_recurring_schedules_are_sealed_anew_with_their_heads(
    stores: Stores, keys_before: tuple[bytes, ...]
) -> None:
    """Beside a change, which counts what they weigh by what it read."""
    before = await stores.open(*keys_before)
    account_id = await account_of(before)
    request = msgspec.structs.replace(REQUEST, lane="mail")
    draft = Draft(request, Timing(cron="0 0 1 1 *"), "yearly")
    rule = (await before.recurring.create(account_id, draft)).rule
    await before.recurring.pause(account_id, rule.recurring_id, Pause("us"))
    store = await stores.open(NEW, *keys_before)
    other, read = await stores.open(NEW, *keys_before), list[Rule]()

    def renamed(rule: Rule) -> Draft:
        read.append(rule)
        return draft._replace(name="renamed, and longer")

    async def act() -> None:
        await store.resealer.reseal()

    with before_the_first_write(other, act, "recurring/step_with_room"):
        changed = await other.recurring.change(account_id, rule.recurring_id, renamed)
    assert len(read) == (1 if keys_before else 2), "read once more, for what it weighs"
    assert changed.request == rule.request
    assert await store.check() == []
    after = await stores.open(NEW)
    assert (await after.recurring.read(account_id, rule.recurring_id)).request == rule.request
    assert (await store.resealer.reseal()).requests == 0


@pytest.mark.parametrize("what", ["change", "cancel", "end", "replay"])
async def test_whoever_races_it_loses_nothing(stores: Stores, what: str) -> None:
    before = await stores.open(OLD)
    account_id = await account_of(before)
    one = await before.schedules.create(account_id, DUE)
    if what == "replay":
        await ack(before, await claim(before), FAILED)
    store, other = await stores.open(NEW, OLD), await stores.open(NEW, OLD)
    changed = msgspec.structs.replace(DUE, body=b'{"iban":"DE99, and longer"}')

    async def act() -> None:
        if what == "change":
            await other.schedules.change(account_id, one, lambda _: changed)
        elif what == "cancel":
            await other.canceller.cancel(account_id, one)
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
        patch("scheduler.store.queries.reading.CHUNK_BYTES", 1),
        patch.object(dying.server, "repeated", lambda call: call()),
        patch.object(dying.server, "write", breaking),
        pytest.raises(OutcomeUnknown),
    ):
        await dying.resealer.reseal()
    assert await dying.check() == []
    assert OLD_ID in await dying.sealing_keys.read()
    store = await stores.open(NEW, OLD)
    done = await store.resealer.reseal()
    assert (done.requests, done.forgotten) == (5, [OLD_ID])
    assert await store.check() == []


async def running(store: Store, process_id: str, *secret_keys: bytes) -> None:
    """A process with these keys, as its heartbeat shows it."""
    key_ids = Secrecy(secret_keys).key_ids
    await store.apis.beat(process_id, {"keyIds": key_ids} if key_ids else {})


@pytest.mark.parametrize("others", [(), (OLD,), (OLD, NEW)], ids=["none", "lacks it", "not first"])
async def test_it_refuses_while_a_process_does_not_seal_with_the_newest_key(
    stores: Stores, others: tuple[bytes, ...]
) -> None:
    clear = await stores.open()
    await furnished(clear)
    await running(clear, "api-1", *others)
    store = await stores.open(NEW, OLD)
    before = await everything(store)
    with pytest.raises(PostdateError, match=f"newest key, {NEW_ID}: api-1"):
        await store.resealer.reseal()
    assert await everything(store) == before
    await clear.apis.leave("api-1")
    await store.apis.beat("api-2", {})
    assert (await store.resealer.reseal()).unreadable == []


async def test_a_process_that_began_meanwhile_keeps_the_old_key(stores: Stores) -> None:
    before = await stores.open(OLD)
    await furnished(before)
    store = await stores.open(NEW, OLD)

    async def begin() -> None:
        await running(before, "worker-1", OLD)

    with before_the_first_write(store, begin), pytest.raises(PostdateError, match="worker-1"):
        await store.resealer.reseal()
    assert OLD_ID in await store.sealing_keys.read()


async def test_a_key_that_sealed_nothing_locks_no_process_out(stores: Stores) -> None:
    """As of a command that ran once with another key in its environment."""
    stray = await stores.open(b"x" * 32)
    await stray.hold.look()
    await stray.sealing_keys.watch()
    await stores.open(NEW)
    await stores.open()


async def test_a_read_only_look_changes_nothing(stores: Stores) -> None:
    with pytest.raises(StoreMisconfigured, match="store is empty"):
        await Store.open(Settings(redis_url=stores.url), read_only=True)
    store = await stores.open(OLD)
    await account_of(store)
    before = await everything(store)
    settings = Settings(redis_url=stores.url, shards=32, secret_key=(NEW,))
    looking = await Store.open(settings, read_only=True, needs_keys=False)
    await looking.hold.look()
    await looking.accounts.some()
    await looking.aclose()
    assert await everything(store) == before


async def test_a_running_process_reports_a_key_that_it_lacks(stores: Stores) -> None:
    behind = await stores.open(OLD)
    await account_of(await stores.open(NEW, OLD))
    with capture_logs() as logs:
        for _ in range(3):
            await behind.sealing_keys.watch()
    assert behind.sealing_keys.missing == {NEW_ID}
    assert [each["event"] for each in logs] == ["a key is missing in this process"]
    assert NEW_ID in logs[0]["reason"]


async def test_a_key_that_is_lost_can_be_given_up(stores: Stores) -> None:
    lost = await stores.open(OLD)
    account_id = await account_of(lost)
    schedule_id = await lost.schedules.create(account_id, REQUEST)
    settings = Settings(redis_url=stores.url, shards=1, secret_key=(NEW,))
    store = await Store.open(settings, needs_keys=False)
    assert (await store.resealer.reseal()).kept == {OLD_ID: "it sealed 2 that are left"}
    done = await store.resealer.reseal(lost_keys=[OLD_ID])
    assert (done.forgotten, len(done.unreadable)) == ([OLD_ID], 2)
    await store.aclose()
    after = await stores.open(NEW)
    assert any(schedule_id in each for each in await after.check())


@pytest.mark.parametrize(
    ("place", "named"),
    [
        ("{}", "{}: its key is damaged"),
        ("signing", "what signs for"),
        ("held", "what its account weighs is damaged"),
        ("account", "what its account weighs is damaged"),
        ("accounts", "the list of accounts of shard 0"),
    ],
)
async def test_what_is_damaged_is_named_and_the_rest_is_sealed_anew(
    stores: Stores, place: str, named: str
) -> None:
    before = await stores.open()
    hurt = await account_of(before)
    made = await before.schedules.create(hurt, REQUEST)
    sound = (await before.accounts.create("two", credits=9, plan=Plan.FREE)).account_id
    for _ in range(3):
        await before.schedules.create(sound, REQUEST)
    prefix = keys.shard(0) if place == "accounts" else keys.account(hurt)
    key = prefix + place.format(made[4:])
    await redis_of(before).delete(key)
    await redis_of(before).set(key, "none of ours")
    store = await stores.open(NEW)
    for _ in range(2):  # a repeat says the same
        done = await store.resealer.reseal()
        [finding] = done.unreadable
        assert named.format(made) in finding
        assert "script" not in finding
    assert await sealed_by(store, NEW_ID, sound) == 3


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


async def test_a_lane_stays_in_clear_before_its_request(stores: Stores) -> None:
    """A claim reads it."""
    before = await stores.open(OLD)
    account_id = await account_of(before)
    request = msgspec.structs.replace(DUE, lane="mail", delivery=Delivery.AT_MOST_ONCE)
    schedule_id = await before.schedules.create(account_id, request)
    name = keys.schedule(account_id, schedule_id)
    old = heads_of(await redis_of(before).hget(name, "r"))
    store = await stores.open(NEW, OLD)
    assert (await store.resealer.reseal()).requests == 1
    new = heads_of(await redis_of(store).hget(name, "r"))
    assert new[:2] == old[:2]
    assert new.request != old.request
    after = await stores.open(NEW)
    [invocation] = await claim(after)
    headers = short_headers(request.headers)
    assert invocation.request == msgspec.structs.replace(request, headers=headers)
    assert invocation.lane == "mail"
    assert await after.check() == []
