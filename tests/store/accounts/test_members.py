"""Members: reserved addresses, invitations, roles, passwords; and attempts to sign in."""

from __future__ import annotations

import asyncio
from unittest.mock import patch

import pytest

from scheduler import ids
from scheduler.callers import Role
from scheduler.errors import NotFound, StoreUnavailable, Taken, TooMany
from scheduler.models import Plan
from scheduler.store import Store, keys
from scheduler.store.accounts.sign_in.members import INVITATION_TTL_MS, MOST_MEMBERS
from scheduler.store.accounts.sign_in.sessions import (
    ATTEMPTS_PER_ADDRESS,
    ATTEMPTS_PER_BOTH,
    ATTEMPTS_PER_EMAIL,
    Opened,
    Purpose,
    counter_of,
)
from scheduler.texts import normal_email
from tests.store.scene import Scene, settled
from tests.support.plain import redis_of


async def make(store: Store, name: str, email: str = "") -> str:
    account = await store.accounts.create(name, credits=1, plan=Plan.FREE, email=email)
    return account.account_id


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("Ada@Example.COM", "ada@example.com"),
        ("  a@b ", "a@b"),
        ("ß@ä.de", "ss@ä.de"),
        ("RENE\u0301@b", "ren\xe9@b"),
    ],
)
def test_an_address_has_one_spelling(text: str, address: str) -> None:
    assert normal_email(text) == address


