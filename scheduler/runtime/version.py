"""Which version of Postdate runs."""

from __future__ import annotations

import importlib.metadata
from functools import cache


@cache
def version() -> str:
    """`0` where it runs from a checkout that was never installed."""
    try:
        return importlib.metadata.version("postdate")
    except importlib.metadata.PackageNotFoundError:
        return "0"
