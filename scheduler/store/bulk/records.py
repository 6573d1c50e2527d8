"""A bulk action as it is stored: what was asked, how far it is, and how its replays ended. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from scheduler import ids
from scheduler.errors import Unreadable
from scheduler.models import Status

# How many schedules one step acts on: some milliseconds of the store at most.
STEP = 200
_ID_BYTES, _MOMENT_BYTES = 16, 6
_ROW_BYTES = _ID_BYTES + _MOMENT_BYTES
_MOST_REASONS, _LONGEST_REASON = 10, 200
_OTHER_REASONS = "other reasons"


class Kind(StrEnum):
    CANCEL = "cancel"
    AGAIN = "again"
    MOVE = "move"
    LANE = "lane"
    CALLBACK = "callback"

    @property
    def is_of_waiting(self) -> bool:
        return self in (Kind.CANCEL, Kind.MOVE, Kind.LANE)


class State(StrEnum):
    """STOPPING: its owner stopped it, and the step that was begun is not done yet. FAILED: it could
    not go on."""

    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DONE = "done"
    FAILED = "failed"

    @property
    def is_under_way(self) -> bool:
        return self in (State.RUNNING, State.STOPPING)


class Asked(msgspec.Struct, array_like=True, frozen=True):
    """`schedules` are those to act on, 16 bytes each; without them those that `query` finds, the
    values of a LogQuery by their names, of what there was by `until_ms`. `pairs` are the filter's
    parameters in an address. MOVE: by `shift_ms`, or to `to_ms`. LANE: to `lane`; None: to none."""

    kind: Kind
    by: str
    at_ms: int
    schedules: bytes | None
    query: dict[str, Any]
    until_ms: int
    pairs: dict[str, str]
    shift_ms: int | None = None
    to_ms: int | None = None
    lane: str | None = None

    @property
    def number(self) -> int | None:
        """How many were chosen; None where they are still to be found."""
        return None if self.schedules is None else len(self.schedules) // _ID_BYTES


class Progress(msgspec.Struct, array_like=True, frozen=True):
    """`plan`: those that the step under way acts on, each with its triggerAt. `taken` of the chosen
    ones were planned so far; of a search, it goes on at `cursor`, and has come as far as
    `reached_ms`. `done` and `refused`, by reason, count those that were acted on; `ended` the
    replays by how they ended, of `made`, in so many `groups`. Those before group `open_from` have
    all ended, and `look` is the next one to look at. `waits`: why it does not go on right now."""

    plan: bytes = b""
    taken: int = 0
    cursor: str | None = None
    reached_ms: int | None = None
    is_planned: bool = False
    done: int = 0
    refused: dict[str, int] = {}
    why: str = ""
    waits: str = ""
    made: int = 0
    made_at_ms: int = 0
    groups: int = 0
    open_from: int = 0
    look: int = 0
    ended: tuple[int, int, int] = (0, 0, 0)

    @property
    def open(self) -> int:
        """Replays that had not ended when they were looked at."""
        return self.made - sum(self.ended)

    def acted(self, done: int, refused: dict[str, int]) -> Progress:
        """With what came of the planned ones."""
        reasons = dict(self.refused)
        for reason, count in refused.items():
            name = reason[:_LONGEST_REASON]
            if name not in reasons and len(reasons) >= _MOST_REASONS:
                name = _OTHER_REASONS
            reasons[name] = reasons.get(name, 0) + count
        return replace(self, plan=b"", done=self.done + done, refused=reasons, waits="")


class Group(msgspec.Struct, array_like=True, frozen=True):
    """Replays that were made together: the first id (16 bytes), a byte for each that says how far
    behind the first it is, and how many completed, failed, and were cancelled or forgotten."""

    first: bytes
    places: bytes
    ended: tuple[int, int, int] = (0, 0, 0)

    @property
    def is_open(self) -> bool:
        return sum(self.ended) < len(self.places)

    @property
    def schedule_ids(self) -> list[str]:
        first = int.from_bytes(self.first, "big")
        return [ids.from_bytes((first + n).to_bytes(_ID_BYTES, "big")) for n in self.places]

    def after_look(self, statuses: Sequence[Status | None]) -> Group:
        """With how each stands; None: it is kept no more."""
        completed = sum(each is Status.COMPLETED for each in statuses)
        failed = sum(each is Status.FAILED for each in statuses)
        waiting = sum(each is Status.SCHEDULED for each in statuses)
        return replace(
            self, ended=(completed, failed, len(statuses) - completed - failed - waiting)
        )


class Planned(NamedTuple):
    schedule_id: str
    trigger_at_ms: int


class Bulk(NamedTuple):
    """`is_closed`: its owner closed it on the pages. `is_due`: it has something left to do."""

    action_id: str
    asked: Asked
    progress: Progress
    state: State
    version: int
    is_closed: bool = False
    is_due: bool = True


# Why the next occurrence of a recurring schedule is left out.
OF_A_RULE = "belongs to a recurring schedule"
_pack = msgspec.msgpack.Encoder().encode
_asked = msgspec.msgpack.Decoder(Asked).decode
_progress = msgspec.msgpack.Decoder(Progress).decode
_group = msgspec.msgpack.Decoder(Group).decode


def packed(record: Asked | Progress | Group) -> bytes:
    return _pack(record)


def bulk_of(action_id: str, row: Sequence[bytes | None]) -> Bulk:
    """By the fields `r`, `p`, `s`, `v`, and `c` and `n` if they were read. Raises Unreadable."""
    asked, progress, state, version, *rest = row
    closed, turn = (rest[0] is not None, rest[1] is not None) if rest else (False, True)
    try:
        return Bulk(
            action_id,
            _asked(asked or b""),
            _progress(progress or b""),
            State((state or b"").decode()),
            int(version or b""),
            closed,
            turn,
        )
    except (msgspec.MsgspecError, ValueError) as error:
        raise Unreadable(f"The bulk action {action_id} is damaged") from error


def group_of(stored: bytes) -> Group:
    """Raises Unreadable."""
    try:
        return _group(stored)
    except msgspec.MsgspecError as error:
        raise Unreadable("A group of replays is damaged") from error


def groups_of(made: Sequence[str]) -> list[Group]:
    """New ids that follow each other, in groups."""
    groups = list[Group]()
    numbers = [int.from_bytes(ids.to_bytes(each), "big") for each in made]
    first, places = 0, bytearray()
    for number in numbers:
        if places and not 0 <= number - first < STEP:
            groups.append(Group(first.to_bytes(_ID_BYTES, "big"), bytes(places)))
            places = bytearray()
        if not places:
            first = number
        places.append(number - first)
    if places:
        groups.append(Group(first.to_bytes(_ID_BYTES, "big"), bytes(places)))
    return groups


def packed_ids(schedule_ids: Sequence[str]) -> bytes:
    return b"".join(map(ids.to_bytes, schedule_ids))


def chosen(asked: Asked, taken: int) -> list[str]:
    """The next of the chosen schedules, at most a step of them."""
    some = (asked.schedules or b"")[taken * _ID_BYTES :][: STEP * _ID_BYTES]
    return [ids.from_bytes(some[n : n + _ID_BYTES]) for n in range(0, len(some), _ID_BYTES)]


def plan_of(rows: Sequence[Planned]) -> bytes:
    return b"".join(
        ids.to_bytes(each.schedule_id) + each.trigger_at_ms.to_bytes(_MOMENT_BYTES, "big")
        for each in rows
    )


def planned(plan: bytes) -> Iterator[Planned]:
    for n in range(0, len(plan), _ROW_BYTES):
        row = plan[n : n + _ROW_BYTES]
        moment_ms = int.from_bytes(row[_ID_BYTES:], "big")
        yield Planned(ids.from_bytes(row[:_ID_BYTES]), moment_ms)
