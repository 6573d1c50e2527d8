"""References: the callers' own ids of their schedules, and how lists name many of them. Labels: the
callers' own words for groups of schedules. Pure."""

from __future__ import annotations

import re

LONGEST_REFERENCE = 128
# Visible ASCII; at the end of a filter `*` stands for any characters.
REFERENCE_PATTERN = f"[!-~]{{0,{LONGEST_REFERENCE - 1}}}[!-)+-~]"
FILTER_PATTERN = f"{REFERENCE_PATTERN}|[!-~]{{0,{LONGEST_REFERENCE}}}[*]"
_REFERENCE, _FILTER = re.compile(REFERENCE_PATTERN), re.compile(FILTER_PATTERN)

LONGEST_LABEL, MOST_LABELS = 64, 8
# Printable ASCII without commas, and no space at either end. So a label goes unchanged into a
# header, an address and a list with commas, and each character is one byte.
LABEL_PATTERN = f"[!-+\\--~](?:[ -+\\--~]{{0,{LONGEST_LABEL - 2}}}[!-+\\--~])?"
_LABEL = re.compile(LABEL_PATTERN)


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


def is_label(text: str) -> bool:
    return _LABEL.fullmatch(text) is not None
