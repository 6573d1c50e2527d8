"""Sessions and one-time links."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.store import keys
from scheduler.store.accounts.sign_in.sessions import LINK_TTL_MS, SESSION_TTL_MS, Purpose
from tests.store.accounts.test_members import joined
from tests.store.scene import Scene


@pytest.mark.parametrize("secret", ["", "x", "00_short", "99_" + "a" * 43, "00_" + "a" * 43])
async def test_what_is_no_secret_finds_nothing(scene: Scene, secret: str) -> None:
    assert await scene.store.sessions.find(secret) is None
    assert await scene.store.sessions.redeem(secret, Purpose.SIGN_IN) is None
    assert not await scene.store.sessions.leads_to(secret)


async def test_signing_out_everywhere_closes_the_members_and_voids_their_link(scene: Scene) -> None:
    sessions = scene.store.sessions
    ann, bob = [await joined(scene, f"{name}@example.com") for name in ("ann", "bob")]
    other = await sessions.open(scene.account_id, ann.session.member_id)
    link = await sessions.make_link(scene.account_id, ann.session.member_id)
    operators = await sessions.open(scene.account_id)
    await sessions.close_all(ann.session)
    assert [await sessions.find(each.secret) for each in (ann, other)] == [None] * 2
    assert not await sessions.leads_to(link)
    assert await sessions.redeem(link, Purpose.SET_PASSWORD, "another") is None
    for left in (bob, operators):
        assert await sessions.find(left.secret) == left.session


async def test_signing_out_everywhere_by_an_operators_link_voids_those_links(scene: Scene) -> None:
    sessions, ann = scene.store.sessions, await joined(scene, "ann@example.com")
    opened = await sessions.open(scene.account_id)
    link = await sessions.make_link(scene.account_id)
    await sessions.close_all(opened.session)
    assert await sessions.find(opened.secret) is None
    assert await sessions.redeem(link, Purpose.SIGN_IN) is None
    assert await sessions.find(ann.secret) == ann.session


async def test_a_link_signs_in_once_whoever_redeems_it(scene: Scene) -> None:
    sessions = scene.store.sessions
    link = await sessions.make_link(scene.account_id)
    tried = await asyncio.gather(*(sessions.redeem(link, Purpose.SIGN_IN) for _ in range(20)))
    [opened] = [each for each in tried if each is not None]
    assert opened.session.account_id == scene.account_id
    assert await sessions.find(opened.secret) == opened.session
    assert await sessions.count(scene.account_id) == 1
    assert await sessions.redeem(link, Purpose.SIGN_IN) is None


async def test_a_link_to_set_a_password_does_that_and_signs_others_out(scene: Scene) -> None:
    sessions, before = scene.store.sessions, await joined(scene, "ann@example.com")
    member_id = before.session.member_id
    earlier, link = [await sessions.make_link(scene.account_id, member_id) for _ in range(2)]
    assert await sessions.redeem(link, Purpose.SIGN_IN) is None
    assert await sessions.redeem(earlier, Purpose.SET_PASSWORD, "another") is None
    assert (await sessions.leads_to(link)).purpose == Purpose.SET_PASSWORD
    opened = await sessions.redeem(link, Purpose.SET_PASSWORD, "new hash")
    assert await scene.store.members.password_of(scene.account_id, member_id) == "new hash"
    assert await sessions.find(before.secret) is None
    assert await sessions.find(opened.secret) == opened.session


async def test_links_and_sessions_end_by_themselves(scene: Scene) -> None:
    opened = await scene.store.sessions.open(scene.account_id)
    await scene.store.sessions.make_link(scene.account_id)
    client, prefix = scene.redis, keys.shard(scene.shard)
    left = {
        kind: await client.pttl(key)
        for kind in ("session", "link")
        async for key in client.scan_iter(match=f"{prefix}{kind}:*")
    }
    assert SESSION_TTL_MS - 60_000 < left["session"] <= SESSION_TTL_MS
    assert LINK_TTL_MS - 60_000 < left["link"] <= LINK_TTL_MS
    assert await client.pttl(f"{scene.base}sessions:") > 0
    assert opened.session.csrf != opened.secret
