"""Writes come from our own pages: their Origin says so, and the session's token proves it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from urllib.parse import parse_qsl

from litestar.datastructures import MultiDict
from litestar.exceptions import PermissionDeniedException as Forbidden

from api.dashboard.viewer.session import Viewer, base_url, signed_in
from api.reading import read_body
from api.schema.findings import invalid
from api.service import HttpRequest
from scheduler.errors import FieldError, NotFound, Suspended
from scheduler.models import Idempotency
from scheduler.target.targets import split_url

_MAX_FORM_BYTES = 64 * 1024
_MOST_FIELDS = 1100
_LONGEST_ONCE = 64

Form = MultiDict[str]
# The key in a form, by which a second sending is recognized.
ONCE = re.compile(r"[\w-]{16}")


async def written(request: HttpRequest, *, even_suspended: bool = False) -> tuple[Viewer, Form]:
    """The viewer and the form. Raises NotSignedIn, Suspended, or Forbidden: another
    site may have sent it, or its page is of an earlier session."""
    judge_origin(request)
    viewer = await signed_in(request)
    if viewer.account.suspended and not even_suspended:
        raise Suspended
    form = await read_form(request)
    given = unmasked_token(form.pop("csrf", ""))
    if not hmac.compare_digest(given.encode(), viewer.session.csrf.encode()):
        raise Forbidden("This page is of an earlier session; reload it and try again")
    return viewer, form


def judged_operator(viewer: Viewer) -> None:
    """Raises NotFound for others and for suspended operators: this page does not exist for
    them."""
    if not viewer.account.operator:
        raise NotFound("There is no such page.")


async def read_form(request: HttpRequest) -> Form:
    """The fields of a form. Raises InvalidRequest."""
    body = await read_body(request.scope, request.receive, _MAX_FORM_BYTES)
    try:
        text, most = body.decode(), _MOST_FIELDS
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=most)
    except ValueError:
        raise invalid([FieldError("form", "It cannot be read.")]) from None
    return Form([(name, value.replace("\r\n", "\n")) for name, value in pairs])


def masked_token(token: str) -> str:
    """The session's token under a random mask, so that a compressed page reveals nothing of it."""
    plain = token.encode()
    pad = secrets.token_bytes(len(plain))
    return base64.urlsafe_b64encode(pad + _crossed(pad, plain)).decode()


def unmasked_token(text: str) -> str:
    """The token of a form; '' if it is malformed."""
    try:
        both = base64.urlsafe_b64decode(text.encode("ascii"))
    except ValueError:
        return ""
    half = len(both) // 2
    return _crossed(both[:half], both[half:]).decode("latin-1")


def once_of(form: Form, what: str) -> Idempotency:
    """Makes a write happen once, however often its form is sent; `what` is all that it depends on,
    so that the same form filled in differently is another write."""
    fingerprint = hashlib.sha256(what.encode()).hexdigest()
    once = form.get("once", "")[:_LONGEST_ONCE]
    return Idempotency(f"dashboard {once} {fingerprint[:16]}", fingerprint)


def _crossed(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))


def judge_origin(request: HttpRequest) -> None:
    """Raises Forbidden unless the browser says that a page of ours makes this request: by its
    Origin, or, as browsers hide that of a plain form without a referrer, by Sec-Fetch-Site."""
    origin = request.headers.get("origin")
    if origin and origin != "null":
        ours = (split_url(base_url(request))[0], request.headers.get("host"))
        if split_url(origin)[0] in ours:
            return
    elif request.headers.get("sec-fetch-site") == "same-origin":
        return
    raise Forbidden("This request did not come from a page of this dashboard")
