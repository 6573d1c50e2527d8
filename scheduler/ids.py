"""Identifiers: `sch_`, `inv_` and `rec_` as TypeIDs, shard-carrying ones for accounts and API keys.

TypeID (https://github.com/jetify-com/typeid): a prefix, `_`, and a UUIDv7 in Crockford's base32, 26
lower-case characters that sort by creation time. A schedule and its only invocation share these.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import uuid_utils

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_SUFFIX = r"[0-7][0-9a-hjkmnp-tv-z]{25}"
_SCHEDULE = re.compile(rf"sch_({_SUFFIX})")
_RECURRING = re.compile(rf"rec_({_SUFFIX})")
_SHARDED = re.compile(r"(acc|key)_([0-9]{2,5})_([0-9a-hjkmnp-tv-z]{8})")
_API_KEY = re.compile(r"pd_([0-9]{2,5})_[A-Za-z0-9_-]{43}")
_SECRET = re.compile(r"([0-9]{2,5})_[A-Za-z0-9_-]{43}")
# Crockford's digits as those that `int` reads.
_TO_PYTHON = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")
# A UUIDv7 is a moment (48 bits), then version, variant and random bits (80).
_TAIL_BITS = 80
_TAIL = (1 << _TAIL_BITS) - 1
_HALF_BITS = 40
_HALF = (1 << _HALF_BITS) - 1
_ROOM = (1 << 16) - 1
_STEPS_DRAWN = 64  # of 32 bits each
# The highest random bit below the variant: the first id of a millisecond has a 0 there.
_ROOM_TO_ASCEND = 1 << 61
_SHOWN_CHARACTERS = 6
DOOR_KEY = "qsk_"  # in `signing.inc.lua` too


class Sharded(NamedTuple):
    """The parts of an account or key id: its shard, and what tells it from others there."""

    shard: int
    local: str


class _Sequence:
    """Makes ids. Within a millisecond each is higher than the one before (RFC 9562, 6.2, method 2),
    because requests that are due at the same moment fire in the order of their ids."""

    def __init__(self) -> None:
        self._last = 0

    def first_of(self, count: int, now_ms: int) -> int:
        if self._last >> _TAIL_BITS == now_ms:
            first = self._last + next(_steps) + 1
        else:
            first = now_ms << _TAIL_BITS | uuid_utils.uuid7().int & _TAIL & ~_ROOM_TO_ASCEND
        if count > 1:
            first += -first & _ROOM  # so that none of the others overflows
        self._last = first + count - 1
        return first


def _random_steps() -> Iterator[int]:
    """Many with one system call, which would take longer than all else of an id."""
    while True:
        yield from memoryview(os.urandom(_STEPS_DRAWN * 4)).cast("I")


_sequence, _steps = _Sequence(), _random_steps()


def new_schedule_ids(count: int, now_ms: int) -> list[str]:
    """Ids of schedules made together, by the store's clock; the rest follow from the first. They
    are higher than those that this process made before, unless the clock has gone back since."""
    return schedule_ids_from(_sequence.first_of(count, now_ms), count)


def schedule_ids_from(first: int, count: int) -> list[str]:
    """That one and those that follow it. Most differ in the last pair of characters alone."""
    if count == 1:
        return ["sch_" + _base32(first)]
    head, place = "sch_" + _base32(first)[:-2], first & 1023
    made = [head + pair for pair in _PAIRS[place : place + count]]
    left = count - len(made)
    return made + schedule_ids_from(first + len(made), left) if left else made


def to_bytes(schedule_id: str) -> bytes:
    return int(schedule_id[4:].translate(_TO_PYTHON), 32).to_bytes(16, "big")


def from_bytes(stored: bytes) -> str:
    return schedule_id(_base32(int.from_bytes(stored, "big")))


def created_at_ms(schedule_id: str) -> int:
    """When a schedule was created: its id, a UUIDv7, begins with that moment in 48 bits."""
    return _moment_ms(schedule_id[4:14])


@lru_cache(maxsize=1024)
def _moment_ms(digits: str) -> int:
    """Cached: schedules fired or listed together were mostly created together."""
    return int(digits.translate(_TO_PYTHON), 32)


def local(any_id: str) -> str:
    """What follows the prefix, as the store spells it: `sch_X`, `inv_X` and `rec_X` are `X`."""
    return any_id[4:]


def schedule_id(local: str) -> str:
    return "sch_" + local


def invocation_id(schedule_id: str) -> str:
    """The invocation of a schedule: `sch_X` fires as `inv_X`."""
    return "inv_" + schedule_id[4:]


def is_schedule_id(text: str) -> bool:
    return _SCHEDULE.fullmatch(text) is not None


def new_recurring_id(now_ms: int) -> str:
    return recurring_id(local(new_schedule_ids(1, now_ms)[0]))


def recurring_id(local: str) -> str:
    return "rec_" + local


def is_recurring_id(text: str) -> bool:
    return _RECURRING.fullmatch(text) is not None


def new_account_id(shard: int) -> str:
    return account_id(shard, _random(8))


def account_id(shard: int, local: str) -> str:
    return f"acc_{shard:02d}_{local}"


def new_key_id(shard: int) -> str:
    return key_id(shard, _random(8))


def key_id(shard: int, local: str) -> str:
    return f"key_{shard:02d}_{local}"


def new_member_id() -> str:
    return _random(8)


def new_signing_secret_id() -> str:
    return "sec_" + _random(12)


def new_door_key_id() -> str:
    """Of a key that signs what the QStash door sends."""
    return DOOR_KEY + _random(12)


def parse_sharded(text: str, prefix: str) -> Sharded | None:
    """Shard and local part of an `acc_…` or `key_…` id; None if it is not one."""
    match = _SHARDED.fullmatch(text)
    if match is None or match[1] != prefix:
        return None
    return Sharded(int(match[2]), match[3])


def new_api_key(shard: int) -> str:
    return "pd_" + new_secret(shard)


def api_key_shard(key: str) -> int | None:
    """The shard that an API key names; None if the text cannot be a key at all."""
    match = _API_KEY.fullmatch(key)
    return int(match[1]) if match else None


def new_secret(shard: int) -> str:
    """256 random bits for a session's cookie or a one-time link; only its hash is ever stored."""
    return f"{shard:02d}_{secrets.token_urlsafe(32)}"


