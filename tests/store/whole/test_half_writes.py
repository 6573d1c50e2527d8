"""No script writes a half: whatever is damaged of one account, every other account in the same call
is served, and the damaged one is left as it is, or served as a whole.

Each operation is carried out with each key that it touches harmed in turn, on each server.
"""

from __future__ import annotations

import itertools
import pkgutil
from collections import Counter
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from typing import Any

import pytest

from scheduler import ids
from scheduler import store as store_package
from scheduler.errors import StoreError
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.check.damage import kind_of
from scheduler.store.server.scripts import Script
from tests.store.whole.harm import HARMS, Backup, Look, differing, do_harm, look, size_of, touched
from tests.store.whole.operations import DAMAGED, NEW_ACCOUNT, OF_LANES, OPERATIONS, Hall, Operation
from tests.store.whole.parties import Party, parties
from tests.support.plain import keeping, redis_of
from tests.support.servers import ValkeyProcess

# What holds a moment, or is counted by moments, and so differs from one time to the next.
_BY_TIME = (keys.EXPIRING, keys.MINUTE, keys.HOUR, keys.DAY)
_COUNTED = (keys.ACCOUNT, keys.LOGGED, keys.TRIED)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch, checks_at_once: None) -> None:
    monkeypatch.setattr("scheduler.store.operators.reseal._PAUSE_S", 0)
    monkeypatch.setattr("scheduler.store.operators.reseal._MOST_WALKS", 1)


@pytest.fixture
async def hall(valkey: ValkeyProcess, lane: str | None) -> AsyncIterator[Hall]:
    store = await Store.open(Settings(redis_url=valkey.url, shards=1))
    async with keeping(store):
        await redis_of(store).config_set("appendonly", "no")  # harm is a million lines of it
        a, b = await parties(store, ["a", "b"], lane)
        keyed = await Store.open(Settings(redis_url=valkey.url, secret_key=(b"k" * 32,)))
        yield Hall(store, keyed, a, b, {})
        await keyed.aclose()
        await redis_of(store).config_set("appendonly", "yes")
    await store.aclose()


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From each call on, new ids are the same as after the last one: the next call repeats
    the one before."""
    numbers = itertools.count()

    def number(*_: object) -> str:
        return f"{next(numbers):08}"

    def schedule_ids(count: int, now_ms: int) -> list[str]:
        return ids.schedule_ids_from((1 << 120) + next(numbers) * 1000, count)

    def begin() -> None:
        nonlocal numbers
        numbers = itertools.count()

    monkeypatch.setattr(ids, "_random", number)
    monkeypatch.setattr(ids.secrets, "token_urlsafe", lambda _: number().zfill(43))
    monkeypatch.setattr(ids, "new_schedule_ids", schedule_ids)
    monkeypatch.setattr(ids, "new_account_id", lambda _: NEW_ACCOUNT)
    return begin


class Watch:
    """Notes what scripts reply and, while it looks, which of them raised and had written."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._run = Script.run
        self.looks = False
        self.found: list[str] = []

    async def run(self, script: Script, *arguments: Any) -> Any:
        before = await self._changes() if self.looks else 0
        try:
            reply = await self._run(script, *arguments)
        except StoreError as error:
            if self.looks and await self._changes() != before:
                self.found.append(f"{script.path} raised {error}, and had written")
            raise
        self._hall.replies[script.path] = reply
        return reply

    async def _changes(self) -> int:
        """How many the server has made to its data."""
        info = await redis_of(self._hall.store).info("persistence")
        return int(info["rdb_changes_since_last_save"])


@pytest.fixture
def watch(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch(hall)
    monkeypatch.setattr(Script, "run", lambda *arguments: watch.run(*arguments))
    return watch


def test_every_script_is_among_the_operations() -> None:
    for module in pkgutil.walk_packages(store_package.__path__, store_package.__name__ + "."):
        import_module(module.name)
    named = {path for operation in OPERATIONS for path in operation.scripts}
    assert {script.path for script in Script.all} == named


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "lane"),
    [
        *(pytest.param(each, None, id=each.name) for each in OPERATIONS),
        *(pytest.param(each, "a", id=f"{each.name} of a lane") for each in OF_LANES),
    ],
)
async def test_a_damaged_key_harms_no_other_account_and_leaves_no_half(
    hall: Hall, operation: Operation, lane: str | None, again: Callable[[], None], watch: Watch
) -> None:
    trial = Trial(hall, operation, again, watch)
    names = await trial.sound()
    faults: list[str] = []
    if all_only_read(operation) and not operation.together:
        return  # a script that only reads writes no half, and the server holds it to that
    for name, harm in itertools.product(sorted(names), HARMS):
        faults += [f"{name} {harm}: {each}" for each in await trial.faults(name, harm)]
    assert not faults, "\n".join(faults)


