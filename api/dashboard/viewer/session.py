"""The viewer of a page: the session cookie, the account behind it, and what they may do."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import NamedTuple, cast
from urllib.parse import quote

import msgspec
from markupsafe import escape

from api.dashboard.answer import Raw, html, is_for_panel, is_htmx, redirect
from api.dashboard.banner import Paused, paused_of
from api.dashboard.operators.impersonation import own_path
from api.dashboard.shared import shared_by
from api.dashboard.zones import UTC, Zone, zone_named
from api.door import proxies
from api.fair_queue import pay_by
from api.service import HttpRequest, service_of
from scheduler.callers import Role
from scheduler.errors import NotFound, PostdateError
from scheduler.events import Kind
from scheduler.ids import parse_sharded
from scheduler.models import Account
from scheduler.store import Store
from scheduler.store.accounts.sign_in.sessions import SESSION_TTL_MS, Session
from scheduler.store.operators.restore import Held
from scheduler.target.targets import split_url

ROOT = "/dashboard"
SIGN_IN = f"{ROOT}/sign-in"
# The pages of the menu, by their path below the root.
_MENU = {
    "": "Overview",
    "/requests": "Requests",
    "/recurring": "Recurring",
    "/lanes": "Lanes",
    "/keys": "API keys",
    "/credits": "Credits",
}
_OPERATORS_MENU = _MENU | {"/system": "System"}
# Of an account that an operator looks at: no secret has a page there.
_LOOKING_MENU = {path: words for path, words in _MENU.items() if path != "/keys"}

_ZONE_KEPT_S = 366 * 86_400
_BACK_KEPT_S = 900
_HOLD_GOOD_FOR_S = 1.0
_LOOK_GOOD_FOR_S = 60.0
# A page of ours, as it may stand in an address: no second slash, so no other host.
_OUR_PAGE = re.compile(r"/dashboard(?:[/?][\x21-\x7e]*)?")
_LONGEST_PAGE = 2000


class NotSignedIn(PostdateError):
    """There is no session, or it has ended."""


class _NotNoted(PostdateError):
    """The store did not take the entry for the audit: the next page tries again."""


class OwnAccount(PostdateError):
    """The page is of the viewer's own account, and stands at `page`."""

    def __init__(self, page: str) -> None:
        super().__init__(page)
        self.page = page


class Viewer(NamedTuple):
    """A signed-in account holder. `heard` is a message that the page shows once, `paused` the
    account's pauses, on whole pages. `operator` is the viewer who looks at another's `account`, and
    may change nothing of it; None on one's own pages. `held`: how many shards are on hold, for
    operators on whole pages."""

    session: Session
    account: Account
    heard: str = ""
    paused: Paused | None = None
    operator: Account | None = None
    held: Held | None = None

    @property
    def account_id(self) -> str:
        return self.account.account_id

    @property
    def own(self) -> Account:
        """The account that is signed in."""
        return self.operator or self.account

    @property
    def who(self) -> str:
        """As the account's history names them."""
        return self.session.who

    @property
    def person(self) -> str:
        """As the audit of operators names them."""
        return f"{self.session.who} ({self.own.name})"

    @property
    def role(self) -> Role:
        return self.session.role

    def may(self, needed: str) -> bool:
        """Whether the member's role includes this one. An operator who looks at an account may
        do nothing."""
        return self.operator is None and self.role.allows(Role(needed))

    @property
    def menu(self) -> dict[str, str]:
        if self.operator is not None:
            return _LOOKING_MENU
        menu = _OPERATORS_MENU if self.account.operator else _MENU
        return {path: words for path, words in menu.items() if path != "/keys" or self.may("own")}


async def signed_in(request: HttpRequest) -> Viewer:
    """The viewer who makes this request; its pages show their menu. Raises NotSignedIn; NotFound
    and OwnAccount at the address of an account that is looked at."""
    if (known := request.state.get("viewer")) is not None:  # the guard has asked
        return cast("Viewer", known)
    store, session = service_of(request).store, await _session(request)
    if session is None:
        raise NotSignedIn
    await pay_by(request.scope, session.account_id)
    try:
        account = await store.accounts.get(session.account_id)
    except NotFound:
        raise NotSignedIn from None
    # A suspended operator has only the account's own pages.
    is_operator = account.operator and not account.suspended
    viewer = Viewer(session, msgspec.structs.replace(account, operator=is_operator))
    if (looked_at := request.path_params.get("looked_at")) is not None:
        viewer = await _looking(request, viewer, looked_at)
    # A page or a panel shows the flash message; a live update does not.
    elif session.said and request.method == "GET" and not asks_for_news(request):
        viewer = viewer._replace(heard=await store.sessions.hear(session))
    if not (asks_for_news(request) or is_for_panel(request)):
        viewer = viewer._replace(paused=await paused_of(store, viewer.account_id))
        if viewer.own.operator:
            held = await shared_by(request).get("hold", _HOLD_GOOD_FOR_S, store.hold.look)
            viewer = viewer._replace(held=held)
    request.state.viewer = viewer  # for `render.page`
    return viewer


