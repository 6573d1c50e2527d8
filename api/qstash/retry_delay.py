"""`Upstash-Retry-Delay`: an expression over `retried`, which gives each wait in milliseconds. Pure.

value  ("+" | "-")* atom (sign value)*, where "^" binds before "*" "/" "%", these before "+" "-"
atom   number | "retried" | name "(" value ("," value)* ")" | "(" value ")"
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from operator import add, mul, neg, sub, truediv

from scheduler.schema import LONGEST_DELAY_MS, SHORTEST_DELAY_MS

MOST_CHARACTERS = 256
_DEEPEST = 32

_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TOKEN = re.compile(rf"{_NUMBER.pattern}|[A-Za-z_]+|\S")
_Value = Callable[[float], float]
# What stands between two values, and how closely it binds them.
_SIGNS: dict[str, tuple[int, Callable[..., float]]] = {
    "+": (1, add),
    "-": (1, sub),
    "*": (2, mul),
    "/": (2, truediv),
    "%": (2, math.fmod),
    "^": (4, math.pow),
}
_MINUS = 3
# Of each function, how many arguments it takes at least and at most.
_FUNCTIONS: dict[str, tuple[Callable[..., float], int, int]] = {
    "pow": (math.pow, 2, 2),
    "sqrt": (math.sqrt, 1, 1),
    "abs": (abs, 1, 1),
    "exp": (math.exp, 1, 1),
    "floor": (math.floor, 1, 1),
    "ceil": (math.ceil, 1, 1),
    "round": (lambda x: math.floor(x + 0.5), 1, 1),
    "min": (min, 1, MOST_CHARACTERS),
    "max": (max, 1, MOST_CHARACTERS),
}


def waits_ms(text: str, retries: int) -> tuple[int, ...]:
    """The waits before so many retries; `retried` is 0 for the first one. A wait that is shorter or
    longer than Postdate has them is its shortest or longest one. Raises ValueError with the
    position in the text, counted from 1."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"It may have at most {MOST_CHARACTERS} characters.")
    value = _Parser(text).whole()
    waits = (value(float(retried)) for retried in range(max(retries, 1)))
    clipped = [min(max(wait, SHORTEST_DELAY_MS), LONGEST_DELAY_MS) for wait in waits]
    return tuple(map(math.ceil, clipped[:retries]))


class _Parser:
    """Reads an expression once into functions of `retried`. Bounded by its characters, and by how
    deep one part may stand in another."""

    def __init__(self, text: str) -> None:
        self._tokens = [(found[0], found.start() + 1) for found in _TOKEN.finditer(text)]
        self._tokens.append(("", len(text) + 1))
        self._next = self._depth = 0

    def whole(self) -> _Value:
        value = self._value(0)
        self._expect("")
        return value

    def _value(self, closest: int) -> _Value:
        """Up to a sign that binds less closely."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f"Character {self._tokens[self._next][1]}: it is nested too deeply.")
        value = self._atom()
        while (binds := _SIGNS.get(self._tokens[self._next][0])) and binds[0] >= closest:
            at = self._tokens[self._next][1]
            self._next += 1
            right = self._value(_MINUS if binds[0] > _MINUS else binds[0] + 1)
            value = _applied(binds[1], at, value, right)
        self._depth -= 1
        return value

    def _atom(self) -> _Value:
        text, at = self._tokens[self._next]
        if text == "(":
            return self._within(1)[0]
        self._next += 1
        if text in ("+", "-"):
            signed = self._value(_MINUS)
            return signed if text == "+" else _applied(neg, at, signed)
        if text == "retried":
            return lambda retried: retried
        if _NUMBER.fullmatch(text):
            return _applied(float, at, lambda _: float(text))
        if text not in _FUNCTIONS:
            self._next -= 1
            raise self._fault()
        function, least, most = _FUNCTIONS[text]
        values = self._within(most)
        if len(values) < least:
            raise ValueError(f"Character {at}: {text} takes {least} arguments.")
        return _applied(function, at, *values)

    def _within(self, most: int) -> list[_Value]:
        """Up to so many values in parentheses."""
        values, closes = list[_Value](), False
        self._expect("(")
        while not closes:
            values.append(self._value(0))
            closes = len(values) == most or self._tokens[self._next][0] != ","
            self._expect(")" if closes else ",")
        return values

    def _expect(self, mark: str) -> None:
        if self._tokens[self._next][0] != mark:
            raise self._fault()
        self._next += 1

    def _fault(self) -> ValueError:
        text, at = self._tokens[self._next]
        return ValueError(f"Character {at}: {repr(text) if text else 'its end'} cannot stand here.")


def _applied(function: Callable[..., float], at: int, *values: _Value) -> _Value:
    """Raises ValueError where the result is no finite number."""

    def value(retried: float) -> float:
        given = [each(retried) for each in values]
        try:
            result = float(function(*given))
        except (ArithmeticError, ValueError):
            result = math.nan
        if not math.isfinite(result):
            raise ValueError(f"Character {at}: there is no such number for retried {retried:.0f}.")
        return result

    return value
