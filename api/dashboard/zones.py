"""Time zones: how a moment reads on somebody's clock. Pure."""

from __future__ import annotations

import re
from datetime import UTC as _UTC
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from scheduler.recurrence import zones
from scheduler.times import parse_iso8601

_EPOCH = datetime(1970, 1, 1, tzinfo=_UTC)
_MILLISECOND = timedelta(milliseconds=1)
_WITH_ZONE = re.compile(r"(?:[Zz]|[+-]\d\d(?::?\d\d)?)$")


class Zone(NamedTuple):
    name: str
    rules: tzinfo

    def local(self, ms: float) -> datetime:
        return (_EPOCH + timedelta(milliseconds=int(ms))).astimezone(self.rules)

    def text(self, ms: float) -> str:
        """`2026-11-20T08:00:00.000`, as a field for local times has it."""
        return self.local(ms).replace(tzinfo=None).isoformat(timespec="milliseconds")

    def minute(self, ms: float) -> str:
        """`2026-11-20 08:00`."""
        return self.text(ms)[:16].replace("T", " ")

    @property
    def city(self) -> str:
        """`Buenos Aires` of `America/Argentina/Buenos_Aires`, for the heads of tables."""
        return self.name.rpartition("/")[2].replace("_", " ")

    def moment(self, text: str) -> int:
        """The ms of a local time, unless it has its own zone; the first, if an hour comes twice.
        Raises ValueError."""
        if _WITH_ZONE.search(text.partition("T")[2]):
            return parse_iso8601(text.replace(" ", "+"))
        parse_iso8601(text)  # a time at all, in words that say why not
        given = text.replace(",", ".").upper()
        local = datetime.fromisoformat(given).replace(tzinfo=self.rules)
        return (local - _EPOCH) // _MILLISECOND

    def midnight(self, ms: float, days: int = 0) -> int:
        """When the day of a moment begins there, or one so many days later, in ms."""
        day = self.local(ms).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        later = (day.replace(tzinfo=None) + timedelta(days=days)).replace(tzinfo=self.rules)
        return (later - _EPOCH) // _MILLISECOND


UTC = Zone("UTC", _UTC)


def zone_named(name: str) -> Zone | None:
    if name == UTC.name:
        return UTC
    rules = zones.zone_named(name)
    return None if rules is None else Zone(name, rules)
