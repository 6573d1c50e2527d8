"""Scripts on fakeredis, compiled once and not at every call, as a real server has it.

The `#!lua` line is left out, which fakeredis does not know. By itself it also collects all of Lua's
garbage after each script, and looks for new globals at each command of one; a script that made one
would fail on the real server, where all of them run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec
from fakeredis.commands_mixins import scripting_mixin

_Runtime: Any = scripting_mixin.LUA_MODULE.LuaRuntime
_COLLECT = "collectgarbage()"
_SHEBANG = re.compile(rb"\A#!lua[^\n]*")


class _KeepingRuntime(_Runtime):  # type: ignore[misc]
    """One server's Lua."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._compiled: dict[bytes, Any] = {}

    def execute(self, script: Any) -> Any:
        if script == _COLLECT:
            return None
        self.globals()[b"redis"][b"sha1hex"] = _sha1hex
        self.globals()[b"cmsgpack"] = self.table_from({b"pack": _pack, b"unpack": self._unpack})
        if script not in self._compiled:
            self._compiled[script] = self.compile(_SHEBANG.sub(b"", script))
        return self._compiled[script]()

    def _unpack(self, packed: bytes) -> Any:
        return self._of(msgspec.msgpack.decode(packed))

    def _of(self, value: Any) -> Any:
        match value:
            case str():
                return value.encode()
            case list():
                return self.table_from(map(self._of, value))
            case dict():
                return self.table_from(
                    {name.encode(): self._of(each) for name, each in value.items()}
                )
        return value


def _pack(sums: Any) -> bytes:
    """fakeredis has no cmsgpack either: of what scripts pack, whole numbers by name."""
    return msgspec.msgpack.encode({name.decode(): int(each) for name, each in sums.items()})


def _sha1hex(data: bytes) -> bytes:
    """fakeredis has none."""
    return hashlib.sha1(data, usedforsecurity=False).hexdigest().encode()


@contextmanager
def quick_scripts() -> Iterator[None]:
    """For every fakeredis that runs its first script within."""
    with (
        patch.object(scripting_mixin.LUA_MODULE, "LuaRuntime", _KeepingRuntime),
        patch.object(scripting_mixin, "_check_for_lua_globals", lambda *_: None),
    ):
        yield
