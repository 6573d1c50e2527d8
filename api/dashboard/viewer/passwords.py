"""Passwords: argon2id, in threads, so that the event loop is not held up for its 50 ms."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

MIN_CHARACTERS = 10
MAX_CHARACTERS = 1000
# Of zxcvbn's 0 to 4: more than a hundred million guesses.
_LEAST_SCORE = 3
# The time for it grows faster than the password.
_JUDGED_CHARACTERS = 72
_BETWEEN_WORDS = re.compile(r"[\W_]+")

# Each takes 64 MiB for a moment: so many at once, and the others wait.
_threads = ThreadPoolExecutor(2, "argon2")
_hasher = PasswordHasher()


async def fault(password: str, again: str, own: Sequence[str] = ()) -> str | None:
    """The fault of a new password, if any. `own`: words that name its holder."""
    if password != again:
        return "The two passwords differ."
    if not MIN_CHARACTERS <= len(password) <= MAX_CHARACTERS:
        return f"It must have at least {MIN_CHARACTERS} characters; a few words are good."
    return await asyncio.get_running_loop().run_in_executor(_threads, _too_easy, password, own)


def _too_easy(password: str, own: Sequence[str]) -> str | None:
    """By zxcvbn, which knows common passwords, names, dates, keyboards and how people vary them."""
    from zxcvbn import zxcvbn  # its lists take 20 MB, and who sets no password needs none of it

    words = [part for text in own for part in (text, *_BETWEEN_WORDS.split(text)) if len(part) > 2]
    found = zxcvbn(password[:_JUDGED_CHARACTERS], user_inputs=words)
    if found["score"] >= _LEAST_SCORE:
        return None
    why = found["feedback"]["warning"]
    return " ".join(["It is too easy to guess.", *[why] * bool(why), "A few words are good."])


async def hashed(password: str) -> str:
    return await asyncio.get_running_loop().run_in_executor(_threads, _hasher.hash, password)


async def matches(password: str, stored: str | None) -> bool:
    """An account without a password takes as long as one with it: time does not reveal which."""
    if len(password) > MAX_CHARACTERS:
        return False
    return await asyncio.get_running_loop().run_in_executor(_threads, _verify, stored, password)


def _verify(stored: str | None, password: str) -> bool:
    try:
        return _hasher.verify(stored or _stand_in(), password) and stored is not None
    except (VerificationError, InvalidHashError):
        return False


@cache
def _stand_in() -> str:
    return _hasher.hash("of no account")
