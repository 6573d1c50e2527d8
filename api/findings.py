"""What is wrong with a request, as clients are told. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.errors import FieldError, InvalidRequest

_MOST_DETAILS = 100
_SHOWN_NAME_CHARACTERS = 100


class Findings:
    """What is found wrong with a payload or a query, in order: the first hundred, and a count.

    What is said of it stays within bounds, whatever a client sends.
    """

    def __init__(self) -> None:
        self._details: list[FieldError] = []
        self._count = 0

    def add(self, field: str, message: str) -> None:
        self._count += 1
        if len(self._details) < _MOST_DETAILS:
            self._details.append(FieldError(field, message))

    def extend(self, details: Iterable[FieldError]) -> None:
        for detail in details:
            self.add(detail.field, detail.message)

    def refuse_if_any(self) -> None:
        """Raises InvalidRequest with every bad field."""
        if self._count:
            raise self.refusal()

    def refusal(self) -> InvalidRequest:
        """The refusal of what was found, at least one thing."""
        details = self._details
        if self._count == 1:
            return InvalidRequest(details, _sentence_of_one(details[0]))
        sentence = f"{self._count:,} fields are not valid: "
        sentence += ", ".join(detail.field for detail in details[:10])
        if self._count > 10:
            sentence += ", …"
        if rest := self._count - len(details):
            details = [*details, FieldError("…", f"{rest:,} more fields are not valid.")]
        return InvalidRequest(details, sentence)


def invalid(details: Iterable[FieldError]) -> InvalidRequest:
    """The refusal of a payload or query with these bad fields, at least one."""
    findings = Findings()
    findings.extend(details)
    return findings.refusal()


def shown(name: str) -> str:
    """A client's own name for something, short enough to say back."""
    if len(name) <= _SHOWN_NAME_CHARACTERS:
        return name
    return name[:_SHOWN_NAME_CHARACTERS] + "…"


def _sentence_of_one(detail: FieldError) -> str:
    if detail.message == "Destination not allowed":
        return detail.message
    return f"{detail.field}: {detail.message}"
