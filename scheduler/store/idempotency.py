"""The note kept with an Idempotency-Key. Pure.

The scripts spell it so: a digest of the request (16 bytes), a verdict on each (1, none of
them 0), a 0, the first one's id (16), and a note. The first id leads to the others. Rows of a
large call are stored in parts: the verdict on those to come is LATER.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from scheduler import ids
from scheduler.errors import KeyReused
from scheduler.models import Idempotency
from scheduler.store.verdict import Verdict

ONCE_KEPT_MS = 24 * 3_600_000

_DIGEST_BYTES, _ID_BYTES = 16, 16
_PLACED_BYTES = 43
# How the verdicts begin where there are more bytes for each.
EACH = bytes((Verdict.EACH,))


class Placed(NamedTuple):
    """What came of one request that may mean a schedule which waits: that one, or a new one, and
    when it is due (ms); of SEVERAL, how many wait."""

    verdict: int
    schedule_id: str
    due_ms: int

    @property
    def is_stored(self) -> bool:
        return self.verdict in (Verdict.DONE, Verdict.EXISTING)


class Made(NamedTuple):
    """The ids of the schedules, with a `Verdict` on each; the note of the call that stored
    them. `repeated`: that was an earlier call with the same key. `placed`: of requests some of
    which may mean schedules that wait; then the ids are those that new ones had got."""

    schedule_ids: list[str]
    verdicts: bytes = b""
    note: bytes = b""
    repeated: bool = False
    placed: Sequence[Placed] = ()

    @property
    def is_unfinished(self) -> bool:
        """Whether later parts have not been stored yet."""
        return Verdict.LATER in self.verdicts

    @property
    def so_far(self) -> Made:
        """The same without those rows, which are the last ones. All ids are there."""
        done = len(self.verdicts) - self.verdicts.count(Verdict.LATER)
        return self._replace(verdicts=self.verdicts[:done], placed=self.placed[:done])

    @property
    def is_noted(self) -> bool:
        """Whether it is kept with its key: a credit was taken, or a schedule was met that waits."""
        return Verdict.DONE in self.verdicts or Verdict.EXISTING in self.verdicts

    def followed_by(self, part: Made) -> Made:
        verdicts = self.verdicts + part.verdicts
        return self._replace(verdicts=verdicts, placed=[*self.placed, *part.placed])


def kept_with(once: Idempotency | None, first: str, note: bytes) -> tuple[str, bytes]:
    """The name of a once-key, and its value without the verdicts."""
    if once is None:
        return "", b""
    return once_name(once), asked(once) + ids.to_bytes(first) + note


def once_name(once: Idempotency) -> str:
    return base64.urlsafe_b64encode(_digest(once.key)).rstrip(b"=").decode()


def asked(once: Idempotency) -> bytes:
    return _digest(once.fingerprint)


def kept(value: bytes, once: Idempotency) -> Made:
    """The value of a once-key. Raises KeyReused if something else was asked with it."""
    if value[:_DIGEST_BYTES] != asked(once):
        raise KeyReused
    return noted(value[_DIGEST_BYTES:])


def noted(value: bytes) -> Made:
    """The same, but for the digest."""
    verdicts, _, rest = value.partition(b"\0")
    verdicts, placed = verdicts_of(verdicts)
    first = int.from_bytes(rest[:_ID_BYTES], "big")
    made = ids.schedule_ids_from(first, len(verdicts))
    return Made(made, verdicts, rest[_ID_BYTES:], repeated=True, placed=placed)


def is_weighed(value: bytes) -> bool:
    """Whether the value of a once-key weighs in its account's quota: its call took a credit."""
    return len(value) > _DIGEST_BYTES and Verdict.DONE in noted(value[_DIGEST_BYTES:]).verdicts


def verdicts_of(verdicts: bytes) -> tuple[bytes, Sequence[Placed]]:
    """A script's verdicts, and what more it says of each: `EACH` and then 43 bytes for each, its
    verdict, the schedule, and 16 digits."""
    if verdicts[:1] != EACH:
        return verdicts, ()
    answers = [verdicts[n : n + _PLACED_BYTES] for n in range(1, len(verdicts), _PLACED_BYTES)]
    placed = [
        Placed(each[0], ids.schedule_id(each[1:27].decode()), int(each[27:])) for each in answers
    ]
    return bytes(each.verdict for each in placed), placed


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:_DIGEST_BYTES]
