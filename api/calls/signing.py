"""/signing: what an account's requests are signed with, to see and to rotate."""

from __future__ import annotations

from litestar import get, post

from api.answer import JsonResponse
from api.auth import call_of
from api.reading import REPLAYED, idempotency, read_body
from api.schema.account_bodies import SECRET, SecretsBody
from api.schema.field import DURATION
from api.schema.findings import Findings
from api.schema.json_text import Object, read
from api.schema.rules import duration
from api.service import HttpRequest
from scheduler.callers import SigningSecret
from scheduler.durations import DAY_MS
from scheduler.store.accounts.signing.signing import LONGEST_KEEP_MS

_ROTATION = Object(["keepFor"])


@get("/signing", operation_id="getSigningSecrets", summary="Read the signing secrets")
async def get_secrets(request: HttpRequest) -> JsonResponse:
    """Shows the secrets that sign requests, newest first. Each request carries a signature by each
    of them."""
    call = await call_of(request)
    secrets = await call.store.signing.secrets(call.account_id)
    return JsonResponse(200, _body(secrets))


@post("/signing/rotate", operation_id="rotateSigningSecret", summary="Make a new signing secret")
async def rotate_secret(request: HttpRequest) -> JsonResponse:
    """Makes a new secret. The earlier ones end after `keepFor`, or after a day if there is no body;
    until then each request is signed with all of them. All processes use the new one within 5
    seconds. At most three are valid at a time. With an `Idempotency-Key`, a repeat makes no further
    secret, and answers with the secrets of that time."""
    call, scope = await call_of(request), request.scope
    data = await read_body(scope, request.receive, call.service.settings.max_body_bytes)
    once = idempotency(scope, data)
    rotated = await call.store.signing.rotate(
        call.account_id, parse_rotation(data), once, await call.who()
    )
    return JsonResponse(201, _body(rotated.secrets), REPLAYED if rotated.replayed else None)


def parse_rotation(data: bytes) -> int:
    """How long the secrets before are to stay good (ms); a day, without a body. Raises
    InvalidRequest."""
    findings = Findings()
    keep_ms = DAY_MS
    for name, text in _ROTATION.members(data or b"{}", findings).items():
        try:
            keep_ms = kept(read(text, DURATION.decode, DURATION.fault))
        except ValueError as error:
            findings.add(name, str(error))
    findings.refuse_if_any()
    return keep_ms


def kept(span: str | int | None) -> int:
    """How long, in ms. Raises ValueError with a sentence."""
    keep_ms = DAY_MS if span is None else duration(span)
    if keep_ms > LONGEST_KEEP_MS:
        raise ValueError(f"It may be at most {LONGEST_KEEP_MS // DAY_MS} days.")
    return keep_ms


def _body(secrets: list[SigningSecret]) -> SecretsBody:
    return SecretsBody(list(map(SECRET.of, secrets)))


HANDLERS = [get_secrets, rotate_secret]
