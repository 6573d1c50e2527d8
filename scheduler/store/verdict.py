"""The one word that scripts have for what came of one schedule, or of one group of them."""

from __future__ import annotations

from enum import IntEnum


class Verdict(IntEnum):
    """Scripts spell it `V.DONE`. Each fits in a byte, as an Idempotency-Key's note keeps it."""

    ENDED = 0  # it had ended before; of what a worker settles, also that it was settled before
    DONE = 1
    AGAIN = 2  # not done because of others in the same step: to be sent again without those
    HELD = 3  # a worker holds it; of what a worker settles, another one
    DAMAGED = 4  # it, or a key of its account; nothing was changed
    CHANGED = 5  # it was changed or attempted since the caller read it
    UNKNOWN = 6  # there is no such schedule, or no such account
    UNPAID = 7  # there is no credit for it
    NO_ROOM = 8  # it would take its account over the quota
    KEY_REUSED = 9  # something else was asked with the same Idempotency-Key
    REPEATED = 10  # the same was asked with the same Idempotency-Key, and is answered as then
    NOT_ENDED = 11  # only schedules that have ended are replayed
    REPLAYED = 12  # it was replayed before
    CANCELLED = 13  # it was cancelled, and its body is not kept
