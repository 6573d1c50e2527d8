"""Signing secrets: shown beside the API keys, and rotated here."""

from __future__ import annotations

from litestar import post

from api.dashboard.answer import Raw, redirect
from api.dashboard.csrf import written
from api.dashboard.keys import show_keys
from api.dashboard.session import ROOT
from api.findings import invalid
from api.rules import duration
from api.service import HttpRequest, service_of
from scheduler.errors import FieldError, TooManySecrets
from scheduler.store.accounts.signing import LONGEST_KEEP_MS


@post("/signing/rotate", include_in_schema=False)
async def rotate(request: HttpRequest) -> Raw:
    """A form that is sent twice makes one secret."""
    viewer, form = await written(request)
    try:
        keep_ms = duration(form.get("keep_for", ""))
    except ValueError as error:
        raise invalid([FieldError("keep_for", str(error))]) from None
    if keep_ms > LONGEST_KEEP_MS:
        raise invalid([FieldError("keep_for", "It may be at most 7 days.")])
    operation = f"dashboard {form.get('once', '')[:_LONGEST_NAME]}"
    store = service_of(request).store
    try:
        await store.signing.rotate(viewer.account_id, keep_ms, operation)
    except TooManySecrets as refusal:
        fault = f"{str(refusal).rstrip('.')}."
        return await show_keys(request, viewer, 409, not_rotated=fault)
    until = f"good for {form['keep_for']} more" if keep_ms else "no longer good"
    words = f"A new signing secret is there, and signs from now on; the earlier ones are {until}."
    await store.sessions.say(viewer.session, words)
    # Not to a place on it: a browser that is on that page already would not load it anew.
    return redirect(request, f"{ROOT}/keys")


_LONGEST_NAME = 64
HANDLERS = [rotate]
