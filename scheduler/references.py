"""References: the callers' own ids of their schedules, and how lists name many of them. Pure."""

from __future__ import annotations

import re

LONGEST_REFERENCE = 128
# Visible ASCII; at the end of a filter `*` stands for any characters.
REFERENCE_PATTERN = f"[!-~]{{0,{LONGEST_REFERENCE - 1}}}[!-)+-~]"
FILTER_PATTERN = f"{REFERENCE_PATTERN}|[!-~]{{0,{LONGEST_REFERENCE}}}[*]"
_REFERENCE, _FILTER = re.compile(REFERENCE_PATTERN), re.compile(FILTER_PATTERN)


def is_reference(text: str) -> bool:
    return _REFERENCE.fullmatch(text) is not None


def is_filter(text: str) -> bool:
    """Whether it is a reference, or a prefix of references with a `*` behind it."""
    return _FILTER.fullmatch(text) is not None


def matches(wanted: str, reference: str | None) -> bool:
    """Whether a schedule of that reference is among those that a filter means."""
    if reference is None:
        return False
    if wanted.endswith("*"):
        return reference.startswith(wanted[:-1])
    return reference == wanted
