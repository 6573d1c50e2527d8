"""Lanes: the names by which schedules share a rate, a parallelism and a pause. Pure."""

from __future__ import annotations

import re

LONGEST_LANE = 64
# Of an account, that are set, paused, calm or have something waiting or running.
MOST_LANES = 10_000
LANE_PATTERN = f"[A-Za-z0-9][A-Za-z0-9._:-]{{0,{LONGEST_LANE - 1}}}"
_LANE = re.compile(LANE_PATTERN)


def is_lane(text: str) -> bool:
    return _LANE.fullmatch(text) is not None
