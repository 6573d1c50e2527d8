"""What the script that creates gets for the schedules of a call. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from scheduler import ids
from scheduler.models import Idempotency, Packed, Request, Upsert
from scheduler.store import stored
from scheduler.store.heads import heads_weight
from scheduler.store.idempotency import kept_with
from scheduler.store.lifecycle.create.on_existing import means_existing, row_of
from scheduler.store.lifecycle.create.replays import CreatePlan
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import Argument

# The arguments for all of a call, and their weight.
CreateGroup = tuple[list[Argument], int]
# Rows that cost the script more count as several: an upsert, and a long request.
_UPSERT_ROWS, _BYTES_LIKE_ONE_MORE = 4, 1024
# Of a schedule without heads, beside its packed request; `weight.inc.lua` has it too.
_SCHEDULE_BYTES = 256

_encode = msgspec.json.Encoder().encode


class CreateRow(NamedTuple):
    """Of a schedule, of which a new one has only the first three; and what its heads weigh."""

    arguments: tuple[str, int, bytes, str]
    heads_bytes: int

    @property
    def weight_bytes(self) -> int:
        return _SCHEDULE_BYTES + self.heads_bytes + len(self.arguments[2])


class Part(NamedTuple):
    """Rows of a large call, from `before` up to `until`, that go to the store by themselves.
    `earlier`: the verdicts on those before it, if none of these is noted."""

    before: int
    until: int
    earlier: bytes = b""


def rows_of(
    new: Sequence[str],
    what: CreatePlan,
    created_ms: int,
    secrecy: Secrecy,
    bases: Sequence[str] = (),
) -> Iterator[CreateRow]:
    """One for each new id. `bases` are those of `row_of`."""
    for place, (schedule_id, wanted) in enumerate(zip(new, what.requests, strict=True)):
        if isinstance(wanted, Upsert):
            each, last = row_of(wanted, created_ms, *bases[place : place + 1])
        else:
            each, last = wanted, what.originals[place] if what.originals else ""
        packed = stored.seal_request(each, secrecy)
        arguments = ids.local(schedule_id), each.trigger_at_ms, packed, last
        yield CreateRow(arguments, heads_weight(each.lane, each.reference))


def part_from(before: int, what: CreatePlan, rows: Sequence[CreateRow], most: int) -> Part:
    """The part that begins there and weighs at most `most`, or is one row. Replays come whole."""
    if what.originals:
        return Part(0, len(rows))
    each = _UPSERT_ROWS if means_existing(what.requests) else 1
    until, left = before, most
    while until < len(rows):
        left -= each + len(rows[until].arguments[2]) // _BYTES_LIKE_ONE_MORE
        if left < 0 and until > before:
            break
        until += 1
    return Part(before, until)


def group_of(
    payer: str,
    what: CreatePlan,
    once: Idempotency | None,
    first: str,
    rows: Sequence[CreateRow],
    part: Part | None = None,
) -> CreateGroup:
    """`payer`: an account's local name, or an API key's "=" and SHA-256. `first`: the first id."""
    requests, note, originals, again = what
    onto = type(requests[0]) is Upsert or (len(requests) > 1 and means_existing(requests))
    arguments: list[Argument] = [payer, *kept_with(once, first, note)]
    arguments.append(_packed(part, requests, rows, onto=onto) if part else "")
    sent = rows[part.before : part.until] if part else rows
    if originals or onto:
        arguments += (-len(sent), int(again) if originals else "")
    else:
        # The first part is judged for all, by the lanes of all.
        is_headed = any(row.heads_bytes for row in rows)
        arguments += (-len(sent), "+") if is_headed else (len(sent),)
    width = 4 if originals or onto else 3
    weight = (_UPSERT_ROWS if onto else 1) * len(sent) + (len(sent) if originals else 0)
    for row in sent:
        arguments += row.arguments[:width]
        weight += len(row.arguments[2]) // _BYTES_LIKE_ONE_MORE
    return arguments, weight


def _packed(
    part: Part,
    requests: Sequence[Request | Packed | Upsert],
    rows: Sequence[CreateRow],
    *,
    onto: bool,
) -> bytes:
    """As `part.inc.lua` has it; nothing for a call that is one part."""
    if part.before == 0 and part.until == len(rows):
        return b""
    said: dict[str, object] = {"before": part.before, "of": len(rows)}
    if part.earlier:
        said["earlier"] = part.earlier.decode("ascii")
    if part.before == 0 and not onto:
        later = requests[part.until :]
        said["weights"] = [row.weight_bytes for row in rows[part.until :]]
        said["lanes"] = list({each.lane for each in later if each.lane is not None})  # type: ignore[union-attr]
    return _encode(said)
