"""API keys: made here, their value shown once; deactivated here, and listed for good. Signing
secrets stand under them, and are rotated here."""

from __future__ import annotations

from typing import Any

from litestar import get, post
from litestar.params import FromPath

from api.calls.signing import kept
from api.dashboard.answer import Raw, redirect
from api.dashboard.render import page
from api.dashboard.viewer.csrf import once_of, written
from api.dashboard.viewer.session import ROOT, Viewer, redirect_saying, signed_in
from api.schema.findings import invalid
from api.service import HttpRequest, service_of
from scheduler.callers import ApiKey, Role
from scheduler.errors import FieldError, NotFound, TooMany, TooManySecrets

_LONGEST_NAME = 100


@get("/keys", needs=Role.OWN)
async def keys_page(request: HttpRequest) -> Raw:
    return await _show(request, await signed_in(request))


@post("/keys", needs=Role.OWN)
async def create_key(request: HttpRequest) -> Raw:
    """The answer is the one place where the value is ever shown: no redirect, nothing kept."""
    viewer, form = await written(request)
    name = " ".join(form.get("name", "").split())
    if not 1 <= len(name) <= _LONGEST_NAME:
        fault = f"Give it a name of 1 to {_LONGEST_NAME} characters that says what it is for."
        return await _show(request, viewer, 400, name=name, fault=fault)
    try:
        key, value = await service_of(request).store.api_keys.create(
            viewer.account_id, name, viewer.who
        )
    except TooMany as refusal:
        return await _show(request, viewer, 409, name=name, fault=str(refusal))
    return await _show(request, viewer, made=key, value=value)


@get("/keys/{key_id:str}/deactivate", needs=Role.OWN)
async def ask(request: HttpRequest, key_id: FromPath[str]) -> Raw:
    key = await _own_key(request, await signed_in(request), key_id)
    return page(request, "deactivate_key.html", key=key)


@post("/keys/{key_id:str}/deactivate", needs=Role.OWN)
async def deactivate(request: HttpRequest, key_id: FromPath[str]) -> Raw:
    viewer, _ = await written(request)
    key = await _own_key(request, viewer, key_id)
    await service_of(request).store.api_keys.deactivate(key.key_id, viewer.who)
    return redirect(request, f"{ROOT}/keys")


@get("/signing/rotate", needs=Role.OWN)
async def ask_to_rotate(request: HttpRequest) -> Raw:
    viewer = await signed_in(request)
    live = await service_of(request).store.signing.secrets(viewer.account_id)
    return page(request, "rotate_at_once.html", secrets=live)


@post("/signing/rotate", needs=Role.OWN)
async def rotate(request: HttpRequest) -> Raw:
    """A form that is sent twice makes one secret. Targets refuse every request if the secrets that
    they know end at once, so that needs a confirmation."""
    viewer, form = await written(request)
    try:
        keep_ms = kept(form.get("keep_for", ""))
    except ValueError as error:
        raise invalid([FieldError("keep_for", str(error))]) from None
    if not keep_ms and not form.get("confirmed"):
        return redirect(request, f"{ROOT}/signing/rotate")
    signing = service_of(request).store.signing
    try:
        await signing.rotate(viewer.account_id, keep_ms, once_of(form, "rotate"), viewer.who)
    except TooManySecrets as refusal:
        fault = f"{str(refusal).rstrip('.')}."
        return await _show(request, viewer, 409, not_rotated=fault)
    until = f"good for {form['keep_for']} more" if keep_ms else "no longer good"
    words = f"A new signing secret is there, and signs from now on; the earlier ones are {until}."
    # Not to a place on it: a browser that is on that page already would not load it anew.
    return await redirect_saying(request, viewer, words, f"{ROOT}/keys")


async def _own_key(request: HttpRequest, viewer: Viewer, key_id: str) -> ApiKey:
    """Raises NotFound, for an unknown key as for another account's."""
    for key in await service_of(request).store.api_keys.of_account(viewer.account_id):
        if key.key_id == key_id:
            return key
    raise NotFound("There is no such API key.")


async def _show(request: HttpRequest, viewer: Viewer, status: int = 200, **shown: Any) -> Raw:
    store = service_of(request).store
    keys = await store.api_keys.of_account(viewer.account_id)
    nothing = {"name": "", "fault": None, "made": None, "value": None, "not_rotated": None}
    return page(
        request,
        "keys.html",
        status=status,
        keys=sorted(keys, key=lambda key: (not key.active, -key.created_at_ms)),
        secrets=await store.signing.secrets(viewer.account_id),
        **(nothing | shown),
    )


HANDLERS = [keys_page, create_key, ask, deactivate, ask_to_rotate, rotate]
