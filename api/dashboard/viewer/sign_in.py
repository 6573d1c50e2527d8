"""Members sign in with e-mail and password, and whoever has an operator's link by that. They set
their password and the time zone, and sign out. A link is shown by GET and redeemed by POST: mail
scanners follow links before their reader does."""

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
from api.dashboard.viewer.members import MAY_DO
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
from scheduler.callers import Role
from scheduler.errors import NotFound, Taken
from scheduler.lane_settings import LONGEST_NOTE, AccountCallback
from scheduler.store.accounts.sign_in.sessions import Linked, Opened, Purpose

_SPENT = (
    "It was used already, or is too old. An owner of the account can make a new one, and so can the"
    " operator of this Postdate: postdate account link ACCOUNT"
)


@get("/sign-in")
async def sign_in_page(request: HttpRequest) -> Raw:
    try:
        await signed_in(request)
    except NotSignedIn:
        return page(request, "viewer/sign_in.html", email="", fault=None)
    return _to_where_one_was(request)


@post("/sign-in", needs=Role.READ)
async def sign_in(request: HttpRequest) -> Raw:
    """Same error and same time for all refusals, so that accounts cannot be probed."""
    judge_origin(request)
    form = await read_form(request)
    email, password = form.get("email", ""), form.get("password", "")
    store, address = service_of(request).store, _place(request)
    wait_s = await store.attempts.count(email, address)
    if wait_s:
        fault = _too_many(wait_s)
        return page(request, "viewer/sign_in.html", status=429, email=email, fault=fault)
    holder = await store.members.find(email)
    if not await passwords.matches(password, holder and holder.password) or holder is None:
        fault = "E-mail and password do not match."
        return page(request, "viewer/sign_in.html", status=401, email=email, fault=fault)
    await store.attempts.forgive(email, address)
    return await _let_in(
        request, await store.sessions.open(holder.account_id, holder.member_id), form
    )


@get("/link/{secret:str}")
async def show_link(request: HttpRequest, secret: FromPath[str]) -> Raw:
    """A page with a button, or with a form where the link sets a password. Changes nothing."""
    linked = await service_of(request).store.sessions.leads_to(secret)
    if linked is None:
        return sentence(request, 410, "This link is no longer good", _SPENT)
    return await _link_page(request, secret, linked)


@post("/link/{secret:str}", needs=Role.READ)
async def redeem_link(request: HttpRequest, secret: FromPath[str]) -> Raw:
    """Signs in, once; and first sets the password that the link may be for. That counts as an
    attempt to sign in, because it tells whether another account has the address of an invitation.
    """
    judge_origin(request)
    form = await read_form(request)
    store = service_of(request).store
    linked, opened = await store.sessions.leads_to(secret), None
    if linked is not None and linked.purpose == Purpose.SIGN_IN:
        opened = await store.sessions.redeem(secret, Purpose.SIGN_IN)
    elif linked is not None:
        where = _place(request)
        wait_s = await store.attempts.count(linked.email, where)
        if wait_s:
            return await _link_page(request, secret, linked, _too_many(wait_s), 429)
        account = await store.accounts.get(linked.account_id)
        password, own = form.get("password", ""), (linked.email, account.name)
        fault = await passwords.fault(password, form.get("again", ""), own)
        if fault:
            return await _link_page(request, secret, linked, fault, 400)
        hashed = await passwords.hashed(password)
        try:
            if linked.purpose == Purpose.INVITE:
                opened = await store.members.join(secret, hashed)
            else:
                opened = await store.sessions.redeem(secret, Purpose.SET_PASSWORD, hashed)
        except Taken as refusal:
            return await _link_page(request, secret, linked, str(refusal), 409)
        if opened is not None:
            await store.attempts.forgive(linked.email, where)
    if opened is None:
        return sentence(request, 410, "This link is no longer good", _SPENT)
    return await _let_in(request, opened, form)


async def _link_page(
    request: HttpRequest, secret: str, linked: Linked, fault: str | None = None, status: int = 200
) -> Raw:
    account = await service_of(request).store.accounts.get(linked.account_id)
    signs_in = linked.purpose == Purpose.SIGN_IN
    name = "viewer/follow_link.html" if signs_in else "viewer/set_password.html"
    shown = {"secret": secret, "account": account, "linked": linked, "fault": fault}
    return page(request, name, status=status, may_do=MAY_DO[linked.role], **shown)


def _place(request: HttpRequest) -> str:
    """The network address that attempts count for."""
    trusted = service_of(request).settings.trusted_proxies
    return proxies.address_of(proxies.client_address(request.scope, trusted))


def _too_many(wait_s: int) -> str:
    return f"Too many attempts. Try again in {-(-wait_s // 60)} minutes."


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


@post("/sign-out", needs=Role.READ)
async def sign_out(request: HttpRequest) -> Raw:
    viewer, form = await written(request, even_suspended=True)
    sessions = service_of(request).store.sessions
    if form.get("where") == "everywhere":
        await sessions.close_all(viewer.session)
    else:
        await sessions.close(viewer.session)
    return redirect(request, SIGN_IN).with_cookie(session_cookie(request, ""))


@get("/account")
async def account_page(request: HttpRequest) -> Raw:
    return await _show(request, await signed_in(request))


@post("/account/callback", needs=Role.OWN)
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
        viewer.account_id, lambda before: replace(before, callback=callback), who=viewer.who
    )
    words = "Callbacks go there from now on." if callback else "Callbacks go nowhere by default."
    return await redirect_saying(request, viewer, words, f"{ROOT}/account")


@post("/account/password", needs=Role.READ)
async def change_password(request: HttpRequest) -> Raw:
    """Signs out every other browser, and gives this one a new session."""
    viewer, form = await written(request, even_suspended=True)
    account_id, member_id, email = viewer.account_id, viewer.session.member_id, viewer.session.email
    if not member_id:
        raise NotFound("Only members have a password.")
    store = service_of(request).store
    before = await store.members.password_of(account_id, member_id)
    if before is not None:
        if await store.attempts.count(email, account_id):
            return await _show(request, viewer, 429, fault="Too many attempts. Try again later.")
        if not await passwords.matches(form.get("current", ""), before):
            return await _show(request, viewer, 403, fault="That is not the current password.")
        await store.attempts.forgive(email, account_id)
    own = (email, viewer.account.name)
    fault = await passwords.fault(form.get("password", ""), form.get("again", ""), own)
    if fault:
        return await _show(request, viewer, 400, fault=fault)
    hashed = await passwords.hashed(form["password"])
    opened = await store.sessions.open(account_id, member_id, password=hashed)
    heard = "The password is set; your other browsers are signed out."
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
        sessions=await store.sessions.count(viewer.account_id, viewer.session.member_id),
        may_do=MAY_DO[viewer.role],
        pause=settings,
        callback_url=typed.get("url", "") if typed else callback.url if callback else "",
        callback_on=typed.get("on", "") if typed else callback.on if callback else "",
        spans=SPANS,
        longest_note=LONGEST_NOTE,
        has_password=await store.members.password_of(viewer.account_id, viewer.session.member_id)
        is not None,
    )


@post("/zone", needs=Role.READ)
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
