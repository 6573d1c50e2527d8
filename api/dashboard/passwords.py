"""Passwords: argon2id, in threads, so that the event loop is not held up for its 50 ms."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

MIN_CHARACTERS = 10
MAX_CHARACTERS = 1000

# Each takes 64 MiB for a moment: so many at once, and the others wait.
_threads = ThreadPoolExecutor(2, "argon2")
_hasher = PasswordHasher()


def fault(password: str, again: str) -> str | None:
    """What is wrong with a new password; None if nothing is."""
    if password != again:
        return "The two passwords differ."
    if not MIN_CHARACTERS <= len(password) <= MAX_CHARACTERS:
        return f"It must have at least {MIN_CHARACTERS} characters; a few words are good."
    return None


async def hashed(password: str) -> str:
    return await asyncio.get_running_loop().run_in_executor(_threads, _hasher.hash, password)


async def matches(password: str, stored: str | None) -> bool:
    """Takes as long where there is no password: who has one is nobody's business."""
    if len(password) > MAX_CHARACTERS:
        return False
    return await asyncio.get_running_loop().run_in_executor(_threads, _verify, stored, password)


def _verify(stored: str | None, password: str) -> bool:
    try:
        return _hasher.verify(stored or _nobodys(), password) and stored is not None
    except (VerificationError, InvalidHashError):
        return False


@cache
def _nobodys() -> str:
    return _hasher.hash("nobody's")
