"""Bodies that are made of values, by a table of their members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, Any

import msgspec

from scheduler.times import format_iso8601

# Only the OpenAPI document uses the annotation.
Moment = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]


class Shape:
    """A body made of a value: of each member its type, and the path of attributes or the function
    that gives it. A path that meets None gives null."""

    def __init__(
        self, name: str, members: dict[str, tuple[Any, str | Callable[[Any], Any]]], doc: str = ""
    ) -> None:
        self.members = members
        typed = [(member, type_) for member, (type_, _) in members.items()]
        more = {"__doc__": doc}
        self.type = msgspec.defstruct(name, typed, namespace=more, frozen=True, gc=False)
        self._reads = [_reader(*member) for member in members.values()]

    def of(self, value: Any) -> Any:
        return None if value is None else self.type(*[read(value) for read in self._reads])


def _reader(type_: Any, source: str | Callable[[Any], Any]) -> Callable[[Any], Any]:
    if not isinstance(source, str):
        return source
    read = _path_reader(source.split(".")) if "." in source else attrgetter(source)
    if type_ not in (Moment, Moment | None):
        return read

    def read_moment(value: Any) -> str | None:
        ms = read(value)
        return None if ms is None else format_iso8601(ms)

    return read_moment


def _path_reader(path: Sequence[str]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        for name in path:
            value = None if value is None else getattr(value, name)
        return value

    return read
