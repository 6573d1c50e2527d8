"""Arguments as the server takes them. A TypeError or ValueError names the argument."""

from __future__ import annotations

import operator
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a type checker knows the buffer protocol, which Python has from 3.12 on
    from typing_extensions import Buffer

    BytesLike = Buffer
else:
    BytesLike = bytes | bytearray | memoryview

_BYTES = bytes | bytearray | memoryview
# Of ids, lanes and names; a path has no other.
_PART = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_LONGEST_SHOWN = 80


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {kind_of(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:  # the value is not shown: it may be a secret
            raise ValueError(f"{name} has half of a surrogate pair, which is no text") from None
    return value


def texts(name: str, value: object) -> list[str]:
    """A str is a TypeError: its letters would be taken for texts."""
    if isinstance(value, str | _BYTES) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list of str, not {kind_of(value)}")
    return [text(f"{name}[{n}]", each) for n, each in enumerate(value)]


def path_part(name: str, value: object) -> str:
    """An id, a lane or a name, which goes into a path."""
    part = text(name, value)
    if not _PART.fullmatch(part) or not part.strip("."):
        raise ValueError(
            f"{name} must have letters, digits, '.', '_', ':' and '-', and not only dots,"
            f" unlike {_shown(part)}"
        )
    return part


def octets(name: str, value: object) -> bytes:
    """Of any bytes-like object, as they are in memory now."""
    if isinstance(value, bytes):
        return value
    try:
        return memoryview(value).tobytes()  # type: ignore[arg-type]
    except TypeError:
        hint = "; give a str as text" if isinstance(value, str) else ""
        raise TypeError(f"{name} must be bytes-like, not {kind_of(value)}{hint}") from None


def base64(name: str, value: object) -> str:
    return b64encode(octets(name, value)).decode()


def json_object(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, not {kind_of(value)}")
    return dict(value)


def headers(name: str, value: object) -> dict[str, str]:
    given = json_object(name, value)
    return {
        text(f"A name in {name}", key): text(f"{name}[{key!r}]", each)
        for key, each in given.items()
    }


def real(name: str, value: object) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, not {kind_of(value)}")
    return value


def whole(name: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an int, not {kind_of(value)}") from None


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {kind_of(value)}")
    return value


def moment(name: str, value: object) -> str:
    """ISO 8601; a string goes out as it is, and the server takes no zone for UTC. A datetime
    without a time zone is a ValueError."""
    if isinstance(value, str):
        return text(name, value)
    if not isinstance(value, datetime):
        raise TypeError(f"{name} must be a datetime or a str, not {kind_of(value)}")
    if value.utcoffset() is None:
        raise ValueError(
            f"{name} has no time zone: {value!r}; say which moment is meant, for instance"
            f" {name}=datetime.now(UTC) + timedelta(minutes=5)"
        )
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def duration(name: str, value: object) -> str:
    """A string goes out as it is, a number is seconds; rounds up to a millisecond."""
    if isinstance(value, str):
        return text(name, value)
    delta = span(name, value)
    if delta < timedelta():
        raise ValueError(f"{name} cannot be negative: {value!r}")
    return f"{-(-delta // timedelta(milliseconds=1))}ms"


def span(name: str, value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    try:
        return timedelta(seconds=value)  # type: ignore[arg-type]
    except TypeError:
        said = f"{name} must be a timedelta or a number of seconds, not {kind_of(value)}"
        raise TypeError(said) from None
    except (ValueError, OverflowError):  # not a number; endless, or more than timedeltas reach
        raise ValueError(f"{name} is no length of time: {value!r}") from None


def durations(name: str, value: object) -> list[str]:
    """A str is a TypeError: its letters would be taken for durations."""
    if isinstance(value, str | _BYTES) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list of durations, not {kind_of(value)}")
    return [duration(f"{name}[{n}]", each) for n, each in enumerate(value)]


def function(name: str, value: object) -> None:
    """Raises TypeError unless it can be called, or is None."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a function, not {kind_of(value)}")


def boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {kind_of(value)}")
    return value


def words(name: str, value: object) -> str:
    """One word, or several with commas between."""
    if isinstance(value, str):
        return text(name, value)
    if isinstance(value, _BYTES) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a str or a list of them, not {kind_of(value)}")
    return ",".join(text(f"{name}[{n}]", each) for n, each in enumerate(value))


Written = Callable[[str, object], Any]


def written(
    options: Mapping[str, Any], fields: Mapping[str, tuple[str, Written]]
) -> dict[str, Any]:
    """By the server's names, each as its kind says; None as null. Raises TypeError for an unknown
    option."""
    if unknown := options.keys() - fields:
        raise TypeError(f"There is no argument {', '.join(sorted(unknown))}")
    return {
        fields[name][0]: None if value is None else fields[name][1](name, value)
        for name, value in options.items()
    }


def kind_of(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _shown(value: str) -> str:
    shown = value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "…"
    return ascii(shown)
