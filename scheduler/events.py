"""Events: why requests were late, and what operators did. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """Of an event. The first are of the whole service, then an operator's acts, then what an
    account's own stream has."""

    WORKER_STARTED = "worker-started"
    WORKER_STOPPED = "worker-stopped"
    WORKER_LOST = "worker-lost"
    WORKER_BACK = "worker-back"
    OTHER_VERSION = "other-version"
    STORE_AWAY = "store-away"

    HOLD = "hold"
    RESUMED = "resumed"
    DRAIN = "drain"
    LOOK = "look"
    GRANT = "grant"
    PLAN = "plan"
    CREATE = "create"
    RENAME = "rename"
    SUSPEND = "suspend"
    REINSTATE = "reinstate"
    DELETE = "delete"
    KEY_MADE = "key-made"
    KEY_DEACTIVATED = "key-deactivated"
    LINK = "link"
    MEMBERS = "members"
    RESTORE = "restore"
    RESEAL = "reseal"

    LANE_PAUSED = "lane-paused"
    LANE_RESUMED = "lane-resumed"
    LANE_CALM = "lane-calm"
    ACCOUNT_PAUSED = "account-paused"
    ACCOUNT_RESUMED = "account-resumed"
    ACCOUNT_SUSPENDED = "account-suspended"
    ACCOUNT_REINSTATED = "account-reinstated"
    BULK = "bulk"
    LANE_SET = "lane-set"
    LANE_CLEARED = "lane-cleared"
    RULE_MADE = "rule-made"
    RULE_CHANGED = "rule-changed"
    RULE_PAUSED = "rule-paused"
    RULE_RESUMED = "rule-resumed"
    RULE_DELETED = "rule-deleted"
    CALLBACK_SET = "callback-set"
    SECRETS_ROTATED = "secrets-rotated"
    API_KEY_MADE = "api-key-made"
    API_KEY_DEACTIVATED = "api-key-deactivated"
    MEMBER_INVITED = "member-invited"
    MEMBER_JOINED = "member-joined"
    MEMBER_ROLE = "member-role"
    MEMBER_REMOVED = "member-removed"
    PASSWORD_LINK = "password-link"  # noqa: S105
    SIGNED_OUT = "signed-out"


_ALL = list(Kind)
SERVICE = frozenset(_ALL[: _ALL.index(Kind.HOLD)])
ACTS = frozenset(_ALL[_ALL.index(Kind.HOLD) : _ALL.index(Kind.LANE_PAUSED)])
OWN = frozenset(_ALL[_ALL.index(Kind.LANE_PAUSED) :])

# Of each text; what is longer is cut.
MOST_CHARACTERS = 200
# Begins the reason why an act was not done, behind what it is about.
NOT_DONE = "not done: "


class Event(NamedTuple):
    """`event_id` orders the events of a stream; `at_ms` when it was noted (the store's clock).
    `who` did it: a person's address, "API key" and its name, "command line". `about` names a
    lane, a worker, an amount. It lasts `since_ms` to `at_ms`, or from `at_ms` on to `until_ms`, if
    it has these."""

    event_id: str
    at_ms: int
    kind: Kind
    account_id: str = ""
    who: str = ""
    about: str = ""
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def was_refused(self) -> bool:
        """Whether it says that the act which was noted before was not done."""
        return NOT_DONE in self.about
