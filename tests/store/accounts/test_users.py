"""Who signs in: reserved addresses, passwords, attempts."""

from __future__ import annotations

import pytest

from scheduler.errors import NotFound, Taken
from scheduler.models import Plan
from scheduler.store import Store, keys
from scheduler.store.accounts.sign_in.sessions import (
    ATTEMPTS_PER_ADDRESS,
    ATTEMPTS_PER_BOTH,
    ATTEMPTS_PER_EMAIL,
    counter_of,
)
from scheduler.texts import normal_email
from tests.support.plain import redis_of


async def make(store: Store, name: str, email: str = "") -> str:
    account = await store.accounts.create(name, credits=1, plan=Plan.FREE, email=email)
    return account.account_id


@pytest.mark.parametrize(
    ("text", "address"),
    [("Ada@Example.COM", "ada@example.com"), ("  a@b ", "a@b"), ("ß@ä.de", "ss@ä.de")],
)
def test_an_address_has_one_spelling(text: str, address: str) -> None:
    assert normal_email(text) == address


@pytest.mark.parametrize("text", ["", "ada", "a@b@c", "a b@c", "@", "a@", "x" * 250 + "@y.de"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an e-mail address"):
        normal_email(text)


async def test_a_holder_is_found_by_address_in_any_spelling(store: Store) -> None:
    account_id = await make(store, "ada", "Ada@Example.com")
    for spelling in ("ada@example.com", " ADA@EXAMPLE.COM "):
        holder = await store.users.find(spelling)
        assert holder.account_id == account_id
    assert await store.users.find("bob@example.com") is None
    assert await store.users.find("no address") is None


async def test_an_address_belongs_to_one_account(store: Store) -> None:
    await make(store, "ada", "ada@example.com")
    with pytest.raises(Taken):
        await make(store, "bob", "ADA@example.com")
    assert [each.name for each in (await store.accounts.some())[0]] == ["ada"]
    assert await store.check() == []


async def test_an_address_whose_account_was_never_made_is_healed_by_repeating(store: Store) -> None:
    account_id = await make(store, "ada", "ada@example.com")
    await redis_of(store).delete(keys.account(account_id) + "account")
    assert await store.users.find("ada@example.com") is None
    assert any("'ada@example.com' is reserved" in told for told in await store.check())
    assert await make(store, "ada", "ada@example.com") == account_id
    assert await store.users.find("ada@example.com") is not None
    assert await store.check() == []


async def test_a_password_is_stored_as_it_comes_and_closes_all_sessions(store: Store) -> None:
    account_id = await make(store, "ada", "ada@example.com")
    before = [await store.sessions.open(account_id) for _ in range(2)]
    opened = await store.sessions.open(account_id, password="$argon2id$…")
    assert (await store.users.of(account_id)).password == "$argon2id$…"
    assert [await store.sessions.find(each.secret) for each in before] == [None, None]
    assert await store.sessions.find(opened.secret) == opened.session
    with pytest.raises(NotFound):
        await store.sessions.open("acc_00_00000000", password="hash")


async def test_a_strangers_attempts_do_not_lock_the_holder_out(store: Store) -> None:
    for _ in range(ATTEMPTS_PER_BOTH):
        assert await store.users.attempt("ada@example.com", "10.0.0.1") == 0
    assert 0 < await store.users.attempt("ADA@example.com", "10.0.0.1") <= 15 * 60
    assert await store.users.attempt("ada@example.com", "10.0.0.2") == 0
    assert await store.users.attempt("bob@example.com", "10.0.0.1") == 0


async def test_a_crowd_of_strangers_is_limited_and_the_holder_is_known(store: Store) -> None:
    at_home = ("ada@example.com", "192.0.2.1")
    assert await store.users.attempt(*at_home) == 0
    await store.users.forgive(*at_home)
    key = counter_of("email:ada@example.com")
    await redis_of(store).set(key, ATTEMPTS_PER_EMAIL, px=60_000)
    assert await store.users.attempt("ada@example.com", "10.0.0.1") > 0
    assert await store.users.attempt(*at_home) == 0
    for _ in range(ATTEMPTS_PER_BOTH - 1):
        assert await store.users.attempt(*at_home) == 0
    assert await store.users.attempt(*at_home) > 0
    known = counter_of("known email:ada@example.com address:192.0.2.1")
    assert await redis_of(store).pttl(known) > 0


async def test_attempts_from_one_place_are_limited_whomever_they_mean(store: Store) -> None:
    for number in range(ATTEMPTS_PER_ADDRESS):
        assert await store.users.attempt(f"{number}@example.com", "10.0.0.1") == 0
    assert await store.users.attempt("ada@example.com", "10.0.0.1") > 0


async def test_a_success_is_forgiven(store: Store) -> None:
    for _ in range(ATTEMPTS_PER_ADDRESS * 2):
        assert await store.users.attempt("ada@example.com", "10.0.0.1") == 0
        await store.users.forgive("ada@example.com", "10.0.0.1")
