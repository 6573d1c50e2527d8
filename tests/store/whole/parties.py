"""Accounts in one shard with something of all that an account can have, to be acted on again and
again: each act begins with the first state."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import NamedTuple

from scheduler import ids
from scheduler.lane_settings import LaneSettings
from scheduler.models import Answer, Idempotency, Invocation, Outcome, Plan, Request, Status
from scheduler.store import Store, keys
from scheduler.store.accounts.sign_in.sessions import Opened
from scheduler.store.lifecycle.end.end_rows import Ack
from tests.store.scene import COMPLETED, URL
from tests.support.plain import redis_of

CREDITS = 100
# Longer than any test lasts, so that held schedules stay held.
LEASE_MS = 3_600_000
FAR_MS = 2**41
ONCE = Idempotency("a key", "what was asked")
SAID = Outcome(Status.FAILED, 503, 30, "busy", answer=Answer("text/plain", b"busy " * 200))


class Party(NamedTuple):
    """An account. `due` is due and not claimed; `first` and `second` are held, for the first and
    the second time; `waiting` waits for its first attempt, `retried` for its second; `completed`,
    `dead` and `older` have ended, the latter two as failed."""

    account_id: str
    email: str
    member_id: str
    api_key: str
    key_id: str
    session: Opened
    link: str
    due: str
    waiting: str
    retried: str
    completed: str
    dead: str
    older: str
    first: Invocation
    second: Invocation

    @property
    def base(self) -> str:
        return keys.account(self.account_id)

    @property
    def held(self) -> list[Invocation]:
        """As they were claimed: calls change them."""
        return [copy.copy(self.first), copy.copy(self.second)]

    def owns(self, name: str) -> bool:
        """Whether a key is this account's: below its prefix, or one that leads to it."""
        session = self.session.session.sha256
        return name.startswith(self.base) or name in _leading(
            self.api_key, self.key_id, session, self.link
        )


@functools.cache
def _leading(api_key: str, key_id: str, session: str, link: str) -> frozenset[str]:
    """The keys that lead to the account that has these; tests ask a hundred thousand times."""
    shard = keys.shard(0)
    return frozenset(
        {
            shard + keys.API_KEY + ids.hash_secret(api_key),
            shard + keys.KEY_ID + key_id[7:],
            shard + keys.SESSION + session,
            shard + keys.LINK + ids.hash_secret(link),
        }
    )


async def party(store: Store, name: str, lane: str | None = None) -> Party:
    """Makes one, with all but what has ended in that lane, which has limits then. Nothing else may
    be due."""
    email = f"{name}@example.com"
    account = await store.accounts.create(name, credits=CREDITS, plan=Plan.FREE, email=email)
    account_id = account.account_id
    [member] = await store.members.all(account_id)
    await store.sessions.open(account_id, member.member_id, password="the hash of a password")
    api_key, value = await store.api_keys.create(account_id, "a key")
    await store.api_keys.admit(value)
    await store.signing.rotate(account_id, 60_000)
    if lane is not None:
        limits = LaneSettings(rate=100_000, per_ms=1000, burst=100_000, parallelism=1000)
        await store.lanes.put(account_id, lane, limits)
    ours = [Request(1 + n, "POST", URL, reference="ours", lane=lane) for n in range(6)]
    first, second, retried, completed, dead, older = [
        await store.schedules.create(account_id, each) for each in ours
    ]
    claimed = {each.schedule_id: each for each in await _claim(store)}
    ended = [Ack(claimed[completed], COMPLETED, 0), Ack(claimed[older], SAID, 0)]
    await store.ends.ack(0, [*ended, Ack(claimed[dead], SAID, 0)])
    again = Ack(claimed[second], SAID, 0, 1)
    await store.ends.ack(0, [again, Ack(claimed[retried], SAID, 0, FAR_MS)])
    [claimed[second]] = await _claim(store)
    wanted = Request(FAR_MS, "POST", URL, reference="waiting", lane=lane)
    waiting = await store.schedules.create(account_id, wanted)
    await store.canceller.cancel(
        account_id, await store.schedules.create(account_id, Request(FAR_MS, "POST", URL))
    )
    await store.schedules.create_all(account_id, [Request(FAR_MS, "POST", URL)], ONCE)
    await store.schedules.create_all(
        account_id, [Request(FAR_MS, "POST", URL)], Idempotency("another", "of another")
    )
    return Party(
        account_id,
        email,
        member.member_id,
        value,
        api_key.key_id,
        await store.sessions.open(account_id, member.member_id),
        await store.sessions.make_link(account_id),
        due="",
        waiting=waiting,
        retried=retried,
        completed=completed,
        dead=dead,
        older=older,
        first=claimed[first],
        second=claimed[second],
    )


async def parties(store: Store, names: Sequence[str], lane: str | None = None) -> list[Party]:
    """Makes several. Each has something due in the end, and settles what it weighs at its next
    create."""
    made = [await party(store, name, lane) for name in names]
    found = []
    for each in made:
        due = await store.schedules.create(each.account_id, Request(1, "POST", URL, lane=lane))
        await redis_of(store).hincrby(each.base + keys.ACCOUNT, "settled", -1)
        await redis_of(store).delete(each.base + keys.RATE)  # which is gone in a moment anyway
        found.append(each._replace(due=due))
    return found


async def _claim(store: Store) -> list[Invocation]:
    return (await store.claims.claim(0, lease_ms=LEASE_MS, most=128)).invocations
