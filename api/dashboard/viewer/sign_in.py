"""The account holder: signs in by a one-time link or with e-mail and password, sets the password
and the time zone, signs out. A link is shown by GET and redeemed by POST: mail scanners follow
links before their reader does."""

from __future__ import annotations

from litestar import get, post
from litestar.params import FromPath
from msgspec.structs import replace

from api.dashboard.answer import Raw, redirect
from api.dashboard.banner import readable
from api.dashboard.pauses import SPANS
from api.dashboard.render import page, sentence
from api.dashboard.viewer import passwords
from api.dashboard.viewer.csrf import Form, judge_origin, read_form, written
from api.dashboard.viewer.session import (
    ROOT,
    SIGN_IN,
    NotSignedIn,
    Viewer,
    back,
    back_cookie,
    end_session,
    has_zone,
    our_page,
    redirect_saying,
    session_cookie,
    signed_in,
    zone_cookie,
)
from api.dashboard.zones import UTC, zone_named
from api.door import proxies
from api.schema.settings_fields import OF_ACCOUNT
from api.service import HttpRequest, service_of
from scheduler.callbacks import CallbackOn
from scheduler.lane_settings import LONGEST_NOTE, AccountCallback
from scheduler.store.accounts.sign_in.sessions import Opened, Purpose

_SPENT = (
    "It was used already, or is older than an hour. Make a new one where Postdate runs: "
    "postdate account link ACCOUNT"
)


@get("/sign-in")
async def sign_in_page(request: HttpRequest) -> Raw:
    try:
        await signed_in(request)
    except NotSignedIn:
        return page(request, "viewer/sign_in.html", email="", fault=None)
    return _to_where_one_was(request)


@post("/sign-in")
async def sign_in(request: HttpRequest) -> Raw:
    """Same error and same time for all refusals, so that accounts cannot be probed."""
    judge_origin(request)
    form = await read_form(request)
    email, password = form.get("email", ""), form.get("password", "")
    store, trusted = service_of(request).store, service_of(request).settings.trusted_proxies
    address = proxies.address_of(proxies.client_address(request.scope, trusted))
    wait_s = await store.users.attempt(email, address)
    if wait_s:
        fault = f"Too many attempts. Try again in {-(-wait_s // 60)} minutes."
        return page(request, "viewer/sign_in.html", status=429, email=email, fault=fault)
    holder = await store.users.find(email)
    if not await passwords.matches(password, holder and holder.password) or holder is None:
        fault = "E-mail and password do not match."
        return page(request, "viewer/sign_in.html", status=401, email=email, fault=fault)
    await store.users.forgive(email, address)
    return await _let_in(request, await store.sessions.open(holder.account_id), form)


@get("/link/{secret:str}")
async def show_link(request: HttpRequest, secret: FromPath[str]) -> Raw:
    """A page with a button, or with a form where the link sets a password. Changes nothing."""
    store = service_of(request).store
    if await store.sessions.leads_to(secret, Purpose.SET_PASSWORD):
        return page(request, "viewer/set_password.html", secret=secret, fault=None)
    account_id = await store.sessions.leads_to(secret, Purpose.SIGN_IN)
    if account_id is None:
        return sentence(request, 410, "This link is no longer good", _SPENT)
    account = await store.accounts.get(account_id)
    return page(request, "viewer/follow_link.html", secret=secret, account=account)


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
            return page(request, "viewer/set_password.html", status=400, secret=secret, fault=fault)
        hashed = await passwords.hashed(password)
        opened = await store.sessions.redeem(secret, Purpose.SET_PASSWORD, hashed)
    if opened is None:
        return sentence(request, 410, "This link is no longer good", _SPENT)
    return await _let_in(request, opened, form)


