"""Every series that the code can expose, by name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FILES = ("metrics/common.py", "worker/metrics_source.py", "api/metrics_source.py")
_MADE = re.compile(r"\b(?:shard_)?(counter|gauge|histogram)\(\s*\"(postdate_\w+)\"")
_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


def families() -> dict[str, str]:
    """The type of each family, by its name without a suffix."""
    found = {}
    for file in _FILES:
        source = (ROOT / file).read_text()
        found |= {name: kind for kind, name in _MADE.findall(source)}
    return found


def series() -> set[str]:
    """The names of all series."""
    return {name + suffix for name, kind in families().items() for suffix in _SUFFIXES[kind]}
