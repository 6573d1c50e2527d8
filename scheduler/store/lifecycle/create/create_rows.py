"""What the script that creates gets for the schedules of a call. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import add, attrgetter
from typing import Any, NamedTuple, cast

import msgspec

from scheduler import ids
from scheduler.models import Idempotency, Packed, Request, Upsert
from scheduler.store import stored
from scheduler.store.heads import names_of
from scheduler.store.idempotency import kept_with
from scheduler.store.lifecycle.create.on_existing import means_existing, row_of
from scheduler.store.lifecycle.create.replays import CreatePlan
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import Argument

# Rows that cost the script more count as several: those that are judged one by one, as upserts and
# replays are, and long requests.
_ROWS_LIKE_ONE_JUDGED, _BYTES_LIKE_ONE_MORE = 4, 1024
# Of a schedule without heads, beside its packed request; `weight.inc.lua` has it too.
_SCHEDULE_BYTES = 256

# So many are packed at once.
_FEW = 8

# Kinds of groups, and how many values a named row has; one of the last three has one more.
_PLAIN, _ALONE, _NEW, _WIDTH = "plain", "alone", "new", 6
_REPLAY, _REPLAY_AGAIN, _UPSERT = "replay", "replay-again", "upsert"

_names_of = attrgetter("lane", "reference", "recurring")
_encode, _pack = msgspec.json.Encoder().encode, msgspec.msgpack.Encoder().encode
_due, _request = attrgetter("trigger_at_ms"), attrgetter("request")
_lane, _names_bytes = attrgetter("lane"), attrgetter("names_bytes")


class CreateGroup(NamedTuple):
    """The arguments for all of a call, and their weight. `alone`: they are the plain row of a
    request by itself, and this is the SHA-256 of its API key."""

    arguments: Sequence[Argument]
    weight: int
    alone: str = ""


class CreateRow(NamedTuple):
    """A row of the script; `last` is of a replay, or of what may mean one that waits."""

    schedule: str
    trigger_at_ms: int
    packed: bytes
    lane: str
    reference: str
    names_bytes: int
    last: str


class PlainRows(NamedTuple):
    """The rows of a call whose schedules have no names, by columns. So a row takes one argument of
    the script instead of three."""

    schedules: Sequence[str]
    due_ms: Sequence[int]
    packed: Sequence[bytes]


# Either all rows of a call are plain, or none is.
Rows = list[CreateRow] | PlainRows


class Part(NamedTuple):
    """Rows of a large call, from `before` up to `until`, that go to the store by themselves.
    `earlier`: the verdicts on those before it, if none of these is noted."""

    before: int
    until: int
    earlier: bytes = b""


def plain_rows_of(new: Sequence[str], what: CreatePlan, secrecy: Secrecy) -> PlainRows | None:
    """One for each new id, if none of the requests is a replay or has a name, and nearly all lie
    packed in clear. Most batches are so: `rows_of` takes four times as long."""
    kinds = [*map(type, what.requests)]
    if what.originals or secrecy.head or Upsert in kinds or kinds.count(Request) > _FEW:
        return None
    some = cast("Sequence[Request | Packed]", what.requests)
    if {*map(_names_of, some)} != {(None, None, None)}:
        return None
    packed = [
        each.request if type(each) is Packed else stored.pack_request(cast("Request", each))
        for each in some
    ]
    return PlainRows([*map(ids.local, new)], [*map(_due, some)], packed)


def rows_of(
    new: Sequence[str],
    what: CreatePlan,
    created_ms: int,
    secrecy: Secrecy,
    bases: Sequence[str] = (),
) -> Iterator[CreateRow]:
    """One for each new id. `bases` are those of `row_of`."""
    for place, (schedule_id, wanted) in enumerate(zip(new, what.requests, strict=True)):
        if type(wanted) is Packed and not (wanted.lane or wanted.reference or wanted.recurring):
            # As below, in two thirds of the time: nearly all items of batches are so. No replay is.
            packed = secrecy.seal(wanted.request)
            yield CreateRow(ids.local(schedule_id), wanted.trigger_at_ms, packed, "", "", 0, "")
            continue
        if isinstance(wanted, Upsert):
            each, last = row_of(wanted, created_ms, *bases[place : place + 1])
        else:
            each, last = wanted, what.originals[place] if what.originals else ""
        packed = stored.seal_request(each, secrecy)
        names = names_of(each.lane, each.reference)
        yield CreateRow(ids.local(schedule_id), each.trigger_at_ms, packed, *names, last)


def row_weights(what: CreatePlan, rows: Rows) -> list[int]:
    """What each row counts of the most that one script stores."""
    of_each = not isinstance(rows, PlainRows) and _kind_of(what, rows) not in (_PLAIN, _NEW)
    least = _ROWS_LIKE_ONE_JUDGED if of_each else 1
    return [least + len(each) // _BYTES_LIKE_ONE_MORE for each in _columns_of(rows).packed]


def part_from(before: int, weights: Sequence[int], most: int) -> Part:
    """The part that begins there and weighs at most `most`, or is one row."""
    until, left = before, most
    while until < len(weights):
        left -= weights[until]
        if left < 0 and until > before:
            break
        until += 1
    return Part(before, until)


def group_of(
    payer: tuple[str, str],
    what: CreatePlan,
    once: Idempotency | None,
    first: str,
    rows: Rows,
    part: Part | None = None,
) -> CreateGroup:
    """`payer`: an account's local name and "", or "" and an API key's SHA-256. `first`: the first
    id."""
    sent = _cut(rows, part) if part else rows
    kind, weight = _kind_of(what, sent), sum(row_weights(what, sent))
    of_each = kind not in (_PLAIN, _NEW)
    said = _packed(part, rows, of_each=of_each) if part else ""
    arguments: list[Argument] = [*payer, *kept_with(once, first, what.note), said, kind]
    if kind == _PLAIN:
        schedules, due_ms, packed = _columns_of(sent)
        arguments += (len(packed), _pack((schedules, due_ms)), *packed)
    else:
        named = cast("list[CreateRow]", sent)
        arguments.append(len(named))
        for row in named:
            arguments += row if of_each else row[:-1]
    return CreateGroup(arguments, weight)


def _kind_of(what: CreatePlan, rows: Rows) -> str:
    requests, _, originals, again = what
    if isinstance(rows, PlainRows):
        return _PLAIN
    if type(requests[0]) is Upsert or (len(requests) > 1 and means_existing(requests)):
        return _UPSERT
    if originals:
        return _REPLAY_AGAIN if again else _REPLAY
    return _NEW if any(map(_names_bytes, rows)) else _PLAIN


def alone_of(sha256: str, schedule_id: str, wanted: Request | Packed, packed: bytes) -> CreateGroup:
    """One request without lane and reference, of an API key; `packed`: as it is stored."""
    row = ids.local(schedule_id), wanted.trigger_at_ms, packed
    return CreateGroup(row, 1 + len(packed) // _BYTES_LIKE_ONE_MORE, sha256)


def together(groups: Sequence[CreateGroup]) -> tuple[list[Argument], list[list[int]]]:
    """The arguments for groups, of which those that are `alone` go as one for each API key, and
    which of the groups each of these stands for."""
    arguments: list[Argument] = []
    places: list[list[int]] = []
    alone: dict[str, list[int]] = {}
    for place, group in enumerate(groups):
        if group.alone:
            alone.setdefault(group.alone, []).append(place)
        else:
            arguments += group.arguments
            places.append([place])
    for sha256, those in alone.items():
        arguments += ("", sha256, "", "", "", _ALONE, len(those))
        for place in those:
            arguments += groups[place].arguments
        places.append(those)
    return arguments, places


def replies_of(
    groups: Sequence[CreateGroup], places: Sequence[Sequence[int]], replies: Sequence[Any]
) -> list[Any]:
    """The reply to each of the groups that went `together`."""
    found: list[Any] = [b""] * len(groups)
    for those, reply in zip(places, replies, strict=True):
        each = reply if groups[those[0]].alone else (reply,)
        for place, one in zip(those, each, strict=True):
            found[place] = one
    return found


def _packed(part: Part, rows: Rows, *, of_each: bool) -> bytes:
    """As `part.inc.lua` has it; nothing for a call that is one part. `of_each`: there is a verdict
    on each, so that the first part is not judged for all."""
    count = len(rows.packed) if isinstance(rows, PlainRows) else len(rows)
    if part.before == 0 and part.until == count:
        return b""
    said: dict[str, object] = {"before": part.before, "of": count}
    if part.earlier:
        said["earlier"] = part.earlier.decode("ascii")
    if part.before == 0 and not of_each:
        later = _cut(rows, Part(part.until, count))
        named = [] if isinstance(later, PlainRows) else later
        sizes = [_SCHEDULE_BYTES + len(each) for each in _columns_of(later).packed]
        said["weights"] = [*map(add, sizes, map(_names_bytes, named))] if named else sizes
        said["lanes"] = list({*map(_lane, named)} - {""})
    return _encode(said)


def _columns_of(rows: Rows) -> PlainRows:
    """What both kinds of rows have."""
    return rows if isinstance(rows, PlainRows) else PlainRows(*list(zip(*rows, strict=True))[:3])


def _cut(rows: Rows, part: Part) -> Rows:
    some = slice(part.before, part.until)
    if isinstance(rows, PlainRows):
        return PlainRows(rows.schedules[some], rows.due_ms[some], rows.packed[some])
    return rows[some]