@pytest.mark.parametrize(
    "text",
    ["", "ada", "a@b@c", "a b@c", "@", "a@", "x" * 250 + "@y.de", "a\u200bda@b", "\u202ea@b"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an e-mail address"):
        normal_email(text)


async def test_a_holder_is_found_by_address_in_any_spelling(store: Store) -> None:
    account_id = await make(store, "ada", "Ada@Example.com")
    for spelling in ("ada@example.com", " ADA@EXAMPLE.COM "):
        holder = await store.members.find(spelling)
        assert holder.account_id == account_id
    assert await store.members.find("bob@example.com") is None
    assert await store.members.find("no address") is None


async def test_an_address_belongs_to_one_account(store: Store) -> None:
    await make(store, "ada", "ada@example.com")
    with pytest.raises(Taken):
        await make(store, "bob", "ADA@example.com")
    assert [each.name for each in (await store.accounts.some())[0]] == ["ada"]
    assert await store.check() == []


async def test_an_address_whose_account_was_never_made_is_healed_by_repeating(store: Store) -> None:
    account_id = await make(store, "ada", "ada@example.com")
    await redis_of(store).delete(keys.account(account_id) + "account")
    assert await store.members.find("ada@example.com") is None
    assert any("'ada@example.com' is reserved" in told for told in await store.check())
    assert await make(store, "ada", "ada@example.com") == account_id
    assert await store.members.find("ada@example.com") is not None
    assert await store.check() == []


async def test_a_password_is_stored_as_it_comes_and_closes_all_sessions(store: Store) -> None:
    account_id = await make(store, "ada", "ada@example.com")
    [ada] = await store.members.all(account_id)
    assert (ada.email, ada.role, ada.has_password) == ("ada@example.com", Role.OWN, False)
    before = [await store.sessions.open(account_id, ada.member_id) for _ in range(2)]
    opened = await store.sessions.open(account_id, ada.member_id, password="$argon2id$…")
    assert (await store.members.find("ada@example.com")).password == "$argon2id$…"
    assert [await store.sessions.find(each.secret) for each in before] == [None, None]
    assert await store.sessions.find(opened.secret) == opened.session
    for unknown in (("acc_00_00000000", ""), (account_id, "00000000")):
        with pytest.raises(NotFound):
            await store.sessions.open(*unknown, password="hash")


async def joined(scene: Scene, email: str, role: Role = Role.OWN) -> Opened:
    """A member of the first account, who has just signed in."""
    link = await scene.store.members.invite(scene.account_id, email, role, "us")
    return await scene.store.members.join(link, "hash")


async def events(scene: Scene) -> list[tuple[str, str, str]]:
    """The account's history, the first first."""
    found = await scene.store.events.newest(scene.account_id)
    return [(each.kind, each.who, each.about) for each in reversed(found)]


async def test_an_invitation_makes_one_member_whoever_redeems_it(scene: Scene) -> None:
    members, sessions = scene.store.members, scene.store.sessions
    link = await members.invite(scene.account_id, " Ann@Example.com", Role.ACT, "us")
    [invited] = await members.all(scene.account_id)
    assert (invited.email, invited.role, invited.since_ms) == ("ann@example.com", Role.ACT, None)
    left_ms = invited.until_ms - await scene.clock.now_ms()
    assert INVITATION_TTL_MS - 60_000 < left_ms <= INVITATION_TTL_MS
    assert await members.find("ann@example.com") is None
    assert (await sessions.leads_to(link)).purpose == Purpose.INVITE
    assert await sessions.redeem(link, Purpose.SIGN_IN) is None
    tried = await asyncio.gather(*(members.join(link, f"hash {n}") for n in range(10)))
    [opened] = [each for each in tried if each is not None]
    assert await sessions.find(opened.secret) == opened.session
    assert (opened.session.email, opened.session.role) == ("ann@example.com", Role.ACT)
    [member] = await members.all(scene.account_id)
    assert (member.until_ms, member.has_password) == (None, True)
    assert (await members.find("ann@example.com")).member_id == member.member_id
    assert await members.join(link, "again") is None
    assert await events(scene) == [
        ("member-invited", "us", "ann@example.com, act"),
        ("member-joined", "ann@example.com", "act"),
    ]


async def test_an_invitation_ends(fake_scene: Scene) -> None:
    scene, members = fake_scene, fake_scene.store.members
    link = await members.invite(scene.account_id, "ann@example.com", Role.ACT, "us")
    await scene.clock.pass_ms(INVITATION_TTL_MS + 1)
    assert await members.all(scene.account_id) == []
    assert await members.join(link, "hash") is None
    assert await joined(scene, "ann@example.com")
    assert await scene.redis.zcard(scene.base + keys.INVITED) == 0
    assert await scene.store.check() == []


async def test_a_second_invitation_replaces_the_first_and_a_member_has_none(scene: Scene) -> None:
    members = scene.store.members
    first = await members.invite(scene.account_id, "ann@example.com", Role.OWN, "us")
    second = await members.invite(scene.account_id, "ANN@example.com", Role.READ, "us")
    assert await members.join(first, "hash") is None
    assert (await members.join(second, "hash")).session.role == Role.READ
    with pytest.raises(Taken, match="is a member already"):
        await members.invite(scene.account_id, "ann@example.com", Role.OWN, "us")
    with pytest.raises(ValueError, match="not an e-mail"):
        await members.invite(scene.account_id, "ann", Role.OWN, "us")
    with pytest.raises(NotFound):
        await members.invite(ids.new_account_id(0), "ann@example.com", Role.OWN, "us")


async def test_an_address_of_another_account_is_refused_to_who_has_the_link(scene: Scene) -> None:
    """Not to the one who invites, who would learn who is a member elsewhere."""
    await make(scene.store, "ada", "ada@example.com")
    link = await scene.store.members.invite(scene.account_id, "ada@example.com", Role.ACT, "us")
    with pytest.raises(Taken, match="cannot be used here"):
        await scene.store.members.join(link, "hash")
    await scene.store.members.remove(scene.account_id, "ada@example.com", "us")
    assert (await scene.store.members.find("ada@example.com")).account_id != scene.account_id
    assert await scene.store.check() == []


async def test_a_role_that_changed_holds_at_once_and_a_removed_member_has_no_session(
    scene: Scene,
) -> None:
    store, account_id = scene.store, scene.account_id
    await joined(scene, "own@example.com")
    ann = await joined(scene, "ann@example.com", Role.READ)
    link = await store.sessions.make_link(account_id, ann.session.member_id)
    assert (await events(scene))[-1] == ("password-link", "an operator", "ann@example.com")
    for _ in range(2):
        await store.members.set_role(account_id, "ann@example.com", Role.ACT, "own@example.com")
    assert (await store.sessions.find(ann.secret)).role == Role.ACT
    await store.members.remove(account_id, ann.session.member_id, "own@example.com")
    assert await store.sessions.find(ann.secret) is None
    assert await store.sessions.redeem(link, Purpose.SET_PASSWORD, "hash") is None
    assert await store.members.find("ann@example.com") is None
    with pytest.raises(NotFound):
        await store.members.remove(account_id, "ann@example.com", "own@example.com")
    left = [key async for key in scene.redis.scan_iter(f"*{ann.session.member_id}*")]
    assert left == []
    assert (await events(scene))[-2:] == [
        ("member-role", "own@example.com", "ann@example.com, act"),
        ("member-removed", "own@example.com", "ann@example.com"),
    ]
    assert await joined(scene, "ann@example.com")


async def test_an_owner_is_left_unless_an_operator_removes_the_last(scene: Scene) -> None:
    members, account_id = scene.store.members, scene.account_id
    await joined(scene, "ann@example.com")
    await joined(scene, "bob@example.com", Role.ACT)
    await members.invite(account_id, "eve@example.com", Role.OWN, "us")
    for refused in (
        lambda: members.set_role(account_id, "ann@example.com", Role.ACT, "us"),
        lambda: members.remove(account_id, "ann@example.com", "us"),
    ):
        assert isinstance(await settled(refused), Taken)
    await members.remove(account_id, "eve@example.com", "us")
    await members.set_role(account_id, "bob@example.com", Role.OWN, "us")
    both = [
        settled(lambda name=name: members.set_role(account_id, name, Role.READ, "us"))
        for name in ("ann@example.com", "bob@example.com")
    ]
    refusals = [each for each in await asyncio.gather(*both) if isinstance(each, Taken)]
    assert len(refusals) == 1, "of two at the same time one is refused"
    [owner] = [each for each in await members.all(account_id) if each.role == Role.OWN]
    await members.remove(account_id, owner.email, "an operator", keeps_owner=False)
    assert len(await members.all(account_id)) == 1


async def test_links_are_void_that_an_earlier_owner_made(scene: Scene) -> None:
    """Else somebody who was removed could come back by one."""
    members, sessions, account_id = scene.store.members, scene.store.sessions, scene.account_id
    eve, ann = [await joined(scene, f"{name}@example.com") for name in ("eve", "ann")]
    for demoted in (True, False):
        links = [await members.invite(account_id, "new@example.com", Role.OWN, "eve@example.com")]
        links += [await sessions.make_link(account_id, ann.session.member_id, eve.session.email)]
        others = await members.invite(account_id, "more@example.com", Role.READ, "ann@example.com")
        if demoted:
            await members.set_role(account_id, "eve@example.com", Role.ACT, "ann@example.com")
            await members.set_role(account_id, "eve@example.com", Role.OWN, "ann@example.com")
        else:
            await members.remove(account_id, "eve@example.com", "ann@example.com")
        assert [await sessions.leads_to(link) for link in links] == [None, None]
        assert await sessions.leads_to(others) is not None
        assert {each.email for each in await members.all(account_id) if each.until_ms} == {
            "more@example.com"
        }
        void = ("member-removed", "ann@example.com", "new@example.com")
        assert void in (await events(scene))[-3:]
    assert await sessions.find(ann.secret) is not None
    assert await scene.store.check() == []


async def test_an_invitation_that_meets_a_deletion_leaves_the_address_free(scene: Scene) -> None:
    """The account is deleted between the reservation of the address and the redeeming."""
    store = scene.store
    link = await store.members.invite(scene.account_id, "ann@example.com", Role.ACT, "us")
    redeem = store.sessions.redeem

    async def late(*given: str) -> Opened | None:
        await scene.redis.delete(keys.EMAIL + "ann@example.com")
        await store.changes.delete(scene.account_id)
        await scene.redis.set(keys.EMAIL + "ann@example.com", reserved)
        return await redeem(*given)

    [invited] = await store.members.all(scene.account_id)
    reserved = f"{scene.account_id} {invited.member_id}"
    with patch.object(store.sessions, "redeem", late):
        assert await store.members.join(link, "hash") is None
    assert await make(store, "ann", "ann@example.com")


async def test_an_account_has_a_number_of_members(scene: Scene) -> None:
    invite = scene.store.members.invite
    for n in range(MOST_MEMBERS):
        await invite(scene.account_id, f"{n}@example.com", Role.READ, "us")
    with pytest.raises(TooMany):
        await invite(scene.account_id, "more@example.com", Role.READ, "us")
    await invite(scene.account_id, "7@example.com", Role.ACT, "us")
    await scene.store.members.remove(scene.account_id, "8@example.com", "us")
    await invite(scene.account_id, "more@example.com", Role.READ, "us")


@pytest.mark.usefixtures("checks_at_once")
async def test_an_address_whose_member_was_half_removed_is_told_and_freed(scene: Scene) -> None:
    members = scene.store.members
    await joined(scene, "ann@example.com")
    with (
        patch("scheduler.store.accounts.sign_in.members.free", side_effect=StoreUnavailable("x")),
        pytest.raises(StoreUnavailable),
    ):
        await members.remove(scene.account_id, "ann@example.com", "us", keeps_owner=False)
    [told] = await scene.store.check()
    assert "'ann@example.com' is reserved for no member" in told
    assert await make(scene.store, "ann", "ann@example.com")
    assert await scene.store.check() == []


@pytest.mark.usefixtures("checks_at_once")
@pytest.mark.harmed
async def test_a_check_tells_of_members_that_nothing_leads_to(scene: Scene) -> None:
    ann, bob = [await joined(scene, f"{name}@example.com") for name in ("ann", "bob")]
    await scene.redis.delete(keys.EMAIL + "ann@example.com")
    await scene.redis.hset(f"{scene.base}member:{bob.session.member_id}", "role", "boss")
    assert await scene.store.sessions.find(ann.secret) is not None
    assert await scene.store.sessions.find(bob.secret) is None
    told = "\n".join(await scene.store.check())
    assert "'ann@example.com' does not lead to its member" in told
    assert f"its member {bob.session.member_id!r} has no address or role" in told


async def test_a_strangers_attempts_do_not_lock_the_holder_out(store: Store) -> None:
    for _ in range(ATTEMPTS_PER_BOTH):
        assert await store.attempts.count("ada@example.com", "10.0.0.1") == 0
    assert 0 < await store.attempts.count("ADA@example.com", "10.0.0.1") <= 15 * 60
    assert await store.attempts.count("ada@example.com", "10.0.0.2") == 0
    assert await store.attempts.count("bob@example.com", "10.0.0.1") == 0


async def test_a_crowd_of_strangers_is_limited_and_the_holder_is_known(store: Store) -> None:
    at_home = ("ada@example.com", "192.0.2.1")
    assert await store.attempts.count(*at_home) == 0
    await store.attempts.forgive(*at_home)
    key = counter_of("email:ada@example.com")
    await redis_of(store).set(key, ATTEMPTS_PER_EMAIL, px=60_000)
    assert await store.attempts.count("ada@example.com", "10.0.0.1") > 0
    assert await store.attempts.count(*at_home) == 0
    for _ in range(ATTEMPTS_PER_BOTH - 1):
        assert await store.attempts.count(*at_home) == 0
    assert await store.attempts.count(*at_home) > 0
    known = counter_of("known email:ada@example.com address:192.0.2.1")
    assert await redis_of(store).pttl(known) > 0


async def test_attempts_from_one_place_are_limited_whomever_they_mean(store: Store) -> None:
    for number in range(ATTEMPTS_PER_ADDRESS):
        assert await store.attempts.count(f"{number}@example.com", "10.0.0.1") == 0
    assert await store.attempts.count("ada@example.com", "10.0.0.1") > 0


async def test_a_success_is_forgiven(store: Store) -> None:
    for _ in range(ATTEMPTS_PER_ADDRESS * 2):
        assert await store.attempts.count("ada@example.com", "10.0.0.1") == 0
        await store.attempts.forgive("ada@example.com", "10.0.0.1")
