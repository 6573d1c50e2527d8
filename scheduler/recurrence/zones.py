"""The time zones that all of Postdate goes by: those of the package tzdata, never the machine's, so
that every process reads a rule alike. Blocking at first sight of a name. Pure."""

from __future__ import annotations

import re
import zoneinfo
from collections import Counter
from functools import cache

import tzdata

VERSION = tzdata.IANA_VERSION  # 2026f: later versions sort behind it

zoneinfo.reset_tzpath(())

LONGEST_NAME = 64
_OFFSET = re.compile(r"(?:utc|gmt)?([+-])0?(\d{1,2})(?::?00)?")


def zone_named(name: str) -> zoneinfo.ZoneInfo | None:
    """A zone of the IANA database, by its exact name."""
    return _zone(name) if name in _names() else None


def why_no_zone(name: str) -> str:
    """A sentence about a name that is none: with the zone that may be meant."""
    meant = name.strip().lower().replace(" ", "_") if len(name) <= LONGEST_NAME else ""
    if known := _spellings().get(meant):
        if known.lower() == meant:
            return f"It must be an IANA time zone; these are case-sensitive: {known}."
        return f"It must be an IANA time zone, perhaps {known}."
    offset = _OFFSET.fullmatch(meant)
    # The sign of these is the other way round.
    if offset and (known := f"Etc/GMT{'-+'[offset[1] == '-']}{offset[2]}") in _names():
        return f"It must be an IANA time zone: a city's, or {known} for this offset, by its sign."
    if name.isalpha() and name.isupper() and len(name) < 6:
        return "It must be an IANA time zone, as America/Los_Angeles: abbreviations are none."
    return "It must be an IANA time zone, as Europe/Berlin."


@cache
def _spellings() -> dict[str, str]:
    """Names by how people spell them: in lower case, and the last part of one alone."""
    whole = {name.lower(): name for name in _names()}
    # The signs of Etc/GMT+2 and the like are not those that people mean by GMT+2.
    cities = Counter(name.rpartition("/")[2] for name in whole if not name.startswith("etc/"))
    parts = {name.rpartition("/")[2]: known for name, known in whole.items()}
    return (
        {city: parts[city] for city, count in cities.items() if count == 1} | whole | {"z": "UTC"}
    )


@cache  # 600 names, 8 MB
def _zone(name: str) -> zoneinfo.ZoneInfo:
    return zoneinfo.ZoneInfo(name)


@cache
def _names() -> frozenset[str]:
    """Names alone are looked up: of others, no file is sought and nothing is kept."""
    return frozenset(zoneinfo.available_timezones())