async def _looking(request: HttpRequest, viewer: Viewer, account_id: str) -> Viewer:
    """An operator's view of another account. Raises NotFound, of any account for others than
    operators; OwnAccount."""
    if account_id == viewer.account_id:
        raise OwnAccount(own_path(here(request)))
    if not viewer.account.operator or parse_sharded(account_id, "acc") is None:
        raise NotFound("There is no such page.")
    store, person = service_of(request).store, viewer.person
    account = await store.accounts.get(account_id)
    with suppress(_NotNoted):  # the log has it
        key = ("look", viewer.account_id, person, account_id)
        await shared_by(request).get(
            key, _LOOK_GOOD_FOR_S, lambda: _noted(store, person, account_id)
        )
    return viewer._replace(account=account, operator=viewer.account)


async def _noted(store: Store, person: str, account_id: str) -> None:
    if not await store.events.note_view(person, account_id, store.clock.now_ms()):
        raise _NotNoted


async def note(request: HttpRequest, viewer: Viewer, kind: Kind, about: str) -> None:
    """Notes in the account's history what the viewer has done."""
    events = service_of(request).store.events
    await events.note(viewer.account_id, kind, who=viewer.who, about=about)


async def redirect_saying(request: HttpRequest, viewer: Viewer, words: str, path: str) -> Raw:
    """To a page that says what was done; a press in the dialog of jumps is told there."""
    if request.headers.get("hx-target") == "div#found":
        return html(f'<p class="done" role="status">{escape(words)}</p>')
    await service_of(request).store.sessions.say(viewer.session, words)
    return redirect(request, path)


async def _session(request: HttpRequest) -> Session | None:
    secret = request.cookies.get(_cookie_name(request))
    return await service_of(request).store.sessions.find(secret) if secret else None


def has_zone(request: HttpRequest) -> bool:
    return "postdate_zone" in request.cookies


def zone_of(request: HttpRequest) -> Zone:
    return zone_named(request.cookies.get("postdate_zone", "")) or UTC


def zone_cookie(request: HttpRequest, zone: Zone) -> str:
    return _cookie(request, "postdate_zone", quote(zone.name, safe=""), _ZONE_KEPT_S)


def our_page(text: str) -> str | None:
    """A path with its query, if it is one of the dashboard's."""
    found = len(text) <= _LONGEST_PAGE and _OUR_PAGE.fullmatch(text)
    return text if found and "//" not in text.partition("?")[0] else None


def back_cookie(request: HttpRequest, page: str) -> str:
    """Keeps the page to go back to after the sign-in; '' takes the cookie away."""
    return _cookie(request, "postdate_back", quote(page, safe=""), _BACK_KEPT_S)


def back(request: HttpRequest) -> str | None:
    """The page that the browser had asked for before it had to sign in."""
    kept = request.cookies.get("postdate_back")
    return kept and (our_page(kept) or ROOT)


def here(request: HttpRequest) -> str:
    """The address of this page, below its host; for the answer to a press, which has none, that of
    the page with the button."""
    if request.method == "POST":
        return asked_for(request)
    query = request.scope["query_string"].decode("latin-1")
    return str(quote(request.scope["path"])) + (f"?{query}" if query else "")


def asked_for(request: HttpRequest) -> str:
    """The page that the browser shows or asks for: htmx names the one that it runs on."""
    if is_htmx(request):
        return our_page(split_url(request.headers.get("hx-current-url", ""))[1]) or ROOT
    return our_page(here(request)) or ROOT if request.method == "GET" else ROOT


def session_cookie(request: HttpRequest, secret: str) -> str:
    """The cookie of a signed-in browser; '' takes it away. Lax, so that links in mails find it."""
    return _cookie(request, _cookie_name(request), secret, SESSION_TTL_MS // 1000)


async def end_session(request: HttpRequest) -> None:
    session = await _session(request)
    if session is not None:
        await service_of(request).store.sessions.close(session)


def _cookie(request: HttpRequest, name: str, value: str, max_age_s: int) -> str:
    # A `__Host-` cookie needs this path: then no other host of the domain can replace it.
    path, secure = ("/", "; Secure") if is_https(request) else (ROOT, "")
    max_age_s = max_age_s if value else 0
    return f"{name}={value}; Path={path}; Max-Age={max_age_s}; HttpOnly; SameSite=Lax{secure}"


def _cookie_name(request: HttpRequest) -> str:
    """Ports of a host share cookies: two Postdates on one machine must not sign each other out."""
    prefix = "__Host-" if is_https(request) else ""
    port = request.headers.get("host", "").rpartition("]")[2].partition(":")[2]
    return f"{prefix}postdate_session_{port}" if port.isdigit() else f"{prefix}postdate_session"


def base_url(request: HttpRequest) -> str:
    """The URL at which clients find this API."""
    settings = service_of(request).settings
    if settings.public_url:
        return settings.public_url
    scheme = proxies.scheme(request.scope, settings.trusted_proxies)
    return f"{scheme}://{request.headers.get('host', 'localhost')}"


def is_https(request: HttpRequest) -> bool:
    """Whether browsers come over TLS, to us or to a proxy before us."""
    return proxies.is_https(request.scope, service_of(request).settings)


def asks_for_news(request: HttpRequest) -> bool:
    """Whether a page asks what has changed on it, and not for another page."""
    boosted = request.headers.get("hx-boosted") == "true"
    return is_htmx(request) and not boosted and not is_for_panel(request)
