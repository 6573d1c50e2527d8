"""Sessions and one-time links."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.store import keys
from scheduler.store.accounts.sign_in.sessions import LINK_TTL_MS, SESSION_TTL_MS, Purpose
from tests.store.scene import Scene


@pytest.mark.parametrize("secret", ["", "x", "00_short", "99_" + "a" * 43, "00_" + "a" * 43])
async def test_what_is_no_secret_finds_nothing(scene: Scene, secret: str) -> None:
    assert await scene.store.sessions.find(secret) is None
    assert await scene.store.sessions.redeem(secret, Purpose.SIGN_IN) is None
    assert not await scene.store.sessions.leads_to(secret, Purpose.SIGN_IN)


async def test_signing_out_everywhere_closes_all_and_voids_links(scene: Scene) -> None:
    sessions = scene.store.sessions
    opened = [await sessions.open(scene.account_id) for _ in range(3)]
    link = await sessions.make_link(scene.account_id, Purpose.SIGN_IN)
    neighbour = await sessions.open(await scene.account("neighbour"))
    await sessions.close_all(scene.account_id)
    assert [await sessions.find(each.secret) for each in opened] == [None] * 3
    assert not await sessions.leads_to(link, Purpose.SIGN_IN)
    assert await sessions.redeem(link, Purpose.SIGN_IN) is None
    assert await sessions.find(neighbour.secret) == neighbour.session


async def test_a_link_signs_in_once_whoever_redeems_it(scene: Scene) -> None:
    sessions = scene.store.sessions
    link = await sessions.make_link(scene.account_id, Purpose.SIGN_IN)
    tried = await asyncio.gather(*(sessions.redeem(link, Purpose.SIGN_IN) for _ in range(20)))
    [opened] = [each for each in tried if each is not None]
    assert opened.session.account_id == scene.account_id
    assert await sessions.find(opened.secret) == opened.session
    assert await sessions.count(scene.account_id) == 1
    assert await sessions.redeem(link, Purpose.SIGN_IN) is None


async def test_a_link_to_set_a_password_does_that_and_signs_others_out(scene: Scene) -> None:
    sessions = scene.store.sessions
    before = await sessions.open(scene.account_id)
    link, other = [
        await sessions.make_link(scene.account_id, Purpose.SET_PASSWORD) for _ in range(2)
    ]
    assert await sessions.redeem(link, Purpose.SIGN_IN) is None
    assert await sessions.leads_to(link, Purpose.SET_PASSWORD)
    opened = await sessions.redeem(link, Purpose.SET_PASSWORD, "hash")
    assert (await scene.store.users.of(scene.account_id)).password == "hash"
    assert await sessions.find(before.secret) is None
    assert await sessions.find(opened.secret) == opened.session
    assert await sessions.redeem(other, Purpose.SET_PASSWORD, "another") is None


async def test_links_and_sessions_end_by_themselves(scene: Scene) -> None:
    opened = await scene.store.sessions.open(scene.account_id)
    await scene.store.sessions.make_link(scene.account_id, Purpose.SIGN_IN)
    client, prefix = scene.redis, keys.shard(scene.shard)
    left = {
        kind: await client.pttl(key)
        for kind in ("session", "link")
        async for key in client.scan_iter(match=f"{prefix}{kind}:*")
    }
    assert SESSION_TTL_MS - 60_000 < left["session"] <= SESSION_TTL_MS
    assert LINK_TTL_MS - 60_000 < left["link"] <= LINK_TTL_MS
    assert await client.pttl(f"{scene.base}sessions") > 0
    assert opened.session.csrf != opened.secret
