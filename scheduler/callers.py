"""Keys of accounts, and the callers who have them, as values; and what members may do."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from scheduler.ids import DOOR_KEY
from scheduler.models import Plan

# In the place of a member's address, in the history of an account: members must not learn which
# operator it was.
OPERATOR = "an operator"
OPERATORS_LINK = "operator's link"


class Role(StrEnum):
    """What a member may do; each may do what those before may."""

    READ = "read"
    ACT = "act"
    OWN = "own"

    def allows(self, needed: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(needed)


class ApiKey(msgspec.Struct, frozen=True):
    """What may be shown of a key after its creation: never its value, only how it begins."""

    key_id: str
    account_id: str
    name: str
    prefix: str
    active: bool
    created_at_ms: int
    last_used_at_ms: int | None = None


class SigningSecret(msgspec.Struct, frozen=True):
    """`whsec_` and 32 bytes in base64, good until `expires_at_ms`; None: until it is rotated. A key
    of the QStash door is `sig_` and more, used as text."""

    secret_id: str
    secret: str
    created_at_ms: int
    expires_at_ms: int | None = None

    def is_good_at(self, moment_ms: int) -> bool:
        return self.expires_at_ms is None or self.expires_at_ms > moment_ms

    @property
    def is_of_door(self) -> bool:
        return self.secret_id.startswith(DOOR_KEY)


class Rate(msgspec.Struct, frozen=True):
    """Where an account stands with its plan's rate: `limit` requests a second, as a burst too.
    `wait_s` is how long until a request would be within it; 0: this one is."""

    limit: int
    remaining: int
    full_in_s: int
    wait_s: int


class Caller(msgspec.Struct, frozen=True):
    """Who makes an API request: the account behind an active key; `rate` if its plan has one. Calls
    of a suspended account are refused."""

    account_id: str
    key_id: str
    plan: Plan
    rate: Rate | None = None
    suspended: bool = False


class KnownKey(msgspec.Struct, frozen=True):
    """An API key that was good when this process asked last, and whose it was."""

    shard: int
    sha256: str
    account_id: str
