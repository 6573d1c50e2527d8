"""/v2/keys: what signs the messages of an account, to read and to rotate."""

from __future__ import annotations

from api.answer import JsonResponse
from api.qstash.calls import QStashCall, Route
from scheduler.callers import SigningSecret


async def get_keys(call: QStashCall) -> JsonResponse:
    return _shown(await call.store.signing.door_keys(call.account_id))


async def rotate_keys(call: QStashCall) -> JsonResponse:
    """Workers sign with the new current key within 5 seconds."""
    who = await call.native.who()
    return _shown(await call.store.signing.door_keys(call.account_id, rotate=True, who=who))


def _shown(keys: list[SigningSecret]) -> JsonResponse:
    current, following = keys
    return JsonResponse(200, {"current": current.secret, "next": following.secret})


ROUTES = (
    Route("GET", "/v2/keys", get_keys),
    Route("POST", "/v2/keys/rotate", rotate_keys),
)
