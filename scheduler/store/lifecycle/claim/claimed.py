"""Reads a claim's reply: the schedules of one account, of one of its lanes, or of its
callbacks."""

from __future__ import annotations

from typing import Any, NamedTuple

from scheduler import ids
from scheduler.errors import Unreadable
from scheduler.models import Invocation, Request
from scheduler.store.lifecycle.callback.reports import Lease, report_of
from scheduler.store.secrecy import Secrecy
from scheduler.store.stored import open_request, unpack_attempt

# The attempt of a first claim, and the attempt before it.
_FIRST = (1, b"")
_UNKNOWN = Request(0, "", "")


class UnreadClaim(NamedTuple):
    """A claimed schedule that cannot be read here: its invocation, without the request, and why.
    `key_id` is the missing key; empty if it is damaged or too new for this program."""

    invocation: Invocation
    why: str
    key_id: str


def invocations_of(
    shard: int,
    token: str,
    until_s: float,
    now_us: int,
    part: list[Any],
    secrecy: Secrecy,
    unread: list[UnreadClaim],
) -> list[Invocation]:
    """The invocations of a part of the reply; those that cannot be read go to `unread`. `now_us`:
    the claim's."""
    queue, rows, later, *slots = part
    account, _, lane = queue.decode().partition("/")
    if account.endswith("#"):
        lease = Lease(shard, ids.account_id(shard, account[:-1]), token, until_s)
        return _reports(lease, rows, later, slots[0], secrecy, unread)
    account_id = ids.account_id(shard, account)
    attempts = {later[n]: (int(later[n + 1]), later[n + 2]) for n in range(0, len(later), 3)}
    found = []
    for place in range(0, len(rows), 2):
        schedule_id, packed = "sch_" + rows[place].decode(), rows[place + 1]
        attempt, before = attempts.get(place // 2, _FIRST)
        try:
            request = open_request(packed, secrecy)
            retry = unpack_attempt(before) if before else None
        except Unreadable as error:
            unknown = (schedule_id, token, attempt, until_s, _UNKNOWN, 0, len(packed))
            invocation = Invocation(shard, account_id, *unknown, lane=lane or None)
            unread.append(UnreadClaim(invocation, str(error), error.key_id))
            continue
        due_ms = retry.due_at_ms if retry else request.trigger_at_ms
        what = (schedule_id, token, attempt, until_s, request, due_ms, len(packed), retry)
        invocation = Invocation(shard, account_id, *what, lane=lane or None)
        if slots:
            _set_slot(invocation, now_us, place // 2, *slots)
        found.append(invocation)
    return found


def _reports(
    lease: Lease,
    rows: list[bytes],
    url: bytes,
    slots_us: list[int],
    secrecy: Secrecy,
    unread: list[UnreadClaim],
) -> list[Invocation]:
    """The invocations that report ends; `url` is the account's, as it is stored (b"": none), and
    `slots_us` is empty if they may start at once."""
    found = []
    for place in range(0, len(rows), 4):
        schedule_id, row = "sch_" + rows[place].decode(), rows[place + 1 : place + 4]
        try:
            own = secrecy.open(url).decode()
            invocation = report_of(lease, schedule_id, row, own, secrecy)
            if slots_us:
                invocation.slot_us = slots_us[place // 4]
            found.append(invocation)
        except Unreadable as error:
            shard, account_id, token, until_s = lease
            unknown = (schedule_id, token, 1, until_s, _UNKNOWN, 0, len(row[0]))
            invocation = Invocation(shard, account_id, *unknown, is_callback=True)
            unread.append(UnreadClaim(invocation, str(error), error.key_id))
    return found


def _set_slot(
    invocation: Invocation,
    now_us: int,
    place: int,
    slots: list[int],
    slack_us: int,
    bounded: int,
) -> None:
    invocation.bounded = bounded == 1
    if not slots:
        return
    slot_us, expires_at_ms = slots[place], invocation.request.expires_at_ms
    invocation.slot_us = slot_us
    # One that expires before it may start came without a slot of its own, to be ended.
    ends = expires_at_ms is not None and slot_us > expires_at_ms * 1000
    if slack_us and not ends:
        # A slot that has passed counts from the claim on. A quarter of the slack is left for clocks
        # that differ, and for the way from the worker's decision to the target.
        invocation.slack_us = slack_us * 3 // 4 + max(0, now_us - slot_us)
