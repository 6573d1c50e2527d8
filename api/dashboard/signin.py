"""Signing in, by a one-time link or with e-mail and password; setting a password; signing out."""

from __future__ import annotations

from litestar import get, post
from litestar.params import FromPath

from api.dashboard import passwords
from api.dashboard.answer import Raw, redirect
from api.dashboard.csrf import judge_origin, read_form, written
from api.dashboard.render import page, sentence
from api.dashboard.session import (
    SIGN_IN,
    NotSignedIn,
    back,
    client_address,
    no_back_cookie,
    no_cookie,
    session_cookie,
    signed_in,
)
from api.service import HttpRequest, service_of
from scheduler.store.accounts.sessions import Opened, Purpose

_SPENT = (
    "It was used already, or is older than an hour. Make a new one where Postdate runs: "
    "postdate account link ACCOUNT"
)


@get("/sign-in", include_in_schema=False)
async def sign_in_page(request: HttpRequest) -> Raw:
    try:
        await signed_in(request)
    except NotSignedIn:
        return page(request, None, "sign_in.html", email="", fault=None)
    return redirect(request, back(request)).with_cookie(no_back_cookie(request))


@post("/sign-in", include_in_schema=False)
async def sign_in(request: HttpRequest) -> Raw:
    """Whether there is such an account is not told, nor by how long it takes."""
    judge_origin(request)
    form = await read_form(request)
    email, password = form.get("email", ""), form.get("password", "")
    store, address = service_of(request).store, client_address(request)
    wait_s = await store.users.attempt(email, address)
    if wait_s:
        fault = f"Too many attempts. Try again in {-(-wait_s // 60)} minutes."
        return page(request, None, "sign_in.html", status=429, email=email, fault=fault)
    holder = await store.users.find(email)
    if not await passwords.matches(password, holder and holder.password) or holder is None:
        fault = "E-mail and password do not match."
        return page(request, None, "sign_in.html", status=401, email=email, fault=fault)
    await store.users.forgive(email, address)
    opened = await store.sessions.open(holder.account_id)
    return _welcome(request, opened)


@get("/link/{secret:str}", include_in_schema=False)
async def follow_link(request: HttpRequest, secret: FromPath[str]) -> Raw:
    """A link that signs in does so, once. One that sets a password shows where."""
    sessions = service_of(request).store.sessions
    if await sessions.is_good(secret, Purpose.SET_PASSWORD):
        return page(request, None, "set_password.html", secret=secret, fault=None)
    opened = await sessions.redeem(secret, Purpose.SIGN_IN)
    if opened is None:
        return sentence(request, None, 410, "This link is no longer good", _SPENT)
    return _welcome(request, opened)


@post("/link/{secret:str}", include_in_schema=False)
async def set_password(request: HttpRequest, secret: FromPath[str]) -> Raw:
    judge_origin(request)
    form = await read_form(request)
    sessions = service_of(request).store.sessions
    if not await sessions.is_good(secret, Purpose.SET_PASSWORD):
        return sentence(request, None, 410, "This link is no longer good", _SPENT)
    password = form.get("password", "")
    fault = passwords.fault(password, form.get("again", ""))
    if fault:
        return page(request, None, "set_password.html", status=400, secret=secret, fault=fault)
    hashed = await passwords.hashed(password)
    opened = await sessions.redeem(secret, Purpose.SET_PASSWORD, hashed)
    if opened is None:
        return sentence(request, None, 410, "This link is no longer good", _SPENT)
    return _welcome(request, opened)


@post("/sign-out", include_in_schema=False)
async def sign_out(request: HttpRequest) -> Raw:
    viewer, form = await written(request, even_suspended=True)
    sessions = service_of(request).store.sessions
    if form.get("where") == "everywhere":
        await sessions.close_all(viewer.account_id)
    else:
        await sessions.close(viewer.session)
    return redirect(request, SIGN_IN).with_cookie(no_cookie(request))


def _welcome(request: HttpRequest, opened: Opened) -> Raw:
    """To where the browser was before it had to sign in."""
    answer = redirect(request, back(request)).with_cookie(session_cookie(request, opened.secret))
    return answer.with_cookie(no_back_cookie(request))


HANDLERS = [sign_in_page, sign_in, follow_link, set_password, sign_out]
