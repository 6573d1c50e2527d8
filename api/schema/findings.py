"""The faults of a request, as clients get them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

from scheduler.errors import FieldError, InvalidRequest, Reason
from scheduler.target.targets import DestinationNotAllowed

# The most findings that are listed of a request or an item, and of all items of a call.
MOST_LISTED = 20
MOST_LISTED_OF_A_CALL = 100
MOST_UNKNOWN = 5
_SHOWN_NAME_CHARACTERS = 100
_NOT_ALLOWED = str(DestinationNotAllowed())


class NotAnew(ValueError):
    """A value that may stay and may not be given anew: a mask for a secret, or a time that has
    passed. `details` name the bad parts of the field, if not all of it is bad."""

    def __init__(self, sentence: str, details: Iterable[FieldError] = ()) -> None:
        super().__init__(sentence)
        self.details = [*details]


class Doubt(NamedTuple):
    """A value as it was given, and its faults unless answers show that very value already."""

    value: Any
    faults: list[FieldError]

    @classmethod
    def of(cls, field: str, value: Any, error: NotAnew) -> Doubt:
        return cls(value, error.details or [FieldError(field, str(error))])


class Findings:
    """The faults of a payload or a query, in order, unknown names last. Keeps as many as an answer
    lists and counts the others: its size is bounded. `doubts`, by field, are of a change, which
    shows only with what it changes whether they are faults; beside others they are."""

    def __init__(self, doubts: dict[str, Doubt] | None = None) -> None:
        self.doubts = doubts
        self._listed: list[FieldError] = []
        self._unknown: list[FieldError] = []
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, field: str, message: str) -> None:
        self._count += 1
        if len(self._listed) < MOST_LISTED:
            self._listed.append(FieldError(field, message))

    def add_unknown(self, names: Iterable[str], count: int, kind: str = "field") -> None:
        """So many names that do not exist, of which it lists five."""
        message = f"There is no such {kind}."
        listed = islice(names, MOST_UNKNOWN - len(self._unknown))
        self._unknown += [FieldError(shown(name), message) for name in listed]
        self._count += count

    def doubt(self, field: str, value: Any, error: NotAnew) -> None:
        doubt = Doubt.of(field, value, error)
        if self.doubts is None:
            self.extend(doubt.faults)
        else:
            self.doubts[field] = doubt

    def extend(self, details: Iterable[FieldError], unlisted: int = 0) -> None:
        """Further ones, and the number of those that were not listed."""
        for detail in details:
            self.add(detail.field, detail.message)
        self._count += unlisted

    def refuse_if_any(self) -> None:
        """Raises InvalidRequest with every bad field."""
        if self._count:
            for doubt in (self.doubts or {}).values():
                self.extend(doubt.faults)
            raise self.refusal()

    def refusal(self) -> InvalidRequest:
        listed = [*self._listed, *self._unknown][:MOST_LISTED]
        if self._count == 1:
            [only] = listed
            sentence = f"{only.field}: {only.message}"
            if only.message != _NOT_ALLOWED:
                return InvalidRequest(listed, sentence)
            sentence = _NOT_ALLOWED if only.field == "targetUrl" else sentence
            return InvalidRequest(listed, sentence, reason=Reason.DESTINATION_NOT_ALLOWED)
        sentence = f"{self._count:,} fields are not valid: "
        sentence += ", ".join(detail.field for detail in listed[:10])
        if self._count > len(listed[:10]):
            sentence += ", …"
        return InvalidRequest(listed, sentence, self._count - len(listed))


def invalid(details: Iterable[FieldError]) -> InvalidRequest:
    """The refusal of a payload or query with these bad fields, at least one."""
    findings = Findings()
    findings.extend(details)
    return findings.refusal()


def details_of(refusal: InvalidRequest, most: int = MOST_LISTED) -> list[FieldError]:
    """At most so many of the bad fields, and an entry that counts the others, if there are any."""
    listed = refusal.details[:most]
    rest = len(refusal.details) - len(listed) + refusal.unlisted
    return [*listed, FieldError("…", f"and {rest:,} more")] if rest else listed


def shown(name: str) -> str:
    """A client's own name for something, cut to a length that can be sent back."""
    if len(name) <= _SHOWN_NAME_CHARACTERS:
        return name
    return name[:_SHOWN_NAME_CHARACTERS] + "…"
