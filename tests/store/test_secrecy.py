"""POSTDATE_SECRET_KEY: requests and signing secrets lie encrypted in the store."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.errors import SettingsError, StoreMisconfigured, Unreadable
from scheduler.runtime.settings import from_environment
from scheduler.store.queries.listing import Selection
from scheduler.store.secrecy import Secrecy
from tests.store.keyed import NEW, OLD, OTHER, REQUEST, Stores, account_of, everything
from tests.store.scene import Scene


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


async def test_of_keys_sessions_and_links_the_hash_alone_is_stored(scene: Scene) -> None:
    _, key = await scene.store.api_keys.create(scene.account_id, "laptop")
    opened = await scene.store.sessions.open(scene.account_id)
    link = await scene.store.sessions.make_link(scene.account_id)
    read = {b"hash": scene.redis.hgetall, b"string": scene.redis.get}
    stored = [
        str((name, await read[kind](name)))
        async for name in scene.redis.scan_iter()
        if (kind := await scene.redis.type(name)) in read
    ]
    assert opened.session.sha256 in "".join(stored)
    for secret in (key, opened.secret, link):
        assert secret.removeprefix("pd_").partition("_")[2] not in "".join(stored)


@pytest.mark.parametrize("secret_keys", [(), (NEW,)])
async def test_a_process_that_lacks_a_key_does_not_start(
    stores: Stores, secret_keys: tuple[bytes, ...]
) -> None:
    await account_of(await stores.open(OLD))
    with pytest.raises(StoreMisconfigured, match="add it to POSTDATE_SECRET_KEY") as caught:
        await stores.open(*secret_keys)
    for key in (OLD, NEW):
        assert b64encode(key).decode() not in str(caught.value)


def test_the_setting_takes_keys_with_commas_between() -> None:
    given = f"{b64encode(NEW).decode()}, {b64encode(OLD).decode()}"
    assert from_environment({"POSTDATE_SECRET_KEY": given}).secret_key == (NEW, OLD)
    assert from_environment({}).secret_key == ()


@pytest.mark.parametrize("bad", ["hunter2", b64encode(b"x" * 31).decode(), "," * 3])
def test_what_is_no_key_is_told_without_repeating_it(bad: str) -> None:
    with pytest.raises(SettingsError, match="must be the base64 of 32 bytes") as caught:
        from_environment({"POSTDATE_SECRET_KEY": bad})
    assert bad not in str(caught.value) or bad == ",,,"
