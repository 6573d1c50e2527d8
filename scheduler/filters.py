"""The filters of lists of schedules, of the log and of bulk calls, in one table: the API, its
document, the dashboard, the command line and the Python client derive from it. Pure, and quick to
import."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.field_rows import Kind


class FilterRow(NamedTuple):
    """One filter of schedules and of entries of the log. `option` is its name in the Python client,
    `flag` on the command line. `description` is for the API's document; `of_entries`, if it is set,
    replaces it for the log. `help` and `metavar` are for the command line. `example` is for the box
    above the dashboard's list, which has filters of its own for those without one."""

    name: str
    kind: Kind
    option: str
    flag: str
    help: str
    description: str
    of_entries: str = ""
    metavar: str = "TEXT"
    example: str = ""

    @property
    def word(self) -> str:
        """Its name in addresses of the dashboard."""
        return self.flag.removeprefix("--")


FILTERS = (
    FilterRow(
        name="targetUrl",
        kind=Kind.URL,
        option="url",
        flag="--target",
        help="Only those to this URL.",
        description="Only schedules with this exact URL.",
        of_entries="Only entries with this exact URL.",
        metavar="URL",
    ),
    FilterRow(
        name="lane",
        kind=Kind.NAME,
        option="lane",
        flag="--lane",
        help="Only those in this lane.",
        description="Only schedules of this lane.",
        of_entries="Only entries of this lane.",
        metavar="NAME",
        example="invoices",
    ),
    FilterRow(
        name="reference",
        kind=Kind.TEXT,
        option="reference",
        flag="--reference",
        help="Only those with this reference; 'order-*': all that begin with order-.",
        description="Only schedules with this reference; with `*` at its end, those whose "
        "reference begins so. Waiting schedules and dead letters then come by reference, and "
        "`from` and `to` only filter.",
        of_entries="Only entries with this reference; with `*` at its end, those whose reference "
        "begins so.",
        example="order-17 or order-*",
    ),
    FilterRow(
        name="label",
        kind=Kind.TEXT,
        option="label",
        flag="--label",
        help="Only those with this label.",
        description="Only schedules with this label, exactly.",
        of_entries="Only entries with this label, exactly.",
        example="reminders",
    ),
    FilterRow(
        name="recurringId",
        kind=Kind.NAME,
        option="recurring_id",
        flag="--recurring",
        help="Only occurrences of this recurring schedule.",
        description="Only occurrences of this recurring schedule.",
        of_entries="Only entries of this recurring schedule, `skipped` times included.",
        metavar="ID",
        example="rec_…, the id of a recurring schedule",
    ),
    FilterRow(
        name="from",
        kind=Kind.MOMENT,
        option="from_",
        flag="--from",
        help="",  # the command line says how a time is written
        description="From this moment on.",
    ),
    FilterRow(
        name="to",
        kind=Kind.MOMENT,
        option="to",
        flag="--to",
        help="",
        description="Before this moment; not before `from`.",
    ),
)
