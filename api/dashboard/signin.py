"""Signs in by a one-time link or with e-mail and password; sets a password; signs out. A link is
shown by GET and redeemed by POST: mail scanners follow links before their reader does."""

from __future__ import annotations

from litestar import get, post
from litestar.params import FromPath

from api.dashboard import passwords
from api.dashboard.answer import Raw, redirect
from api.dashboard.csrf import judge_origin, read_form, written
from api.dashboard.render import page, sentence
from api.dashboard.session import (
    ROOT,
    SIGN_IN,
    NotSignedIn,
    back,
    back_cookie,
    client_address,
    end_session,
    session_cookie,
    signed_in,
)
from api.service import HttpRequest, service_of
from scheduler.store.accounts.sessions import Opened, Purpose

_SPENT = (
    "It was used already, or is older than an hour. Make a new one where Postdate runs: "
    "postdate account link ACCOUNT"
)


@get("/sign-in")
async def sign_in_page(request: HttpRequest) -> Raw:
    try:
        await signed_in(request)
    except NotSignedIn:
        return page(request, "sign_in.html", email="", fault=None)
    return _to_where_one_was(request)


@post("/sign-in")
async def sign_in(request: HttpRequest) -> Raw:
    """Same error and same time for all refusals, so that accounts cannot be probed."""
    judge_origin(request)
    form = await read_form(request)
    email, password = form.get("email", ""), form.get("password", "")
    store, address = service_of(request).store, client_address(request)
    wait_s = await store.users.attempt(email, address)
    if wait_s:
        fault = f"Too many attempts. Try again in {-(-wait_s // 60)} minutes."
        return page(request, "sign_in.html", status=429, email=email, fault=fault)
    holder = await store.users.find(email)
    if not await passwords.matches(password, holder and holder.password) or holder is None:
        fault = "E-mail and password do not match."
        return page(request, "sign_in.html", status=401, email=email, fault=fault)
    await store.users.forgive(email, address)
    return await _let_in(request, await store.sessions.open(holder.account_id))


@get("/link/{secret:str}")
async def show_link(request: HttpRequest, secret: FromPath[str]) -> Raw:
    """A page with a button, or with a form where the link sets a password. Changes nothing."""
    store = service_of(request).store
    if await store.sessions.leads_to(secret, Purpose.SET_PASSWORD):
        return page(request, "set_password.html", secret=secret, fault=None)
    account_id = await store.sessions.leads_to(secret, Purpose.SIGN_IN)
    if account_id is None:
        return sentence(request, 410, "This link is no longer good", _SPENT)
    account = await store.accounts.get(account_id)
    return page(request, "follow_link.html", secret=secret, account=account)


@post("/link/{secret:str}")
async def redeem_link(request: HttpRequest, secret: FromPath[str]) -> Raw:
    """Signs in, once; and first sets the password that the link may be for."""
    judge_origin(request)
    form = await read_form(request)
    store = service_of(request).store
    account_id = await store.sessions.leads_to(secret, Purpose.SET_PASSWORD)
    if account_id is None:
        opened = await store.sessions.redeem(secret, Purpose.SIGN_IN)
    else:
        password, account = form.get("password", ""), await store.accounts.get(account_id)
        own = (account.email, account.name)
        fault = await passwords.fault(password, form.get("again", ""), own)
        if fault:
            return page(request, "set_password.html", status=400, secret=secret, fault=fault)
        hashed = await passwords.hashed(password)
        opened = await store.sessions.redeem(secret, Purpose.SET_PASSWORD, hashed)
    if opened is None:
        return sentence(request, 410, "This link is no longer good", _SPENT)
    return await _let_in(request, opened)


async def _let_in(request: HttpRequest, opened: Opened) -> Raw:
    """Back to the page that the browser had asked for, with a new session."""
    await end_session(request)
    return _to_where_one_was(request).with_cookie(session_cookie(request, opened.secret))


def _to_where_one_was(request: HttpRequest) -> Raw:
    before = back(request)
    answer = redirect(request, before or ROOT)
    return answer.with_cookie(back_cookie(request, "")) if before else answer


@post("/sign-out")
async def sign_out(request: HttpRequest) -> Raw:
    viewer, form = await written(request, even_suspended=True)
    sessions = service_of(request).store.sessions
    if form.get("where") == "everywhere":
        await sessions.close_all(viewer.account_id)
    else:
        await sessions.close(viewer.session)
    return redirect(request, SIGN_IN).with_cookie(session_cookie(request, ""))


HANDLERS = [sign_in_page, sign_in, show_link, redeem_link, sign_out]