def secret_shard(secret: str) -> int | None:
    match = _SECRET.fullmatch(secret)
    return int(match[1]) if match else None


def hash_secret(secret: str) -> str:
    """SHA-256 in hex, of an API key too. They are random: a slow hash would protect nothing."""
    return hashlib.sha256(secret.encode()).hexdigest()


def api_key_prefix(key: str) -> str:
    """How the key begins, for lists: enough to recognise it, too little to use it."""
    return key[: key.index("_", 3) + 1 + _SHOWN_CHARACTERS]


def new_operation() -> str:
    """A name for one operation, unique over all processes and restarts."""
    return secrets.token_urlsafe(9)


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _base32(value: int) -> str:
    """128 bits as 26 characters, two at a time; the first 10 are the moment in a UUIDv7."""
    # Numbers of one machine word take half the time.
    high, low = (value & _TAIL) >> _HALF_BITS, value & _HALF
    return moment_digits(value >> _TAIL_BITS) + _high_digits(high) + _digits(low)


def _digits(half: int) -> str:
    high, low = _PAIRS[half >> 30] + _PAIRS[half >> 20 & 1023], half & (1 << 20) - 1
    return high + _PAIRS[low >> 10] + _PAIRS[low & 1023]


# Ids of one millisecond have it in common.
_high_digits = lru_cache(maxsize=64)(_digits)


@lru_cache(maxsize=64)
def moment_digits(moment_ms: int) -> str:
    """Cached: under load many are made in one millisecond."""
    return "".join([_PAIRS[(moment_ms >> shift) & 1023] for shift in range(40, -1, -10)])
