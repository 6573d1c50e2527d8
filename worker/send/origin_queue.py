"""The queue of fires that wait for a connection to one origin."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worker.send.fire import Fire

# How long an account keeps its only connection while others have none: a turn costs a handshake.
TURN_S = 0.25
# How long a fire waits for a connection of its own account to come free. Then another account's is
# closed for it: a shortage is mostly over sooner, and a new connection costs a handshake.
PATIENCE_S = 0.05


_ByLimit = dict[int, deque["Fire"]]


class _AccountQueue:
    """An account's part of a queue: first in, first out."""

    def __init__(self) -> None:
        # By time limit (ms), of which there are at most 30; no deque is empty.
        self._fresh: _ByLimit = {}
        self._any: _ByLimit = {}

    def __bool__(self) -> bool:
        return bool(self._fresh or self._any)

    def add(self, entry: Fire) -> None:
        self._alike(entry).append(entry)

    def put_back(self, entry: Fire) -> None:
        self._alike(entry).appendleft(entry)

    def first(self) -> Fire:
        firsts = [kind[0] for kinds in (self._fresh, self._any) for kind in kinds.values()]
        return min(firsts, key=_started_s)

    def pop(self) -> Fire:
        if not self._fresh or not self._any:
            return _pop(self._fresh or self._any)
        return _pop(self._fresh if self.first().needs_fresh else self._any)

    def pop_to_reuse(self) -> Fire | None:
        return _pop(self._any) if self._any else None

    def pop_late(self, now_s: float, hope_s: float) -> list[Fire]:
        gone: list[Fire] = []
        for kinds in (self._fresh, self._any):
            for limit_ms, kind in list(kinds.items()):
                since_s = now_s - limit_ms / 1000
                while kind and max(kind[0].started_s, hope_s) <= since_s:
                    gone.append(kind.popleft())
                if not kind:
                    del kinds[limit_ms]
        return gone

    def _alike(self, entry: Fire) -> deque[Fire]:
        kinds = self._fresh if entry.needs_fresh else self._any
        kind = kinds.get(entry.limit_ms)
        if kind is None:
            kind = kinds[entry.limit_ms] = deque()
        return kind


def _started_s(entry: Fire) -> float:
    return entry.started_s


def _pop(kinds: _ByLimit) -> Fire:
    """The oldest."""
    if len(kinds) == 1:  # as nearly always
        [kind] = kinds.values()
    else:
        kind = min(kinds.values(), key=lambda kind: kind[0].started_s)
    entry = kind.popleft()
    if not kind:
        del kinds[entry.limit_ms]
    return entry


class OriginQueue:
    """One origin's queue, and how many connections it has. `again` left the queue before."""

    def __init__(self) -> None:
        self.opening = 0
        self.open = 0
        self.leaving = 0  # of the open ones: closed to make room, and not gone yet
        self.hope_s = -math.inf  # when a connection was made, or was not for want of a port
        self.is_held = False
        self.again: deque[Fire] = deque()
        self._new_count = 0
        self._parts: dict[str, _AccountQueue] = {}
        self.connections: Counter[str] = Counter()  # by account, those that are being opened too
        # The queued accounts by their number of connections; among equals, round-robin.
        self._by_count: dict[int, OrderedDict[str, None]] = {}

    def __len__(self) -> int:
        return len(self.again) + self._new_count

    def add(self, entry: Fire) -> None:
        if entry.resent:
            self.again.append(entry)
        else:
            self._new_count += 1
            self._part(entry.account_id).add(entry)

    def put_back(self, entry: Fire) -> None:
        """Ahead of its account's others; for one that is not `resent`."""
        self._new_count += 1
        self._part(entry.account_id).put_back(entry)

    def pop(self) -> Fire:
        if self.again:
            return self.again.popleft()
        self._new_count -= 1
        account_id = self._next_account()
        part = self._parts[account_id]
        entry = part.pop()
        self._leave(account_id)
        if part:
            self._join(account_id)
        else:
            del self._parts[account_id]
        return entry

    def pop_to_reuse(self, account_id: str) -> Fire | None:
        """The account's next one that may be given a used connection; None if there is none."""
        part = self._parts.get(account_id)
        if part is None or (entry := part.pop_to_reuse()) is None:
            return None
        self._new_count -= 1
        self._drop_empty(account_id, part)
        return entry

    def pop_late(self, now_s: float) -> list[Fire]:
        """Removes and returns the entries, but for `again`, whose whole time limit has passed since
        they came, and since there was hope; all, where the moment is infinite."""
        gone: list[Fire] = []
        for account_id, part in list(self._parts.items()):
            gone += part.pop_late(now_s, self.hope_s)
            self._drop_empty(account_id, part)
        self._new_count -= len(gone)
        return gone

    def is_urgent(self, now_s: float, has_place: bool) -> bool:
        """Whether the next in the queue is to have another account's place, and not to wait for a
        connection of its own account. `has_place`: one is about to be free."""
        if self.again:
            return True
        next_id = self._next_account()
        first = self._parts[next_id].first()
        if first.needs_fresh or now_s - first.started_s >= PATIENCE_S:
            return True
        return not (has_place or self.connections[next_id])

    def is_due(self, account_id: str, opened_s: float, now_s: float) -> bool:
        """Whether a connection that came free, and was made at that time, is to be closed at once
        so that the next entry gets its place, although its own account is queued as well."""
        part = self._parts.get(account_id)
        if part is None:
            return False
        if self.again or part.first().needs_fresh:
            return True
        ours, theirs = self.connections[account_id], self.connections[self._next_account()]
        is_more = ours > theirs + 1 or (ours > theirs == 0 and now_s - opened_s >= TURN_S)
        return is_more and self.is_urgent(now_s, has_place=False)

    def count(self, account_id: str, more: int) -> None:
        """The account has so many more connections, opening ones included."""
        waits = account_id in self._parts
        if waits:
            self._leave(account_id)
        self.connections[account_id] += more
        if not self.connections[account_id]:
            del self.connections[account_id]
        if waits:
            self._join(account_id)

    def _part(self, account_id: str) -> _AccountQueue:
        part = self._parts.get(account_id)
        if part is None:
            part = self._parts[account_id] = _AccountQueue()
            self._join(account_id)
        return part

    def _next_account(self) -> str:
        return next(iter(self._by_count[min(self._by_count)]))

    def _join(self, account_id: str) -> None:
        self._by_count.setdefault(self.connections[account_id], OrderedDict())[account_id] = None

    def _leave(self, account_id: str) -> None:
        number = self.connections[account_id]
        alike = self._by_count[number]
        del alike[account_id]
        if not alike:
            del self._by_count[number]

    def _drop_empty(self, account_id: str, part: _AccountQueue) -> None:
        if not part:
            del self._parts[account_id]
            self._leave(account_id)
