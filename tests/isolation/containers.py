"""How long each container of a process is, by its owner's name: `worker.send.pool.Pool._idle`."""

from __future__ import annotations

import functools
import gc
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

# Shorter ones are part of what a few requests leave, or constants.
LEAST = 64
_DEEPEST = 5
_KINDS = (dict, list, set, deque)
_CONTAINERS = frozenset({"weakref", "_weakrefset", "collections", "builtins"})


def lengths() -> dict[str, int]:
    """The longest container of each owner; of a `functools.lru_cache` what it holds."""
    gc.unfreeze()  # a process that serves has put what its start made out of the collector's way
    gc.collect()
    every = gc.get_objects()
    found: dict[str, int] = {}
    for cache in every:
        if isinstance(cache, functools._lru_cache_wrapper):
            _note(found, _called(cache), cache.cache_info().currsize)
    every += _untracked(every)
    long = [each for each in every if isinstance(each, _KINDS) and len(each) >= LEAST]
    holders = _holders(every, long)
    for container in long:
        for name in set(_names(container, holders, _DEEPEST)):
            _note(found, name, len(container))
    return found


def _untracked(every: list[object]) -> list[object]:
    """Dicts of numbers and texts, which the garbage collector has no use for."""
    found = {
        id(each): each
        for holder in every
        for each in gc.get_referents(holder)
        if isinstance(each, _KINDS) and not gc.is_tracked(each)
    }
    return list(found.values())


def _note(found: dict[str, int], name: str, length: int) -> None:
    if length >= LEAST:
        found[name] = max(length, found.get(name, 0))


def _called(made: Any) -> str:
    return f"{made.__module__}.{made.__qualname__}"


def _holders(every: list[object], wanted: list[Any]) -> dict[int, list[object]]:
    """What refers to these, and to the containers that do, by `id`."""
    found: dict[int, list[object]] = {}
    for _ in range(_DEEPEST):
        ids = {id(each) for each in wanted} - found.keys()
        if not ids:
            break
        found |= {each: [] for each in ids}
        wanted = []
        for holder in every:
            if holder is every or isinstance(holder, types.FrameType):
                continue
            for each in gc.get_referents(holder):
                if id(each) in ids:
                    found[id(each)].append(holder)
                    contains = isinstance(holder, _KINDS) and not _is_module(holder)
                    if contains or type(holder).__module__ in _CONTAINERS:
                        wanted.append(holder)
    return found


def _names(container: object, holders: dict[int, list[object]], depth: int) -> Iterator[str]:
    """Of the modules, classes and instances that hold it, also within other containers."""
    for holder in holders.get(id(container), ()) if depth else ():
        if _is_module(holder):
            prefix = holder["__name__"]  # type: ignore[index]
            yield from (f"{prefix}.{name}" for name in _keys(holder, container))
        elif isinstance(holder, dict) and (owner := _instance_of(holder, holders)) is not None:
            yield from _named_or_climbed(owner, _keys(holder, container), holders, depth)
        elif isinstance(holder, _KINDS):
            yield from _names(holder, holders, depth - 1)
        elif isinstance(holder, type):
            yield from (f"{_called(holder)}.{name}" for name in _keys(vars(holder), container))
        else:
            yield from _named_or_climbed(holder, _slots(holder, container), holders, depth)


def _named_or_climbed(
    owner: object, names: list[str], holders: dict[int, list[object]], depth: int
) -> Iterator[str]:
    """A container of the standard library says nothing by its name, what holds it does."""
    if names and type(owner).__module__ in _CONTAINERS:
        yield from _names(owner, holders, depth - 1)
    else:
        yield from (f"{_called(type(owner))}.{name}" for name in names)


def _is_module(holder: object) -> bool:
    return isinstance(holder, dict) and "__name__" in holder and "__spec__" in holder


def _instance_of(attributes: dict[Any, Any], holders: dict[int, list[object]]) -> object | None:
    """What has it as its `__dict__`."""
    for each in holders.get(id(attributes), ()):
        if not isinstance(each, type) and getattr(each, "__dict__", None) is attributes:
            return each
    return None


def _keys(holder: Any, container: object) -> list[str]:
    return [str(name) for name, value in holder.items() if value is container]


def _slots(holder: object, container: object) -> list[str]:
    names = list(getattr(holder, "__dict__", ()))
    for kind in type(holder).__mro__:
        slots = vars(kind).get("__slots__", ())
        names += [slots] if isinstance(slots, str) else list(slots)
        names += list(vars(kind).get("__struct_fields__", ()))
    return [name for name in names if _attribute(holder, name) is container]


def _attribute(holder: object, name: str) -> object:
    try:
        return object.__getattribute__(holder, name)
    except AttributeError:
        return None
