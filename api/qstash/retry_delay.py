"""`Upstash-Retry-Delay`: an expression over `retried`, which gives each wait in milliseconds. Pure.

value  ("+" | "-")* atom (sign value)*, where "^" binds before "*" "/" "%", these before "+" "-"
atom   number | "retried" | name "(" value ("," value)* ")" | "(" value ")"
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Sequence
from operator import add, mul, neg, pos, sub, truediv
from typing import Any

from scheduler.schema import LONGEST_DELAY_MS, SHORTEST_DELAY_MS

MOST_CHARACTERS = 256
_DEEPEST = 32
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TOKEN = re.compile(rf"{_NUMBER.pattern}|[A-Za-z_]+|\S")
_Function = Callable[..., float]
# Signs between two values: how closely each binds the value before it, and the one behind it.
_SIGNS: dict[str, tuple[_Function, int, int]] = {
    "+": (add, 1, 2),
    "-": (sub, 1, 2),
    "*": (mul, 2, 3),
    "/": (truediv, 2, 3),
    "%": (math.fmod, 2, 3),
    "^": (math.pow, 4, 3),
}
# Signs before a value, and how closely they bind it.
_BEFORE: dict[str, _Function] = {"+": pos, "-": neg}
_MINUS = 3
# Of each function, and of a parenthesis, how many values it takes; 0: any number, at least one.
_FUNCTIONS: dict[str, tuple[_Function, int]] = {
    "(": (pos, 1),
    "pow": (math.pow, 2),
    "sqrt": (math.sqrt, 1),
    "abs": (abs, 1),
    "exp": (math.exp, 1),
    "floor": (math.floor, 1),
    "ceil": (math.ceil, 1),
    "round": (lambda x: math.floor(x + 0.5), 1),
    "min": (lambda *values: min(values), 0),
    "max": (lambda *values: max(values), 0),
}


def waits_ms(text: str, retries: int) -> tuple[int, ...]:
    """The waits before so many retries; `retried` is 0 for the first one. A wait that is shorter or
    longer than Postdate has them is its shortest or longest one. Raises ValueError with the
    position in the text, counted from 1."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"It may have at most {MOST_CHARACTERS} characters.")
    reader = _Reader(text, max(retries, 1))
    waits = reader.value(0, _DEEPEST)
    reader.take("")
    clipped = (min(max(wait, SHORTEST_DELAY_MS), LONGEST_DELAY_MS) for wait in waits[:retries])
    return tuple(map(math.ceil, clipped))


class _Reader:
    """Computes while it reads. A value is a list: it has a number for each retry. `deeper`: how
    deep a part of the text may yet stand in another."""

    def __init__(self, text: str, retries: int) -> None:
        self._tokens = deque((found[0], found.start() + 1) for found in _TOKEN.finditer(text))
        self._tokens.append(("", len(text) + 1))
        self._retried = [float(number) for number in range(retries)]

    def take(self, wanted: str) -> None:
        text, at = self._tokens.popleft()
        if text != wanted:
            raise _misplaced(text, at)

    def value(self, closest: int, deeper: int) -> list[float]:
        """Up to a sign that binds less closely."""
        value = self._atom(deeper)
        while (sign := _SIGNS.get(self._tokens[0][0])) and sign[1] >= closest:
            _, at = self._tokens.popleft()
            value = _each(sign[0], at, value, self.value(sign[2], deeper - 1))
        return value

    def _atom(self, deeper: int) -> list[float]:
        text, at = self._tokens.popleft()
        if not deeper:
            raise _fault(at, "it is nested too deeply")
        if text == "retried":
            return self._retried
        if _NUMBER.fullmatch(text):
            return _each(float, at, [text]) * len(self._retried)
        if text in _BEFORE:
            return _each(_BEFORE[text], at, self.value(_MINUS, deeper - 1))
        if text not in _FUNCTIONS:
            raise _misplaced(text, at)
        function, count = _FUNCTIONS[text]
        if text != "(":
            self.take("(")
        values = [self.value(0, deeper - 1)]
        while self._tokens[0][0] == ",":
            self.take(",")
            values.append(self.value(0, deeper - 1))
        self.take(")")
        if count not in (0, len(values)):
            raise _fault(at, f"{text} takes another number of values")
        return _each(function, at, *values)


def _each(function: _Function, at: int, *values: Sequence[Any]) -> list[float]:
    """For each retry. Raises ValueError where a result is no finite number."""
    results = list[float]()
    for retried, given in enumerate(zip(*values, strict=True)):
        try:
            results.append(float(function(*given)))
        except (ArithmeticError, ValueError):
            results.append(math.nan)
        if not math.isfinite(results[-1]):
            raise _fault(at, f"there is no such number for retried {retried}")
    return results


def _misplaced(text: str, at: int) -> ValueError:
    return _fault(at, f"{repr(text) if text else 'its end'} cannot stand here")


def _fault(at: int, what: str) -> ValueError:
    return ValueError(f"Character {at}: {what}.")
