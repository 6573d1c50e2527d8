"""What the table of fields says of each: a row, its kind, its group in forms. Pure, and quick to
import."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple


class Kind(StrEnum):
    """What a value is: how it is read, judged and shown, unless a field has rules of its own."""

    TEXT = "text"
    TEXTS = "texts"
    URL = "url"
    CHOICE = "choice"
    WHOLE = "whole number"
    MOMENT = "moment"  # in ms
    DURATION = "duration"  # in ms
    DURATIONS = "durations"  # in ms
    SECONDS = "duration in seconds"
    HEADERS = "headers"
    OBJECT = "object"
    BASE64 = "base64"
    NAME = "name"  # an id or a name that can stand in a path


class Group(StrEnum):
    """The parts of a form, in order. A form shows the first two, and unfolds the others."""

    WHAT = "What"
    WHEN = "When"
    SENT = "How it is sent"
    FAILS = "If it fails"
    FOUND = "Found by"
    REPORTS = "Reports"


class FieldRow(NamedTuple):
    """One field. `attribute` is its name in a `Request`; rows of the same one are spellings of it,
    of which a payload may have one, and `sets` are further attributes that tell them apart.

    `description` is for the API's document, `help` for the command line, and `label`, `group` and
    `placeholder` are for forms, which have an input for each attribute; `words` says each choice of
    a form in words, and `hint` replaces the description's first sentence. `option` is its name
    in the Python client and, with hyphens, on the command line. `choice` names the type of its
    `choices` in the document; of a URL they are words in its place. `minimum` and `maximum` are in
    the unit of the API's numbers, so that durations have seconds. `default` stands for null and,
    except for `callbackUrl`, for a field left out. `instead` says what a recurring schedule has in
    its place.
    """

    name: str
    attribute: str
    kind: Kind
    option: str
    description: str
    help: str = ""
    label: str = ""
    group: Group = Group.SENT
    hint: str = ""
    placeholder: str = ""
    examples: tuple[Any, ...] = ()
    choices: tuple[str, ...] = ()
    choice: str = ""
    words: tuple[tuple[str, str], ...] = ()
    pattern: str = ""
    longest: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    default: Any = None
    required: bool = False
    sets: tuple[tuple[str, str], ...] = ()
    instead: str = ""

    @property
    def said(self) -> str:
        """One sentence for people who fill in a form."""
        first = self.description.partition(". ")[0].removesuffix(".") + "."
        return self.hint or first.replace("`", "")
