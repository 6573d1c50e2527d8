"""Signing secrets: shown beside the API keys, and rotated here."""

from __future__ import annotations

import secrets

from litestar import get, post

from api.dashboard.answer import Raw, redirect
from api.dashboard.csrf import written
from api.dashboard.keys import show_keys
from api.dashboard.render import page
from api.dashboard.session import ROOT, signed_in
from api.findings import invalid
from api.service import HttpRequest, service_of
from api.signing import kept
from scheduler.errors import FieldError, TooManySecrets
from scheduler.models import Idempotency


@get("/signing/rotate")
async def ask(request: HttpRequest) -> Raw:
    """Asks whether the earlier secrets are to end at once; the other answer is to go back."""
    viewer = await signed_in(request)
    live = await service_of(request).store.signing.secrets(viewer.account_id)
    once = secrets.token_urlsafe(12)
    return page(request, viewer, "rotate_at_once.html", secrets=live, once=once)


@post("/signing/rotate")
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
    once = Idempotency(f"dashboard {form.get('once', '')[:_LONGEST_NAME]}", "rotate")
    store = service_of(request).store
    try:
        await store.signing.rotate(viewer.account_id, keep_ms, once)
    except TooManySecrets as refusal:
        fault = f"{str(refusal).rstrip('.')}."
        return await show_keys(request, viewer, 409, not_rotated=fault)
    until = f"good for {form['keep_for']} more" if keep_ms else "no longer good"
    words = f"A new signing secret is there, and signs from now on; the earlier ones are {until}."
    await store.sessions.say(viewer.session, words)
    # Not to a place on it: a browser that is on that page already would not load it anew.
    return redirect(request, f"{ROOT}/keys")


_LONGEST_NAME = 64
HANDLERS = [ask, rotate]
