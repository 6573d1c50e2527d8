"""The time zones that all of Postdate goes by: those of the package tzdata, never the machine's, so
that every process reads a rule alike. Blocking at first sight of a name. Pure."""

from __future__ import annotations

import zoneinfo
from functools import cache

import tzdata

VERSION = tzdata.IANA_VERSION  # 2026f: later versions sort behind it

zoneinfo.reset_tzpath(())


def zone_named(name: str) -> zoneinfo.ZoneInfo | None:
    """A zone of the IANA database, by its exact name."""
    return _zone(name) if name in _names() else None


@cache  # 600 names, 8 MB
def _zone(name: str) -> zoneinfo.ZoneInfo:
    return zoneinfo.ZoneInfo(name)


@cache
def _names() -> frozenset[str]:
    """Names alone are looked up: of others, no file is sought and nothing is kept."""
    return frozenset(zoneinfo.available_timezones())
