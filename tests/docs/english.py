"""Turns of phrase that a stranger would not say, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BEGIN = r"(?:^|(?<=[.!?:] ))"
_INSTEAD = {
    _BEGIN + r"(?:What|Who|Whoever|Whatever|Whichever) (?!to\b|if\b|about\b)"
    r"(?![^.!?]*, (?:and )?(?:where|how|which|what|who|when|why)\b)[^.!?]*\.(?!\w)": (
        "a noun as the subject: not `What is due is claimed` but `Workers claim due schedules`"
    ),
    _BEGIN + r"That (?:which|whose)\b|" + _BEGIN + r"Those (?:that|which|who|whose|of)\b": (
        "a noun: not `Those that wait` but `Waiting schedules`"
    ),
    r"\b(?:is|are|may be|has) not to\b|\b(?:is|are) to (?:be|have|go|see|find)\b": (
        "must, should or can"
    ),
    r"\banew\b": "again",
    r"\b(?:is|are|was|were) come to\b|\bcomes? to (?:light|pass|naught)\b": "is reached, happens",
    r"\b(?:there|here|where)(?:of|in|upon|unto)\b|\bupon\b|\balbeit\b|\blest\b|\bshall\b": (
        "today's words: of it, in it, on, although, so that … not, must"
    ),
    r"\bbe it\b|\bso as to\b|\bin order that\b": "whether, to, so that",
    r"\btells? of\b|\btold of\b": "says, describes, shows",
    r"\bsuch a one\b|\bthe like\b|\bsuch as have\b": "its noun",
    r"\b(?:is|are|was|were) none of\b": "does not belong to",
    r"\bwhat is so\b|\bas it is meant\b|\bhave? it that\b": "the fact itself",
    r"\bfor want of\b|\bought to\b|\bthither\b|\bwhence\b": "without, should, there, from where",
    r"\bwaits? for nobody\b|\bkeeps? no (?:other|others)\b": "blocks nothing else",
    r"\b(?:more|less|longer|later|sooner|better|other) than it\b(?! (?:is|was|can|needs))": (
        "the noun after `than`"
    ),
}
_PATTERNS = [(re.compile(pattern), instead) for pattern, instead in _INSTEAD.items()]
_CODE = re.compile(r"`[^`]*`")


def faults(text: str) -> Iterator[str]:
    """Each phrase of the text that is on the list, with what to write instead."""
    plain = _CODE.sub("x", " ".join(text.split()))
    for pattern, instead in _PATTERNS:
        for found in pattern.finditer(plain):
            yield f"{found[0][:80]!r}: {instead}"
