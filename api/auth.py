"""Who makes a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from litestar.types import Scope

from api.answer import note_rate
from api.fair_queue import pay_by
from api.reading import forget_body
from api.schema.query import Parameter, read_query
from api.service import HttpRequest, Service, service_of
from scheduler.callers import Caller, KnownKey, Rate
from scheduler.errors import PostdateError, Reason, Suspended
from scheduler.events import Kind
from scheduler.store import Store

_NAME, _AUTHORIZATION, _BEARER = b"x-api-key", b"authorization", b"bearer "
# A proxy before us may go by another one of them than we do.
_SEVERAL = "More than one API key: give one, as x-api-key or as Authorization: Bearer"


class Unauthorized(PostdateError):
    """The request has no API key, several, or none that is active. `close`: its connection ends."""

    reason = Reason.UNAUTHORIZED

    def __init__(self, sentence: str, *, close: bool = False) -> None:
        super().__init__(sentence)
        self.close = close


class RateLimited(PostdateError):
    """The account has used up its plan's rate; in `wait_s` seconds it may go on."""

    reason = Reason.RATE_LIMITED

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"Too many requests; try again in {wait_s} s")
        self.wait_s = wait_s


class Call(NamedTuple):
    """A request whose caller is known; `query` has the values of its parameters by name."""

    service: Service
    store: Store
    account_id: str
    query: dict[str, Any]
    key_id: str

    async def who(self) -> str:
        """As the account's history names them."""
        return f"API key {await self.store.api_keys.name_of(self.key_id)}"

    async def note(self, kind: Kind, about: str) -> None:
        """Adds an event to the account's history."""
        await self.store.events.note(self.account_id, kind, who=await self.who(), about=about)


async def call_of(request: HttpRequest, known: Sequence[Parameter] = ()) -> Call:
    """The caller, and the `known` parameters of the query. Each handler but the public ones begins
    with it, so that strangers learn nothing. Raises as `authenticate` does, and InvalidRequest."""
    service = service_of(request)
    caller = await authenticate(service, request.scope)
    query = read_query(request.scope["query_string"], known)
    return Call(service, service.store, caller.account_id, query, caller.key_id)


async def authenticate(service: Service, scope: Scope) -> Caller:
    """The caller behind the request's API key. The store is asked each time: a deactivated key is
    refused at once. Raises Unauthorized, RateLimited, Suspended, or StoreUnavailable."""
    keys = _keys(scope)
    if len(keys) > 1:
        raise await _refusal(service, scope, _SEVERAL)
    if not keys or not keys[0]:
        raise await _refusal(service, scope, "Missing API key")
    caller = await service.store.api_keys.admit(keys[0].decode("latin-1"))
    if caller is None:
        raise await _refusal(service, scope, "Invalid or inactive API key")
    await pay_by(scope, caller.account_id)
    if caller.rate is not None:
        count(scope, caller.rate)
    if caller.suspended:
        forget_body(scope)
        raise Suspended
    return caller


def known_key(service: Service, scope: Scope) -> KnownKey | None:
    """The request's one API key, if it was good when the store was asked last."""
    keys = _keys(scope)
    return service.store.api_keys.known(keys[0].decode("latin-1")) if len(keys) == 1 else None


def count(scope: Scope, rate: Rate) -> None:
    """Notes where the caller's account stands, for the answer. Raises RateLimited."""
    note_rate(scope, rate)
    if rate.wait_s > 0:
        raise RateLimited(rate.wait_s)


def is_keyed(scope: Scope) -> bool:
    """Whether the request has a key, good or not."""
    return any(_keys(scope))


def _keys(scope: Scope) -> list[bytes]:
    """Those of both headers; one that stands once in each is one. Other schemes than Bearer are for
    a proxy before us."""
    named, borne = list[bytes](), list[bytes]()
    for name, value in scope["headers"]:
        if name == _NAME:
            named.append(value)
        elif name == _AUTHORIZATION and value[: len(_BEARER)].lower() == _BEARER:
            borne.append(value[len(_BEARER) :].strip(b" "))
    return named if named == borne else named + borne


async def _refusal(service: Service, scope: Scope, sentence: str) -> Unauthorized:
    """The refusal, after its wait. Bad keys are not remembered: a new key works at once."""
    forget_body(scope)
    in_turn = await service.refusals.turn()
    return Unauthorized(sentence, close=not in_turn)
