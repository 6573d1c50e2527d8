"""Which outcomes are tried again, and when. Pure."""

from __future__ import annotations

import math
from datetime import UTC
from email.utils import parsedate_to_datetime

from scheduler.models import Delivery, Invocation, Outcome, Request, Status
from scheduler.retries import LONGEST_ASKED_MS, SPREAD, USUAL_DELAYS_MS
from worker.answer import ASKING
from worker.outcome import Failure

# Of answers, those that say "not now". Any other 4xx is the target's word for "never again", as is
# a redirect, which is not followed.
_RETRIED = frozenset({408, 409, 425, 429})
# Errors that the same request would meet again, and those without an attempt. While errors are
# concealed, a forbidden destination is retried like a missing one.
_FINAL = (Failure.NOT_ALLOWED, Failure.BAD_REQUEST, Failure.LOST, Failure.EXPIRED)


def next_attempt_at_ms(
    invocation: Invocation, outcome: Outcome, *, sent: bool, now_ms: int, chance: float
) -> int | None:
    """When the next attempt is due by the store's clock, after one that ended so; None if that was
    the last. `sent`: its first byte was written. `chance` is from 0 to 1, at random."""
    request = invocation.request
    made = invocation.retry.number if invocation.retry else 0
    if made >= request.retries or not _may_be_repeated(request, outcome, sent=sent):
        return None
    at_ms = now_ms + _wait_ms(request, made, outcome, now_ms, chance)
    if request.expires_at_ms is not None and at_ms > request.expires_at_ms:
        return None
    return at_ms


def asked_ms(retry_after: str, now_ms: int) -> int:
    """How long a Retry-After asks to wait: seconds, or an HTTP date; 0 if that has passed, or if
    it is neither. No more than a day."""
    if retry_after.isascii() and retry_after.isdigit():
        return min(int(retry_after) * 1000, LONGEST_ASKED_MS)
    try:
        moment = parsedate_to_datetime(retry_after)
        at_ms = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
    return max(0, min(math.ceil(at_ms) - now_ms, LONGEST_ASKED_MS))


def _may_be_repeated(request: Request, outcome: Outcome, *, sent: bool) -> bool:
    code = outcome.status_code
    if outcome.status is not Status.FAILED:
        return False
    if code:
        return code in _RETRIED or 500 <= code < 600
    if outcome.error_message in _FINAL:
        return False
    # Without an answer the target may have acted on the request.
    return not sent or request.delivery is not Delivery.AT_MOST_ONCE


def _wait_ms(request: Request, made: int, outcome: Outcome, now_ms: int, chance: float) -> int:
    """The longer of its own delay and what the target asked for; each is lengthened by chance, what
    was asked for to a day at most."""
    delays_ms, longer = request.retry_delays_ms or USUAL_DELAYS_MS, 1 + SPREAD * chance
    wait_ms = delays_ms[min(made, len(delays_ms) - 1)] * longer
    if outcome.status_code in ASKING and outcome.retry_after:
        asked = asked_ms(outcome.retry_after, now_ms)
        wait_ms = max(wait_ms, min(asked * longer, LONGEST_ASKED_MS))
    return math.ceil(wait_ms)
