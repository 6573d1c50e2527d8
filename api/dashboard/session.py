"""Who looks at a page: the session cookie, and the account behind it."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from api import proxies
from api.limits import address_of
from api.service import HttpRequest, service_of
from scheduler.errors import NotFound, PostdateError
from scheduler.models import Account
from scheduler.store.accounts.sessions import SESSION_TTL_MS, Session

ROOT = "/dashboard"
SIGN_IN = f"{ROOT}/sign-in"

_SCOPE_KEY = "postdate.viewer"


class NotSignedIn(PostdateError):
    """There is no session, or it has ended."""

    def __init__(self) -> None:
        super().__init__("Please sign in")


class Viewer(NamedTuple):
    """A signed-in account holder."""

    session: Session
    account: Account

    @property
    def account_id(self) -> str:
        return self.account.account_id


async def signed_in(request: HttpRequest) -> Viewer:
    """Who makes this request. Raises NotSignedIn."""
    store = service_of(request).store
    secret = request.cookies.get(_cookie_name(request))
    session = await store.sessions.find(secret) if secret else None
    if session is None:
        raise NotSignedIn
    try:
        viewer = Viewer(session, await store.accounts.get(session.account_id))
    except NotFound:
        raise NotSignedIn from None
    cast("dict[str, Any]", request.scope)[_SCOPE_KEY] = viewer
    return viewer


def seen(request: HttpRequest) -> Viewer | None:
    """Who was found to make this request, if anybody was: an error page has a menu too."""
    return cast("dict[str, Any]", request.scope).get(_SCOPE_KEY)


async def operator(request: HttpRequest) -> Viewer:
    """The same for what only operators see; for others it is not there. Raises NotFound."""
    return judged_operator(await signed_in(request))


def judged_operator(viewer: Viewer) -> Viewer:
    """Raises NotFound for who is none."""
    if not viewer.account.operator:
        raise NotFound("There is no such page.")
    return viewer


def session_cookie(request: HttpRequest, secret: str) -> str:
    """The cookie that keeps a browser signed in. Lax, not Strict: a link in a mail may lead to a
    page of the dashboard, which must find the cookie."""
    return _cookie(request, secret, SESSION_TTL_MS // 1000)


def no_cookie(request: HttpRequest) -> str:
    """Takes the cookie away."""
    return _cookie(request, "", 0)


async def end_session(request: HttpRequest) -> None:
    """Closes the session that this browser had, before it is given another one."""
    sessions = service_of(request).store.sessions
    secret = request.cookies.get(_cookie_name(request))
    session = await sessions.find(secret) if secret else None
    if session is not None:
        await sessions.close(session)


def _cookie(request: HttpRequest, value: str, max_age_s: int) -> str:
    secure = is_https(request)
    # Browsers take a cookie of such a name only from the host itself, over TLS, for all its paths:
    # no other host of the domain can put one in its place.
    path = "/" if secure else ROOT
    cookie = f"{_cookie_name(request)}={value}; Path={path}; Max-Age={max_age_s}"
    cookie += "; HttpOnly; SameSite=Lax"
    return cookie + "; Secure" if secure else cookie


def _cookie_name(request: HttpRequest) -> str:
    """Browsers share cookies among the ports of a host: two Postdates on one machine must not sign
    each other out."""
    prefix = "__Host-" if is_https(request) else ""
    port = request.headers.get("host", "").rpartition("]")[2].partition(":")[2]
    return f"{prefix}postdate_session_{port}" if port.isdigit() else f"{prefix}postdate_session"


def base_url(request: HttpRequest) -> str:
    """Where clients find this API."""
    settings = service_of(request).settings
    if settings.public_url:
        return settings.public_url
    scheme = proxies.scheme(request.scope, settings.trusted_proxies)
    return f"{scheme}://{request.headers.get('host', 'localhost')}"


def is_https(request: HttpRequest) -> bool:
    """Whether browsers come over TLS, to us or to a proxy before us."""
    return proxies.is_https(request.scope, service_of(request).settings)


def client_address(request: HttpRequest) -> str:
    """Whose attempts to sign in are counted together."""
    trusted = service_of(request).settings.trusted_proxies
    return address_of(proxies.client_address(request.scope, trusted))


def is_htmx(request: HttpRequest) -> bool:
    return request.headers.get("hx-request") == "true"