async def _let_in(request: HttpRequest, opened: Opened, form: Form) -> Raw:
    """Back to the page that the browser had asked for, with a new session; in the zone of the
    browser's clock, which dashboard.js sends, unless its user chose one before."""
    await end_session(request)
    answer = _to_where_one_was(request).with_cookie(session_cookie(request, opened.secret))
    zone = zone_named(form.get("zone", ""))
    if zone is None or has_zone(request):
        return answer
    return answer.with_cookie(zone_cookie(request, zone))


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


@get("/account")
async def account_page(request: HttpRequest) -> Raw:
    return await _show(request, await signed_in(request))


@post("/account/callback")
async def set_callback(request: HttpRequest) -> Raw:
    """Where the ends of schedules are reported that do not say; nowhere, if the URL is empty."""
    viewer, form = await written(request)
    service, url, callback = service_of(request), form.get("url", "").strip(), None
    if url:
        try:
            now_ms = service.store.clock.now_ms()
            url = OF_ACCOUNT["callbackUrl"].rule(url, service.rules, now_ms)
        except ValueError as error:
            return await _show(request, viewer, 400, fault=f"Callback to: {error}", typed=form)
        callback = AccountCallback(url, CallbackOn("failed" if form.get("on") else "executed"))
    await service.store.pauses.change(
        viewer.account_id, lambda before: replace(before, callback=callback)
    )
    words = "Callbacks go there from now on." if callback else "Callbacks go nowhere by default."
    return await redirect_saying(request, viewer, words, f"{ROOT}/account")


@post("/account/password")
async def change_password(request: HttpRequest) -> Raw:
    """Signs out every other browser, and gives this one a new session."""
    viewer, form = await written(request, even_suspended=True)
    users = service_of(request).store.users
    holder = await users.of(viewer.account_id)
    if holder.password is not None:
        wait_s = await users.attempt(viewer.account.email, viewer.account_id)
        if wait_s:
            return await _show(request, viewer, 429, fault="Too many attempts. Try again later.")
        if not await passwords.matches(form.get("current", ""), holder.password):
            return await _show(request, viewer, 403, fault="That is not the current password.")
        await users.forgive(viewer.account.email, viewer.account_id)
    own = (viewer.account.email, viewer.account.name)
    fault = await passwords.fault(form.get("password", ""), form.get("again", ""), own)
    if fault:
        return await _show(request, viewer, 400, fault=fault)
    hashed = await passwords.hashed(form["password"])
    opened = await service_of(request).store.sessions.open(viewer.account_id, password=hashed)
    heard = "The password is set; other browsers are signed out."
    request.state.viewer = viewer._replace(session=opened.session, heard=heard)
    changed = await _show(request, viewer)
    return changed.with_cookie(session_cookie(request, opened.secret))


async def _show(
    request: HttpRequest,
    viewer: Viewer,
    status: int = 200,
    fault: str | None = None,
    typed: Form | None = None,
) -> Raw:
    """`typed` is what the form of the callback was sent with."""
    store = service_of(request).store
    settings = await readable(store.pauses.read(viewer.account_id), viewer.account_id)
    callback = settings.callback if settings else None
    return page(
        request,
        "account.html",
        status=status,
        fault=fault,
        sessions=await store.sessions.count(viewer.account_id),
        pause=settings,
        callback_url=typed.get("url", "") if typed else callback.url if callback else "",
        callback_on=typed.get("on", "") if typed else callback.on if callback else "",
        spans=SPANS,
        longest_note=LONGEST_NOTE,
        has_password=(await store.users.of(viewer.account_id)).password is not None,
    )


@post("/zone")
async def choose_zone(request: HttpRequest) -> Raw:
    _, form = await written(request, even_suspended=True)
    zone = zone_named(form.get("zone", "")) or UTC
    there = our_page(form.get("back", "")) or ROOT
    return redirect(request, there).with_cookie(zone_cookie(request, zone))


HANDLERS = [
    sign_in_page,
    sign_in,
    show_link,
    redeem_link,
    sign_out,
    account_page,
    set_callback,
    change_password,
    choose_zone,
]
