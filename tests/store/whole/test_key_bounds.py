"""docs/internals/isolation.md says of each kind of key how much there may be of it, and who pays;
what is stored stays within that."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scheduler import ids
from scheduler.errors import NotFound, QuotaExceeded, TooManyUpserts
from scheduler.models import Idempotency, Plan, Request, Upsert
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.check.damage import kind_of
from scheduler.store.queries.listing import Selection
from tests.store.clocks import ServerClock
from tests.store.scene import URL, Scene, settled
from tests.store.whole.filled import BRIEF, fill, kinds, pattern_of
from tests.support.servers import ValkeyProcess

_DOCUMENT = Path(__file__).parents[3] / "docs/internals/isolation.md"
_ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20}
# Of a list, beside its members: a stream begins with a page of 4 KiB.
_SLACK = 5 * 1024
# The name, memory and members of every key, at one moment: of each it takes three commands.
_KEYS_OF = """
local counts = {hash = 'HLEN', zset = 'ZCARD', list = 'LLEN', stream = 'XLEN'}
local found = {}
for _, key in ipairs(redis.call('KEYS', 'pd:*')) do
  local count = counts[redis.call('TYPE', key).ok]
  local size = redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0)
  found[#found + 1] = {key, size, count and redis.call(count, key) or 1}
end
return found
"""


class Key(NamedTuple):
    """One that is stored: its kind, the memory that it takes (bytes), and its members."""

    kind: str
    size: int
    members: int


class Bound(NamedTuple):
    most: str
    size: str
    kept: str
    payer: str

    def allows(self, key: Key) -> bool:
        """Whether the key is not larger than that; what weighs in the quota is not judged here."""
        found = re.match(r"([\d,]+) (B|KiB|MiB)( each)?", self.size)
        if found is None:
            return self.size == "the quota"
        each = int(found[1].replace(",", "")) * _UNITS[found[2]]
        return key.size <= (each * key.members + _SLACK if found[3] else each)

    @property
    def most_keys(self) -> float:
        """Of an account."""
        found = re.match(r"([\d,]+) an account", self.most)
        return int(found[1].replace(",", "")) if found else float("inf")


def documented() -> dict[str, Bound]:
    """The table, by the names of keys without what is different from one to the next."""
    text = _DOCUMENT.read_text().partition("### Each kind of key")[2]
    return {_pattern(name): Bound(*row) for name, *row in _ROW.findall(text)}


def _pattern(documented_name: str) -> str:
    return re.sub(r"^<\w+>:?|<\w+>$", "", documented_name)


def test_the_table_has_each_kind_of_key_and_the_check_knows_it() -> None:
    named = kinds()
    assert documented().keys() == named
    account = keys.account(ids.new_account_id(0))
    for name in named:
        full = (name, keys.shard(0) + name, account + name)
        known = [kind_of(each + "x" * name.endswith(":")) for each in full]
        assert any(known), name


async def _keys_of(redis: Any) -> list[Key]:
    found = await redis.eval(_KEYS_OF, 0)
    return [Key(pattern_of(name.decode()), size, members) for name, size, members in found]


async def test_no_key_is_larger_than_the_table_says(scene: Scene) -> None:
    """Each kind is there, as large as it may be, but for those that are there for a moment."""
    await fill(scene)
    table, found = documented(), await _keys_of(scene.redis)
    assert table.keys() - {each.kind for each in found} <= BRIEF
    too_large = [each for each in found if not table[each.kind].allows(each)]
    assert too_large == []
    of_quota = {kind for kind, bound in table.items() if bound.size == "the quota"} - {keys.ONCE}
    paid = sum(each.size for each in found if each.kind in of_quota)
    assert paid < 1.5 * await scene.store.accounts.stored_bytes(scene.account_id)
    count = Counter(each.kind for each in found)
    assert [kind for kind in count if count[kind] > 2 * table[kind].most_keys] == [], "two accounts"


QUOTA = 256 * 1024
_BATCH = 1000


@pytest.fixture
async def bounded(valkey: ValkeyProcess) -> AsyncIterator[Scene]:
    """An account with one credit, of a plan with a quota."""
    settings = Settings(redis_url=valkey.url, shards=1, stored_bytes={Plan.FREE: QUOTA})
    store = await Store.open(settings)
    yield await Scene.of(store, ServerClock(store), credits=1)
    assert await store.check() == []
    await store.aclose()


async def _batch(scene: Scene, once: Idempotency) -> object:
    """The credit pays for the first of a thousand."""
    wanted = [Request(2**41, "POST", URL)] * _BATCH
    made = await scene.store.schedules.create_all(scene.account_id, wanted, once)
    await scene.cancel(made.schedule_ids[0])
    return made.schedule_ids


async def _rule(scene: Scene, once: Idempotency) -> object:
    draft = Draft(Request(0, "POST", URL), Timing(every_ms=86_400_000))
    made = await scene.store.recurring.create(scene.account_id, draft, once)
    with suppress(NotFound):  # a repeat: it was deleted then
        await scene.store.recurring.delete(scene.account_id, made.rule.recurring_id)
    return made.rule.recurring_id


async def _upserts(scene: Scene, once: Idempotency | None, *, keep: bool = False) -> object:
    """They all mean one that waits, so that they cost nothing."""
    wanted = [Upsert(Request(2**41, "POST", URL, reference="one"), keep, None)] * _BATCH
    made = await scene.store.schedules.create_all(scene.account_id, wanted, once)
    return [each[:2] for each in made.placed[1:]]


def _upserts_without_a_key(scene: Scene, _: Idempotency) -> Awaitable[object]:
    return _upserts(scene, None)


async def _changed(scene: Scene, _: Idempotency) -> object:
    page = await scene.store.unended.page(scene.account_id, Selection())
    found = [each.schedule_id for each in page.schedules]
    schedule_id = found[0] if found else await scene.create(60_000)
    return await scene.change(schedule_id, body=b"other")


async def _bytes_of(scene: Scene) -> int:
    """Of all that is stored but the log."""
    found = await _keys_of(scene.redis)
    return sum(each.size for each in found if each.kind not in (keys.LOG, keys.INDEX))


Call = Callable[[Scene, Idempotency], Awaitable[object]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        (_batch, QuotaExceeded),
        (_rule, QuotaExceeded),
        (partial(_upserts, keep=True), TooManyUpserts),
        (_upserts, TooManyUpserts),
        (_upserts_without_a_key, TooManyUpserts),
        (lambda scene, once: scene.store.signing.rotate(scene.account_id, 0, once), None),
        (_changed, None),
    ],
    ids=["batches", "rules", "kept", "replaced", "without a key", "rotated", "changed"],
)
async def test_an_account_with_one_credit_fills_no_store(
    bounded: Scene, call: Call, refusal: type[Exception] | None
) -> None:
    """It repeats a call until that is refused, and has the credit back each time. What it was
    answered before is answered again, by its key."""
    scene, first, refused, calls = bounded, None, None, 0
    before = await _bytes_of(scene)
    while refused is None and calls < 2500:
        once = Idempotency(f"{calls}", "asked")
        try:
            answer = await call(scene, once)
        except (QuotaExceeded, TooManyUpserts) as error:
            refused = error
        else:
            first, calls = first or (once, answer), calls + 1
    assert type(refused) is (refusal or type(None)), calls
    assert await _bytes_of(scene) - before < QUOTA + 200_000
    async for name in scene.redis.scan_iter(scene.base + keys.OPERATION + "*"):
        assert await scene.redis.pttl(name) <= 60_000
    if refusal is not None and call is not _upserts_without_a_key:
        assert await call(scene, first[0]) == first[1]


async def test_answers_that_cost_no_credit_come_to_a_part_of_the_quota(
    valkey: ValkeyProcess,
) -> None:
    """In a minute to a 32nd of it, and then there is room for more; another account has its own."""
    quota = 32 * 2**20
    settings = Settings(redis_url=valkey.url, shards=1, stored_bytes={Plan.FREE: quota})
    store = await Store.open(settings)
    scene = await Scene.of(store, ServerClock(store), credits=1)
    answers, began_ms = list[object](), await scene.clock.now_ms()
    for n in range(30):
        once = Idempotency(f"{n}", "asked") if n % 2 else None
        answers.append(await settled(partial(_upserts, scene, once)))
    refused = [each for each in answers if isinstance(each, TooManyUpserts)]
    # A slow machine takes so much of the next minute that there is room for more.
    minutes = 1 + (await scene.clock.now_ms() - began_ms) / 60_000
    assert len(refused) in range(1, 8)
    assert 0 < refused[0].wait_s <= 3
    notes = {keys.ONCE, keys.OPERATION}
    found = await _keys_of(scene.redis)
    # Servers take up to an eighth more than a value has.
    assert sum(each.size for each in found if each.kind in notes) < quota / 32 * minutes * 1.25
    names = [each async for each in scene.redis.scan_iter(scene.base + "*")]
    noted = [each for each in names if pattern_of(each.decode()) in notes]
    assert all([0 < await scene.redis.pttl(each) <= 60_000 for each in noted])
    other = Scene(store, scene.clock, await scene.account("second"))
    await _upserts(other, None)
    before = int(await scene.redis.get(scene.base + keys.NOTED))
    await scene.redis.set(scene.base + keys.NOTED, before - 60_000_000)
    await _upserts(scene, None)
    assert await store.check() == []
    await store.aclose()


@pytest.mark.parametrize(
    ("references", "takes_a_part"), [(["a", "b"], False), (["a"], True), (["b"], False)]
)
async def test_an_answer_that_cost_a_credit_takes_nothing_of_that_part(
    bounded: Scene, references: list[str], takes_a_part: bool
) -> None:
    """`a` waits already, and is kept."""
    await bounded.store.accounts.grant(bounded.account_id, 5)
    await bounded.create(60_000, reference="a")
    due_ms = await bounded.clock.now_ms() + 60_000
    wanted = [Upsert(Request(due_ms, "POST", URL, reference=each), True) for each in references]
    once = Idempotency("key", "asked")
    await bounded.store.schedules.create_all(bounded.account_id, wanted, once)
    assert bool(await bounded.redis.exists(bounded.base + keys.NOTED)) is takes_a_part
