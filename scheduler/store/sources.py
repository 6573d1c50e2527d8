"""The scripts' sources, as the server gets them.

Files in `lua/` open with what they do; a line `--@include name` stands for `lua/name.inc.lua`.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "lua"
_INCLUDE = re.compile(r"^--@include (\w+)$", re.MULTILINE)
_SHEBANG = re.compile(r"\A#!lua[^\n]*\n")


@cache
def source_and_sha1(name: str, *, plain_lua: bool) -> tuple[str, str]:
    """A script's source, its includes in place, and its SHA-1."""
    source = _INCLUDE.sub(_included, (_FOLDER / f"{name}.lua").read_text())
    if plain_lua:
        source = _SHEBANG.sub("", source)
    return source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


def _included(match: re.Match[str]) -> str:
    return (_FOLDER / f"{match[1]}.inc.lua").read_text()