def calls() -> Counter[str]:
    """How often each script was called."""
    return sum((Counter({script.path: script.calls}) for script in Script.all), Counter[str]())


def all_only_read(operation: Operation) -> bool:
    scripts = (script for script in Script.all if script.path in operation.scripts)
    return all("no-writes" in script.source_and_sha1[0].partition("\n")[0] for script in scripts)


class Trial:
    """An operation, carried out on the same store again and again."""

    def __init__(
        self, hall: Hall, operation: Operation, again: Callable[[], None], watch: Watch
    ) -> None:
        self._hall = hall
        self._operation = operation
        self._again = again
        self._watch = watch
        self._serves_b = operation.together or operation.walk
        self._parties = [hall.a, hall.b] if self._serves_b else [hall.a]

    async def sound(self) -> set[str]:
        """Carries it out with nothing harmed; the names of the keys that it touched."""
        operation, store = self._operation, self._hall.store
        if operation.prepare is not None:
            await operation.prepare(self._hall, [self._hall.a, self._hall.b])
        self._backup = await Backup.of(store)
        before = calls()
        names = await touched(store, self._act)
        made = calls() - before
        assert all(made[path] for path in operation.scripts), made
        assert not operation.together or {made[path] for path in operation.scripts} == {1}, made
        assert DAMAGED not in self._told
        self._watch.looks = True
        self._last = await look(store)
        self._theirs = self._told[-1], shape(self._hall.b, self._last)
        return names

    async def faults(self, name: str, harm: str) -> list[str]:
        """The faults after it was carried out, and repeated, with a key harmed. Of a key that is
        no account's all that is asked is that no script which raises has written."""
        store, b = self._hall.store, self._hall.b
        if b.owns(name) or kind_of(name) is None or not (self._owns(name) or harm == HARMS[1]):
            return []
        await self._backup.restore(self._last)
        harmed = await do_harm(redis_of(store), name, harm)
        self._last = await look(store)
        if not harmed:
            return []
        await self._act()
        told, once = list(self._told), await look(store)
        await self._act()
        looks = [self._last, once, await look(store)]
        self._last = looks[-1]
        found, self._watch.found = self._watch.found, []
        if self._owns(name):
            found += self._faults_of_b(told, *looks[:2])
            found += self._faults_of_a(told, *looks)
            if harm == HARMS[-1] and DAMAGED in told:
                found.append("many members are no damage")
        return found

    async def _act(self) -> None:
        self._again()
        self._told = await self._operation.act(self._hall, self._parties)

    def _owns(self, name: str) -> bool:
        """Whether a key is of the account that is harmed."""
        if self._operation.whose:
            return name.startswith(keys.account(self._operation.whose))
        return self._hall.a.owns(name)

    def _faults_of_b(
        self, told: list[object], before: dict[str, Look], after: dict[str, Look]
    ) -> list[str]:
        """B was served as it is where nothing is harmed; or not at all, if it was not its turn."""
        b = self._hall.b
        if not self._serves_b:
            return [f"{each} of B changed" for each in differing(before, after) if b.owns(each)]
        theirs = told[-1], shape(b, after)
        if theirs == self._theirs:
            return []
        return [f"B was told {theirs[0]!r}, and has {theirs[1].items() ^ self._theirs[1].items()}"]

    def _faults_of_a(
        self, told: list[object], before: dict[str, Look], *after: dict[str, Look]
    ) -> list[str]:
        found = []
        mine = [{name: each for name, each in looks.items() if self._owns(name)} for looks in after]
        if self._operation.together and told[0] == DAMAGED:
            changed = [
                each
                for each in differing(before, after[0])
                if self._owns(each) and not each.endswith(keys.LANE_HEADS)  # its turn
            ]
            found += [f"A was told that it is damaged, and {each} changed" for each in changed]
        if size_of(mine[1]) > size_of(mine[0]):
            found.append(f"a repeat made {differing(*mine)} of A grow")
        return found


def shape(party: Party, looks: dict[str, Look]) -> dict[str, int]:
    """What an account has, without what depends on when it came about."""
    found: Counter[str] = Counter()
    for name, each in looks.items():
        if party.owns(name):
            what = name.removeprefix(party.base)
            kind, colon, _ = what.partition(":")
            if kind + colon in _BY_TIME:
                found[kind] += each.total
            else:
                found[what] += each.size + (each.total if what in _COUNTED else 0)
    return dict(found)
