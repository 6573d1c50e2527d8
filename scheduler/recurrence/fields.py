"""The fields of a recurring schedule besides those of its request, as in `scheduler.schema`;
`attribute` is the name in a `Timing`. Pure."""

from __future__ import annotations

from scheduler.field_rows import FieldRow, Group, Kind
from scheduler.lanes import LANE_PATTERN, LONGEST_LANE
from scheduler.recurrence.cron import LONGEST
from scheduler.recurrence.recurrence import LONGEST_EVERY_MS, SHORTEST_EVERY_MS
from scheduler.recurrence.zones import LONGEST_NAME

FIELDS = (
    FieldRow(
        name="name",
        attribute="",
        kind=Kind.TEXT,
        option="name",
        description="A name of your own, unique in the account: a letter or digit, and up to 63 "
        "more, or `.`, `_`, `:`, `-`. It is stored unencrypted.",
        label="Name",
        group=Group.WHAT,
        placeholder="nightly-report",
        pattern=LANE_PATTERN,
        longest=LONGEST_LANE,
    ),
    FieldRow(
        name="cron",
        attribute="cron",
        kind=Kind.TEXT,
        option="cron",
        description="When, on the clock of `timeZone`: minute, hour, day of the month, month and "
        "day of the week, as `0 9 * * 1-5`; with names, ranges, steps, lists, `L`, `LW`, `5L` and "
        "`MON#2`.",
        label="Cron",
        group=Group.WHEN,
        hint="Minute, hour, day of the month, month, day of the week.",
        placeholder="0 9 * * MON-FRI",
        longest=LONGEST,
    ),
    FieldRow(
        name="every",
        attribute="every_ms",
        kind=Kind.DURATION,
        option="every",
        description="Instead of `cron`: at intervals from `startsAt` on, or from the creation; 1s "
        "to 366d.",
        label="Every",
        group=Group.WHEN,
        hint="From 1s to 366d.",
        placeholder="1h30m",
        minimum=SHORTEST_EVERY_MS // 1000,
        maximum=LONGEST_EVERY_MS // 1000,
    ),
    FieldRow(
        name="timeZone",
        attribute="zone",
        kind=Kind.TEXT,
        option="time_zone",
        description="The zone of `cron`, as the IANA database names it; UTC if it is left out.",
        label="Time zone",
        group=Group.WHEN,
        hint="The zone of the cron's clock.",
        placeholder="UTC",
        longest=LONGEST_NAME,
    ),
    FieldRow(
        name="startsAt",
        attribute="starts_at_ms",
        kind=Kind.MOMENT,
        option="starts_at",
        description="Never before this.",
        label="From",
        group=Group.WHEN,
        hint="Never before this; intervals count from it.",
    ),
    FieldRow(
        name="endsAt",
        attribute="ends_at_ms",
        kind=Kind.MOMENT,
        option="ends_at",
        description="Never after this.",
        label="Until",
        group=Group.WHEN,
    ),
    FieldRow(
        name="expiresAfter",
        attribute="expires_after_ms",
        kind=Kind.DURATION,
        option="expires_after",
        description="How long after its time an occurrence may still be sent; then it ends as "
        "failed, `Expired before execution`.",
        label="Expires after",
        hint="How long after its time it may still be sent.",
        placeholder="10m",
    ),
)
NAMED = {row.name: row for row in FIELDS}
