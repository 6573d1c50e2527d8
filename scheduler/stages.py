"""The stages of an invocation in the worker that holds it, and which may follow which."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Stage(StrEnum):
    """How far a worker has come with an invocation that it holds."""

    CLAIMED = "claimed"  # its signing secret may have to be read, or its rule to be advanced
    TIMED = "timed"  # in the timer wheel
    QUEUED = "queued"  # due; waits for its turn, or for a connection
    CONNECTING = "connecting"
    SENT = "sent"
    ACKING = "acking"  # its outcome is being recorded
    UNSURE = "unsure"  # not sent, because its lease may have ended: the store is asked
    UNREADABLE = "unreadable"  # goes back to the store


# The last two stages are final. An occurrence waits in the queue of its rule's advance before it is
# timed. A request that a kept connection lost is sent once more over another one. A sent request
# never becomes unsure: its outcome is recorded.
NEXT: Mapping[Stage, frozenset[Stage]] = {
    Stage.CLAIMED: frozenset({Stage.QUEUED, Stage.TIMED, Stage.UNSURE, Stage.UNREADABLE}),
    Stage.TIMED: frozenset(
        {Stage.QUEUED, Stage.CONNECTING, Stage.SENT, Stage.ACKING, Stage.UNSURE}
    ),
    Stage.QUEUED: frozenset(
        {Stage.CLAIMED, Stage.QUEUED, Stage.CONNECTING, Stage.SENT, Stage.ACKING, Stage.UNSURE}
    ),
    Stage.CONNECTING: frozenset(
        {Stage.QUEUED, Stage.CONNECTING, Stage.SENT, Stage.ACKING, Stage.UNSURE}
    ),
    Stage.SENT: frozenset({Stage.CONNECTING, Stage.SENT, Stage.ACKING}),
    Stage.UNSURE: frozenset({Stage.TIMED, Stage.UNSURE}),
    Stage.ACKING: frozenset(),
    Stage.UNREADABLE: frozenset(),
}
# Nothing sends these at this moment: they may go back to the store.
UNSENT = frozenset({Stage.TIMED, Stage.QUEUED, Stage.UNSURE, Stage.UNREADABLE})
