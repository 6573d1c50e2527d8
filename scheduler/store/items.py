"""What goes into the scripts and what comes out of them, by the names of their headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class CreateItem(NamedTuple):
    schedule: str
    trigger_at_ms: int
    request: bytes


class Once(NamedTuple):
    """Lets a group of schedules be stored once. `key` and `fingerprint` are digests; `note` is
    told to those who ask again."""

    key: str
    fingerprint: str
    note: bytes


class CreateGroup(NamedTuple):
    """Schedules of one account that were asked for together."""

    account: str
    items: Sequence[CreateItem]
    once: Once | None = None


class CreateReply(NamedTuple):
    """What became of a group; the script's header says what `code` means."""

    code: int
    stored: int = 0
    note: bytes = b""


class Created(NamedTuple):
    now_us: int
    replies: list[CreateReply]


class HeldItem(NamedTuple):
    """A schedule that a worker holds; `number` is the attempt, where the script wants one."""

    account: str
    schedule: str
    token: str
    number: int


class ReleaseItem(NamedTuple):
    account: str
    schedule: str
    token: str
    trigger_at_ms: int
    attempts_before: int


class LogLine(NamedTuple):
    """A log entry as it is stored, and where the index of its URL keeps its id."""

    entry: bytes
    bucket: str
    digest: bytes


class AckItem(NamedTuple):
    account: str
    schedule: str
    token: str
    status: str
    outcome: bytes
    line: LogLine
    response_time_ms: int
    lateness_bucket: int


class Claimed(NamedTuple):
    """What a claim brought: the server's time, when to look next (None: nothing waits), and five
    values for each schedule: account, schedule, created (ms), attempt, packed request."""

    now_us: int
    next_look_ms: float | None
    values: list[bytes]


class Stand(NamedTuple):
    """How a schedule stands: is it there, its status and token ("": none), and where it is."""

    there: bool
    status: str
    token: str
    waiting: bool
    held: bool


class Head(NamedTuple):
    """When an account is to be looked at, and when its first schedule is due (None: nothing)."""

    now_us: int
    look_at_ms: float | None
    first_due_ms: float | None


class Codes(NamedTuple):
    """The server's time, and a code for each item; the script's header says what they mean."""

    now_us: int
    codes: list[int]


class Keeping(NamedTuple):
    """How long and how much is kept."""

    schedule_ms: int
    log_ms: int
    log_entries: int
    seconds_ms: int
