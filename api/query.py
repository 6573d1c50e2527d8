"""Query strings to typed values. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import parse_qsl

from api.errors import invalid, shown
from api.fields import timestamp
from scheduler.errors import FieldError, InvalidRequest

T = TypeVar("T")

DEFAULT_LIMIT = 50
MAX_LIMIT = 100

_MOST_PARAMETERS = 100


class Query:
    """The parameters of one request, each at most once.

    Every finding is collected; `refuse_if_bad` raises them together, so that a client sees all
    of its mistakes at once.
    """

    def __init__(self, query_string: bytes, known: frozenset[str]) -> None:
        self._details: list[FieldError] = []
        self._values: dict[str, str] = {}
        for name, value in _pairs(query_string):
            if name not in known:
                self.find(shown(name), "There is no such parameter.")
            elif name in self._values:
                self.find(name, "It is given more than once.")
            self._values[name] = value

    def get(self, name: str, read: Callable[[str], T]) -> T | None:
        """The value as `read` makes it; None if absent, or if `read` raises ValueError."""
        text = self._values.get(name)
        if text is None:
            return None
        try:
            return read(text)
        except ValueError as error:
            self.find(name, str(error))
            return None

    def period(self) -> tuple[int | None, int | None]:
        """`from` and `to` in ms. A period that ends where it begins is empty, not wrong."""
        from_ms, to_ms = self.get("from", moment), self.get("to", moment)
        if from_ms is not None and to_ms is not None and from_ms > to_ms:
            self.find("from", "It may not be after to.")
        return from_ms, to_ms

    def page(self) -> tuple[int | None, str | None, str | None]:
        """`limit`, `order` and `cursor`."""
        limit = self.get("limit", whole_number(1, MAX_LIMIT))
        return limit, self.get("order", one_of("asc", "desc")), self.get("cursor", str)

    def refuse_if_bad(self) -> None:
        """Raises InvalidRequest naming every bad parameter."""
        if self._details:
            raise invalid(self._details)

    def find(self, name: str, message: str) -> None:
        """Notes what is wrong with a parameter; of several faults the first is told."""
        if all(detail.field != name for detail in self._details):
            self._details.append(FieldError(name, message))


def _pairs(query_string: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError:
        detail = FieldError("query", "It is not a valid query string.")
        raise InvalidRequest([detail], "The query string is not valid") from None


def moment(text: str) -> int:
    """An ISO 8601 timestamp in ms. A `+` that was not escaped arrives as a space: it is meant.

    What lies before 1970 becomes 1970: nothing is older, and many a client's "since ever" is.
    """
    return max(timestamp(text.replace(" ", "+")), 0)


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """A reader of whole numbers within bounds."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high):
            raise ValueError(f"It must be a whole number from {low} to {high}.")
        return int(text)

    return read


def one_of(*choices: str) -> Callable[[str], str]:
    """A reader of one of a few words."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"It must be one of {', '.join(choices)}.")
        return text

    return read
