"""What each behaviour of the target makes of a request that reaches it. Pure."""

from __future__ import annotations

from typing import NamedTuple

SLOWEST_TARGET_MS = 2500
# A flaky target has failed so often before it answers.
FLAKY_ATTEMPTS = 2


class Outcome(NamedTuple):
    """How the request ends, and the messages that may say so."""

    status: str
    code: int
    messages: frozenset[str]


_OUTCOMES = {
    "ok": Outcome("completed", 200, frozenset({""})),
    "slow": Outcome("completed", 200, frozenset({""})),
    "fail": Outcome("failed", 500, frozenset({"Internal Server Error"})),
    "busy": Outcome("failed", 503, frozenset({"Service Unavailable"})),
    "reset": Outcome(
        "failed", 0, frozenset({"Connection reset", "Connection closed before an answer"})
    ),
    "never": Outcome("failed", 0, frozenset()),
}


def outcome_of(behaviour: str, attempt: int) -> Outcome:
    """What this attempt comes to."""
    if behaviour == "flaky":
        behaviour = "busy" if attempt <= FLAKY_ATTEMPTS else "ok"
    return _OUTCOMES[behaviour]
