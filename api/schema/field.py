"""How a field of a payload is read, judged and shown. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from api.schema.json_text import (
    Decode,
    Part,
    duration_or_none,
    durations_or_none,
    read,
    text_or_none,
    whole_or_none,
)
from api.schema.rules import NO_DURATION, Rules
from scheduler.models import Request, Schedule

Schema = dict[str, Any]


class JsonType(NamedTuple):
    """JSON types: how the text of a value is read, and the fault of any other. `typed` is what a
    decoder of the whole payload makes of it: the value, or its text for `decode`."""

    types: list[str]
    decode: Decode[Any]
    fault: str
    typed: Any = msgspec.Raw


TEXT = JsonType(
    ["string"], msgspec.json.Decoder(str | None).decode, "It must be a string.", str | None
)
# Its rule reads it: the very text counts.
OBJECT = JsonType(["object"], text_or_none, "It must be an object.")
WHOLE = JsonType(["integer"], whole_or_none, "It must be a whole number.")
BOOLEAN = JsonType(
    ["boolean"], msgspec.json.Decoder(bool | None).decode, "It must be true or false.", bool | None
)
DURATION = JsonType(["string", "integer"], duration_or_none, NO_DURATION, str | int | None)
DURATIONS = JsonType(
    ["array"], durations_or_none, "It must be an array of durations.", list[str | int] | None
)
TEXTS = JsonType(
    ["array"],
    msgspec.json.Decoder(list[str] | None).decode,
    "It must be an array of strings.",
    list[str] | None,
)


class Field(msgspec.Struct, frozen=True):
    """All that is known of one field outside of the model.

    `of` is its attribute in a `Request`. Fields of the same one are spellings of it, of which a
    payload may have one; `sets` are further attributes, which tell them apart later. `rule` makes
    its value from one of the right type, and raises ValueError with a sentence, or InvalidRequest.
    `default` stands for null and for a field left out. `more` is the rest of its schema. `show`
    makes what clients see again (None: nothing) of the attribute, or of what `holds` makes of the
    request, and `shown` is the schema of that.
    """

    name: str
    of: str
    rule: Callable[[Any, Rules, int], Any]
    description: str
    kind: JsonType = TEXT
    examples: list[Any] = []
    more: Schema = {}
    show: Callable[[Any], Any] | None = lambda value: value
    holds: Callable[[Request], Any] | None = None
    shown: Schema = {}
    default: Any = None
    sets: Mapping[str, Any] = {}
    required: bool = False

    @property
    def schema(self) -> Schema:
        """The rule, as far as JSON Schema goes."""
        type_ = {} if "anyOf" in self.more else {"type": [*self.kind.types, "null"]}
        examples = {"examples": self.examples} if self.examples else {}
        return {**type_, **self.more, "description": self.description, **examples}

    def judged(self, text: Part, rules: Rules, now_ms: int) -> Any:
        """The value that the text of a payload's member gives. Raises as `rule` does."""
        value = read(text, self.kind.decode, self.kind.fault)
        if value is not None:
            return self.rule(value, rules, now_ms)
        if self.required:
            raise ValueError(self.kind.fault)
        return self.default

    def shown_of(self, schedule: Schedule) -> Any:
        """What clients see of it: null, if it was spelled as another field."""
        return self.shown_in(schedule.request)

    def shown_in(self, request: Request) -> Any:
        assert self.show is not None
        for name, value in self.sets.items():
            if getattr(request, name) != value:
                return None
        return self.show(self.holds(request) if self.holds else getattr(request, self.of))
