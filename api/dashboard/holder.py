"""The holder's own settings: the password, the browsers that are signed in, the time zone."""

from __future__ import annotations

from litestar import get, post

from api.dashboard import passwords
from api.dashboard.answer import Raw, redirect
from api.dashboard.csrf import written
from api.dashboard.render import page
from api.dashboard.session import (
    ROOT,
    Viewer,
    our_page,
    session_cookie,
    signed_in,
    zone_cookie,
)
from api.dashboard.zones import UTC, zone_named
from api.service import HttpRequest, service_of


@get("/account")
async def account_page(request: HttpRequest) -> Raw:
    return await _page(request, await signed_in(request))


@post("/account/password")
async def change_password(request: HttpRequest) -> Raw:
    """Signs out every other browser, and gives this one a new session."""
    viewer, form = await written(request, even_suspended=True)
    users = service_of(request).store.users
    holder = await users.of(viewer.account_id)
    if holder.password is not None:
        wait_s = await users.attempt(viewer.account.email, viewer.account_id)
        if wait_s:
            return await _page(request, viewer, 429, fault="Too many attempts. Try again later.")
        if not await passwords.matches(form.get("current", ""), holder.password):
            return await _page(request, viewer, 403, fault="That is not the current password.")
        await users.forgive(viewer.account.email, viewer.account_id)
    own = (viewer.account.email, viewer.account.name)
    fault = await passwords.fault(form.get("password", ""), form.get("again", ""), own)
    if fault:
        return await _page(request, viewer, 400, fault=fault)
    hashed = await passwords.hashed(form["password"])
    opened = await service_of(request).store.sessions.open(viewer.account_id, password=hashed)
    heard = "The password is set; other browsers are signed out."
    request.state.viewer = viewer._replace(session=opened.session, heard=heard)
    changed = await _page(request, viewer)
    return changed.with_cookie(session_cookie(request, opened.secret))


async def _page(
    request: HttpRequest, viewer: Viewer, status: int = 200, fault: str | None = None
) -> Raw:
    store = service_of(request).store
    return page(
        request,
        "account.html",
        status=status,
        fault=fault,
        sessions=await store.sessions.count(viewer.account_id),
        has_password=(await store.users.of(viewer.account_id)).password is not None,
    )


@post("/zone")
async def choose_zone(request: HttpRequest) -> Raw:
    """Keeps the browser's time zone in a cookie, and goes back to where it was made."""
    _, form = await written(request, even_suspended=True)
    zone = zone_named(form.get("zone", "")) or UTC
    back = our_page(form.get("back", "")) or ROOT
    return redirect(request, back).with_cookie(zone_cookie(request, zone))


HANDLERS = [account_page, change_password, choose_zone]
