"""A script: declared beside the noun that it belongs to, and spelt out before it is sent.

`_STEP = Script("bulk/step")` stands for `bulk/step.lua`. In a script `--@include x` stands for
`x.inc.lua`, and `K.WAITING` for that constant of `keys.py` (`R.` for `rollups.py`, `S.` for
`stored.py`, `V.` for `verdict.py`), so that a name is spelt in one place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from redis import exceptions

from scheduler import rollups
from scheduler.errors import StoreError
from scheduler.store import keys, stored
from scheduler.store.server.line import Argument
from scheduler.store.verdict import Verdict

_FOLDER = Path(__file__).parent.parent
# Lua looks up a global by its name at each use. As locals they make creates, claims and acks 1 to
# 2 % cheaper.
_GLOBALS = "ARGV, KEYS, redis, math, string, tonumber, unpack"
_INCLUDE = re.compile(r"^--@include (\S+)\n", re.MULTILINE)
_CONSTANT = re.compile(r"\b([KRSV])\.([A-Z_]+)\b")
Send = Callable[[str, tuple[Argument, ...]], Awaitable[Any]]
# A key, and the arguments: of one call among several.
Call = tuple[str, Sequence[Argument]]
SendAll = Callable[[Sequence[tuple[Argument, ...]]], Awaitable[list[Any]]]
_NAMESPACES = {"K": keys, "R": rollups, "S": stored, "V": Verdict}


class Script:
    """A Lua file by its path below `scheduler/store`, without `.lua`; counts runs and failures."""

    all: ClassVar[list[Script]] = []

    def __init__(self, path: str) -> None:
        self.path = path
        self.calls = 0
        self.errors = 0
        self.all.append(self)

    async def run(self, send: Send, key: str, arguments: Sequence[Argument]) -> Any:
        """The reply to the script, or to its text where the server does not know it yet."""
        self.calls += 1
        source, sha1 = self.source_and_sha1
        try:
            try:
                return await send(key, ("EVALSHA", sha1, 1, key, *arguments))
            except exceptions.NoScriptError:
                return await send(key, ("EVAL", source, 1, key, *arguments))
        except StoreError:
            self.errors += 1
            raise

    async def run_each(self, send: SendAll, calls: Sequence[Call]) -> list[Any]:
        """The replies to several calls of the script that are sent together; errors of the server
        among them as values."""
        self.calls += len(calls)
        source, sha1 = self.source_and_sha1
        replies = await send([("EVALSHA", sha1, 1, key, *words) for key, words in calls])
        unknown = [n for n, each in enumerate(replies) if type(each) is exceptions.NoScriptError]
        if unknown:
            again = [("EVAL", source, 1, calls[n][0], *calls[n][1]) for n in unknown]
            for n, reply in zip(unknown, await send(again), strict=True):
                replies[n] = reply
        return replies

    @cached_property
    def source_and_sha1(self) -> tuple[str, str]:
        source = _with_includes((_FOLDER / f"{self.path}.lua").read_text(), set())
        source = _CONSTANT.sub(_spelt, source)
        first, source = source.split("\n", 1)
        source = f"{first}\nlocal {_GLOBALS} = {_GLOBALS}\n{source}"
        return source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


def _with_includes(source: str, included: set[str]) -> str:
    """Each include once, where it is named first."""

    def text_of(match: re.Match[str]) -> str:
        if match[1] in included:
            return ""
        included.add(match[1])
        return _with_includes((_FOLDER / f"{match[1]}.inc.lua").read_text(), included)

    return _INCLUDE.sub(text_of, source)


def _spelt(match: re.Match[str]) -> str:
    value = getattr(_NAMESPACES[match[1]], match[2])
    return f"'{value}'" if isinstance(value, str) else str(value)
