"""API keys: made here, their value shown once; deactivated here, and listed for good."""

from __future__ import annotations

import secrets

from litestar import get, post
from litestar.params import FromPath

from api.dashboard.answer import Raw, redirect
from api.dashboard.csrf import written
from api.dashboard.render import page
from api.dashboard.session import ROOT, Viewer, signed_in
from api.service import HttpRequest, service_of
from scheduler.errors import NotFound, TooMany
from scheduler.models import ApiKey

_LONGEST_NAME = 100


@get("/keys")
async def keys_page(request: HttpRequest) -> Raw:
    return await show_keys(request, await signed_in(request))


@post("/keys")
async def create_key(request: HttpRequest) -> Raw:
    """The answer is the one place where the value is ever shown: no redirect, nothing kept."""
    viewer, form = await written(request)
    name = " ".join(form.get("name", "").split())
    if not 1 <= len(name) <= _LONGEST_NAME:
        fault = f"Give it a name of 1 to {_LONGEST_NAME} characters that says what it is for."
        return await show_keys(request, viewer, 400, name=name, fault=fault)
    try:
        key, value = await service_of(request).store.api_keys.create(viewer.account_id, name)
    except TooMany as refusal:
        return await show_keys(request, viewer, 409, name=name, fault=str(refusal))
    return await show_keys(request, viewer, made=key, value=value)


@get("/keys/{key_id:str}/deactivate")
async def ask(request: HttpRequest, key_id: FromPath[str]) -> Raw:
    """Asks whether it is meant; the other answer is to go back."""
    viewer = await signed_in(request)
    key = await _own_key(request, viewer, key_id)
    return page(request, viewer, "deactivate_key.html", key=key)


@post("/keys/{key_id:str}/deactivate")
async def deactivate(request: HttpRequest, key_id: FromPath[str]) -> Raw:
    viewer, _ = await written(request)
    key = await _own_key(request, viewer, key_id)
    await service_of(request).store.api_keys.deactivate(key.key_id)
    return redirect(request, f"{ROOT}/keys")


async def _own_key(request: HttpRequest, viewer: Viewer, key_id: str) -> ApiKey:
    """Raises NotFound, for an unknown key as for another account's."""
    for key in await service_of(request).store.api_keys.of_account(viewer.account_id):
        if key.key_id == key_id:
            return key
    raise NotFound("There is no such API key.")


async def show_keys(
    request: HttpRequest,
    viewer: Viewer,
    status: int = 200,
    *,
    name: str = "",
    fault: str | None = None,
    made: ApiKey | None = None,
    value: str | None = None,
    not_rotated: str | None = None,
) -> Raw:
    """The keys and, under them, the signing secrets."""
    store = service_of(request).store
    keys = await store.api_keys.of_account(viewer.account_id)
    return page(
        request,
        viewer,
        "keys.html",
        status=status,
        keys=sorted(keys, key=lambda key: (not key.active, -key.created_at_ms)),
        name=name,
        fault=fault,
        made=made,
        value=value,
        not_rotated=not_rotated,
        secrets=await store.signing.secrets(viewer.account_id),
        rotation=secrets.token_urlsafe(12),
        now_ms=store.clock.now_ms(),
    )


HANDLERS = [keys_page, create_key, ask, deactivate]
