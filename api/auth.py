"""Who makes a request."""

from __future__ import annotations

from litestar.types import Scope

from api.body import header
from api.errors import RateLimited, Unauthorized
from api.rate import note_rate
from api.service import Service
from scheduler.errors import OutcomeUnknown, StoreUnavailable
from scheduler.models import Caller


async def authenticate(service: Service, scope: Scope) -> Caller:
    """The caller behind the request's API key, asked of the store each time, so that a
    deactivated key is refused on the very next request.

    The first thing that every handler but the public ones does: nothing is said about a request
    before it is known whose it is. Raises Unauthorized,
    RateLimited, or StoreUnavailable.
    """
    key = header(scope, b"x-api-key")
    if not key:
        raise await _refusal(service, "Missing API key")
    try:
        caller = await service.store.accounts.admit(key.decode("latin-1"))
    except OutcomeUnknown as error:  # of a mere question: nothing can have been changed
        raise StoreUnavailable(str(error)) from error
    if caller is None:
        raise await _refusal(service, "Invalid or inactive API key")
    if caller.rate is not None:
        note_rate(scope, caller.rate)
        if caller.rate.wait_s > 0:
            raise RateLimited(caller.rate.wait_s)
    return caller


async def _refusal(service: Service, sentence: str) -> Unauthorized:
    """The refusal, when its turn has come. Nothing is remembered of a bad key, so that one made
    a moment ago works at once, on every process."""
    in_turn = await service.refusals.turn()
    return Unauthorized(sentence, close=not in_turn)
