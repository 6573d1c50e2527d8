"""Reads a claim's reply: the schedules of one account, of one of its lanes, or of its
callbacks."""

from __future__ import annotations

from typing import Any, NamedTuple

from scheduler import ids
from scheduler.errors import Unreadable
from scheduler.models import Invocation, Request
from scheduler.store.lifecycle.callback.reports import Lease, report_of
from scheduler.store.secrecy import Secrecy
from scheduler.store.stored import open_claimed, unpack_attempt

# The attempt of a first claim, and the attempt before it.
_FIRST = (1, b"")
_UNKNOWN = Request(0, "", "")


class UnreadClaim(NamedTuple):
    """A claimed schedule that cannot be read here: its invocation, without the request, and why.
    `key_id` is the missing key; empty if it is damaged or too new for this program."""

    invocation: Invocation
    why: str
    key_id: str


class Claim(NamedTuple):
    """A claim of a shard, by its reply; `now_us` is the server's time then. `unread` gets the
    schedules that cannot be read."""

    shard: int
    token: str
    until_s: float
    now_us: int
    secrecy: Secrecy
    unread: list[UnreadClaim]

    def invocations(self, part: list[Any]) -> list[Invocation]:
        """Those of a part of the reply."""
        shard, token, until_s, now_us, secrecy, unread = self
        queue, rows, later, *slots = part
        account, _, lane = queue.decode().partition("/")
        if account.endswith("#"):
            return self._reports(ids.account_id(shard, account[:-1]), rows, later, slots[0])
        account_id = ids.account_id(shard, account)
        attempts = {later[n]: (int(later[n + 1]), later[n + 2]) for n in range(0, len(later), 3)}
        slots_us, slack_us, bounded = slots or ((), 0, 0)
        found = []
        for place in range(0, len(rows), 2):
            schedule_id, packed = "sch_" + rows[place].decode(), rows[place + 1]
            attempt, before = attempts.get(place // 2, _FIRST)
            try:
                request = open_claimed(packed, secrecy)
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
                invocation.bounded = bounded == 1
            if slots_us:
                _set_slot(invocation, slots_us[place // 2], slack_us, now_us)
            found.append(invocation)
        return found

    def _reports(
        self, account_id: str, rows: list[bytes], url: bytes, slots_us: list[int]
    ) -> list[Invocation]:
        """The invocations that report ends; `url` is the account's, as it is stored (b"": none),
        and `slots_us` is empty if they may start at once."""
        lease = Lease(self.shard, account_id, self.token, self.until_s)
        found = []
        for place in range(0, len(rows), 5):
            schedule_id, row = "sch_" + rows[place].decode(), rows[place + 1 : place + 5]
            try:
                own = self.secrecy.open(url).decode()
                invocation = report_of(lease, schedule_id, row, own, self.secrecy)
                if slots_us:
                    invocation.slot_us = slots_us[place // 5]
                found.append(invocation)
            except Unreadable as error:
                unknown = (schedule_id, self.token, 1, self.until_s, _UNKNOWN, 0, len(row[0]))
                invocation = Invocation(self.shard, account_id, *unknown, is_callback=True)
                self.unread.append(UnreadClaim(invocation, str(error), error.key_id))
        return found


def _set_slot(invocation: Invocation, slot_us: int, slack_us: int, now_us: int) -> None:
    invocation.slot_us = slot_us
    # One that expires before it may start came without a slot of its own, to be ended.
    expires_at_ms = invocation.request.expires_at_ms
    ends = expires_at_ms is not None and slot_us > expires_at_ms * 1000
    if slack_us and not ends:
        # A slot that has passed counts from the claim on. A quarter of the slack is left for clocks
        # that differ, and for the way from the worker's decision to the target.
        invocation.slack_us = slack_us * 3 // 4 + max(0, now_us - slot_us)
