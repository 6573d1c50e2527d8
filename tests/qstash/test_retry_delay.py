"""Expressions of waits: what they come to, and where one that is wrong is wrong."""

from __future__ import annotations

import random

import pytest

from api.qstash.retry_delay import MOST_CHARACTERS, waits_ms

WEEK_MS = 7 * 86_400_000


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("15000", (15_000, 15_000, 15_000)),
        ("7000 * retried", (1000, 7000, 14_000)),
        ("pow(retried, 2) * 1000", (1000, 1000, 4000)),
        ("1000 * (1 + retried)", (1000, 2000, 3000)),
        ("max(10, pow(2, retried))", (1000, 1000, 1000)),
        ("2 ^ 3 ^ 2 * 10", (5120,) * 3),
        ("-2^2 + 5004", (5000,) * 3),
        ("2^-1 * 4000", (2000,) * 3),
        ("10000 - 2000 - 3000", (5000,) * 3),
        ("90000 / 3 / 10", (3000,) * 3),
        ("-2 * -3 * 1000", (6000,) * 3),
        ("17500 % 5000", (2500,) * 3),
        ("1e3 + .5e3 + 2.", (1502,) * 3),
        ("exp(retried) * 1000", (1000, 2719, 7390)),
        ("round(1500.5) + floor(1.9) + ceil(0.1)", (1503,) * 3),
        ("sqrt(abs(-4000000))", (2000,) * 3),
        ("min(5000, 6000, 4000)", (4000,) * 3),
        ("min(5000)", (5000,) * 3),
        ("0 - 5", (1000,) * 3),
        ("1e15", (WEEK_MS,) * 3),
        ("1" + "+1" * 127, (1000,) * 3),
    ],
)
def test_an_expression_gives_the_waits(text: str, waits: tuple[int, ...]) -> None:
    assert waits_ms(text, 3) == waits
    assert waits_ms(text, 0) == ()


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("", 1),
        ("1 +", 4),
        ("1 2", 3),
        ("1.5.2", 4),
        ("foo(1)", 1),
        ("Retried", 1),
        ("__import__('os')", 1),
        ("pow(1)", 1),
        ("pow(1, 2, 3)", 1),
        ("1 + (2, 3)", 5),
        ("min()", 5),
        ("sqrt 4", 6),
        ("1)", 2),
        ("(1", 3),
        (".", 1),
        ("²", 1),
        ("1000 / retried", 6),
        ("1000 % retried", 6),
        ("1000 + sqrt(0 - 1)", 8),
        ("(0 - 8) ^ 0.5", 9),
        ("exp(1000)", 1),
        ("1e999", 1),
        ("1e300 * 1e300", 7),
        ("10 ^ 400", 4),
        ("(" * 120 + "1", 33),
        ("-" * 100 + "1", 33),
        ("2" + "^2" * 100, 65),
    ],
)
def test_a_fault_has_its_position(text: str, at: int) -> None:
    with pytest.raises(ValueError, match=rf"^Character {at}: "):
        waits_ms(text, 3)


def test_an_expression_is_bounded() -> None:
    waits_ms("1" * MOST_CHARACTERS, 3)
    with pytest.raises(ValueError, match="at most 256 characters"):
        waits_ms(" " * MOST_CHARACTERS + "1", 3)


def test_no_text_raises_anything_else() -> None:
    chosen = random.Random(4711)
    words = [*"0123456789.+-*/%^(),² ", "retried", "pow(", "sqrt(", "exp(", "min(", "1e9", "e"]
    for _ in range(5000):
        text = "".join(chosen.choices(words, k=chosen.randrange(40)))
        try:
            waits = waits_ms(text, 20)
        except ValueError as error:
            assert str(error)  # noqa: PT017
        else:
            assert all(1000 <= wait <= WEEK_MS for wait in waits)
