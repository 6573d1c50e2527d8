"""POSTDATE_SECRET_KEY: requests and signing secrets lie encrypted in the store."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.errors import SettingsError, StoreMisconfigured, Unreadable
from scheduler.models import Answer, Outcome, Status
from scheduler.settings import from_environment
from scheduler.store import keys
from scheduler.store.queries.listing import Selection
from scheduler.store.secrecy import Secrecy
from scheduler.store.stored import Fields, pack_outcome, pack_request, schedule, seal_said
from tests.scheduler.clocks import ServerClock
from tests.scheduler.keyed import NEW, OLD, OTHER, REQUEST, Stores, account_of, everything
from tests.scheduler.scene import FAILED, Scene


@given(st.binary(), st.sampled_from([(OLD,), (NEW, OLD), (OTHER, NEW, OLD)]))
def test_what_was_sealed_is_opened_by_whoever_has_the_key(
    text: bytes, others: Sequence[bytes]
) -> None:
    sealed = Secrecy([OLD]).seal(text)
    assert len(sealed) == len(text) + 33
    assert Secrecy(others).open(sealed) == text
    assert text not in sealed or len(text) < 3
    assert Secrecy([OLD]).seal(text) != sealed


def test_what_was_changed_or_cut_off_is_told_and_not_taken() -> None:
    secrecy = Secrecy([OLD])
    sealed = secrecy.seal(b"text")
    for place in range(len(sealed)):
        broken = bytearray(sealed)
        broken[place] ^= 1
        if place == 0:
            continue  # without its mark it is something in clear
        with pytest.raises(Unreadable):
            secrecy.open(bytes(broken))
    for length in range(1, len(sealed)):
        with pytest.raises(Unreadable):
            secrecy.open(sealed[:length])
    with pytest.raises(Unreadable, match="which is not here"):
        Secrecy([NEW]).open(sealed)


def test_without_a_key_all_is_as_it_was() -> None:
    text = b"text"
    assert Secrecy().seal(text) is text
    assert Secrecy().open(text) is text
    assert Secrecy([OLD]).open(text) is text


async def test_nothing_secret_lies_in_the_store_in_clear(stores: Stores) -> None:
    store = await stores.open(OLD)
    account_id = await account_of(store)
    schedule_id = await store.schedules.create(account_id, REQUEST)
    [secret] = await store.signing.secrets(account_id)
    rotated = await store.signing.rotate(account_id, 1000)
    held = await everything(store)
    for hidden in (b"hush", b"DE12", secret.secret.encode(), rotated.secrets[0].secret.encode()):
        assert hidden not in held
    assert b"whsec_" not in held
    assert (await store.schedules.get(account_id, schedule_id)).request == REQUEST
    assert await store.signing.secrets(account_id) == rotated.secrets
    [listed] = (await store.unended.page(account_id, Selection())).schedules
    assert listed.request == REQUEST


async def test_whatever_is_done_with_it_stays_sealed(stores: Stores) -> None:
    store = await stores.open(OLD)
    account_id = await account_of(store)
    one, two = [await store.schedules.create(account_id, REQUEST) for _ in range(2)]
    changed = msgspec.structs.replace(REQUEST, body=b'{"iban":"DE13"}', trigger_at_ms=1)
    await store.schedules.change(account_id, one, lambda _: changed)
    await store.canceller.cancel(account_id, two)
    [invocation] = (await store.claims.claim(0, lease_ms=10_000, most=9)).invocations
    assert invocation.request == changed
    assert b"hush" not in await everything(store)
    assert b"DE1" not in await everything(store)
    assert await store.check() == []


async def test_keys_are_rotated_by_putting_the_new_one_first(stores: Stores) -> None:
    before = await stores.open(OLD)
    account_id = await account_of(before)
    old = await before.schedules.create(account_id, REQUEST)
    # First where it only reads, so that no process meets a request that it cannot read.
    reading = await stores.open(OLD, NEW)
    after = await stores.open(NEW, OLD)
    new = await after.schedules.create(account_id, REQUEST)
    for store in (reading, after):
        for schedule_id in (old, new):
            assert (await store.schedules.get(account_id, schedule_id)).request == REQUEST
        assert len(await store.signing.secrets(account_id)) == 1
        assert await store.check() == []


@pytest.mark.parametrize("secret_keys", [(), (NEW,)])
async def test_a_process_that_lacks_a_key_does_not_start(
    stores: Stores, secret_keys: tuple[bytes, ...]
) -> None:
    await account_of(await stores.open(OLD))
    with pytest.raises(StoreMisconfigured, match="add it to POSTDATE_SECRET_KEY") as caught:
        await stores.open(*secret_keys)
    for key in (OLD, NEW):
        assert b64encode(key).decode() not in str(caught.value)


async def test_what_was_stored_before_there_was_a_key_is_read_on(stores: Stores) -> None:
    clear = await stores.open()
    account_id = await account_of(clear)
    schedule_id = await clear.schedules.create(account_id, REQUEST)
    store = await stores.open(OLD)
    assert (await store.schedules.get(account_id, schedule_id)).request == REQUEST
    assert await store.signing.secrets(account_id) == await clear.signing.secrets(account_id)
    await store.schedules.change(
        account_id, schedule_id, lambda each: msgspec.structs.replace(each, method="PUT")
    )
    assert b"hush" not in await everything(store)
    assert await store.check() == []


async def test_a_check_tells_what_cannot_be_read(stores: Stores) -> None:
    store = await stores.open(OLD)
    scene = Scene(store, ServerClock(store), await account_of(store))
    said = msgspec.structs.replace(FAILED, answer=Answer("", b"no"))
    made = [await scene.run(said), await scene.create(60_000)]
    for schedule_id, field in zip(made, "sr", strict=True):
        sealed = await scene.redis.hget(scene.key(schedule_id), field)
        foreign = Secrecy([OTHER]).seal(b"").ljust(len(sealed), b"x")[: len(sealed)]
        await scene.redis.hset(scene.key(schedule_id), field, foreign)
    entry = b"sec_1 0 0 " + Secrecy([OTHER]).seal(b"x" * 100)
    await scene.redis.lset(scene.base + keys.SIGNING, 0, entry)
    found = await store.check()
    why = "cannot be read: It is encrypted with key"
    expected = [f"{each} {why}" for each in ("its signing secret", *made)]
    assert [sum(each in told for told in found) for each in expected] == [1] * len(found) == [1] * 3


def test_the_setting_takes_keys_with_commas_between() -> None:
    given = f"{b64encode(NEW).decode()}, {b64encode(OLD).decode()}"
    assert from_environment({"POSTDATE_SECRET_KEY": given}).secret_key == (NEW, OLD)
    assert from_environment({}).secret_key == ()


@pytest.mark.parametrize("bad", ["hunter2", b64encode(b"x" * 31).decode(), "," * 3])
def test_what_is_no_key_is_told_without_repeating_it(bad: str) -> None:
    with pytest.raises(SettingsError, match="must be the base64 of 32 bytes") as caught:
        from_environment({"POSTDATE_SECRET_KEY": bad})
    assert bad not in str(caught.value) or bad == ",,,"


def test_what_a_target_said_lies_encrypted() -> None:
    secrecy, said = Secrecy((OLD,)), Answer("text/plain", b"hush")
    outcome = Outcome(Status.FAILED, 500, 1, "Oh", answer=said)
    packed, sealed = bytes(6) + pack_outcome(outcome, 0, 1), seal_said(said, secrecy)
    assert b"hush" not in packed + sealed
    fields = Fields(pack_request(REQUEST), packed, said=sealed)
    found = schedule("sch_01jd3m0000e0080000000000a0", fields, secrecy)
    assert found.outcome == outcome
