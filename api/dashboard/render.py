"""Templates to pages; and the files that pages name, from memory: none is of another host."""

from __future__ import annotations

import asyncio
import gzip
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe
from threading import Thread
from typing import Any

import brotli
from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from litestar import get
from litestar.params import FromPath
from litestar.types import Receive, Scope, Send

from api.dashboard import formats, fragments
from api.dashboard.answer import Raw, html, is_for_panel, takes
from api.dashboard.causes import held_words
from api.dashboard.operators.impersonation import address_of, looked_at, own_path
from api.dashboard.requests.form import facts_of, pattern_of
from api.dashboard.viewer.csrf import masked_token
from api.dashboard.viewer.session import Viewer, asks_for_news, base_url, here, zone_of
from api.fair_queue import STRANGERS, note_time
from api.service import HttpRequest
from scheduler.errors import NotFound
from scheduler.lane_settings import HeldBy
from scheduler.masks import masked_url
from scheduler.times import format_iso8601

_HERE = Path(__file__).parent
_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
    ".woff2": b"font/woff2",
}

# One style sheet of these files; of rules as specific as each other, a later file's holds.
_STYLES = (
    *("tokens", "page", "figures", "charts", "forms", "lanes", "tables"),
    *("list", "panel", "dialogs", "print"),
)


# One script of these, the first of which makes it strict. uPlot is for pages with a chart alone.
_SCRIPTS = (
    *("pieces.js", "htmx.min.js", "list.js", "keys.js", "jump.js", "finder.js", "charts.js"),
    "dashboard.js",
)
# Comments and indentation, which browsers need not load.
_ASIDES = {
    ".css": re.compile(rb"/\*.*?\*/\s*|^\s+", re.DOTALL | re.MULTILINE),
    ".js": re.compile(rb"^(?: *//.*\n| +)", re.MULTILINE),
}


def _lean(path: Path) -> bytes:
    asides = None if ".min." in path.name else _ASIDES.get(path.suffix)
    content = path.read_bytes()
    return asides.sub(b"", content) if asides else content


def _contents() -> Iterator[tuple[str, bytes]]:
    static = _HERE / "static"
    yield "dashboard.css", b"".join(_lean(static / f"css/{name}.css") for name in _STYLES)
    yield "dashboard.js", b"\n".join(_lean(static / name) for name in _SCRIPTS)
    for path in static.iterdir():
        if path.is_file() and path.name not in _SCRIPTS:
            yield path.name, _lean(path)


def _file(name: str, content: bytes) -> Raw:
    headers = [
        (b"content-type", _TYPES[Path(name).suffix]),
        (b"cache-control", b"public, max-age=31536000, immutable"),
    ]
    # The format of a font compresses already.
    packed = None if name.endswith(".woff2") else gzip.compress(content, 9, mtime=0)
    return Raw(200, content, headers, packed)


_FILES = {name: _file(name, content) for name, content in _contents()}
_VERSIONS = {name: sha256(file.body).hexdigest()[:12] for name, file in _FILES.items()}


def address(name: str) -> str:
    """The address of a file's version, which browsers may keep for long."""
    return f"/dashboard/static/{name}?v={_VERSIONS[name]}"


@pass_context
def _marked(context: Context, text: str) -> str:
    """The live part of a page, as its next update wants to find it."""
    return fragments.marked(text, context["pieces_key"], (context["csrf"], context["once"]))


@pass_context
def _held(context: Context, held_by: HeldBy, now_ms: float) -> str:
    return held_words(held_by, now_ms, context["zone"])


_templates = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    # Whatever stands on a page; what a field has goes back as it came, `as_typed`.
    finalize=formats.shown,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(formats.FILTERS, pieces=_marked, request_facts=facts_of, held=_held)
_templates.filters.update(pattern=pattern_of, masked_url=masked_url)
_templates.globals.update(asset=address, iso=format_iso8601)
_templates.globals.update(looking_at=address_of)


@dataclass(slots=True)
class Page(Raw):
    """Rendered when it is sent, which takes 10 ms: in a thread, one page at a time and accounts in
    turn, so that the event loop goes on. What the thread takes is the account's time."""

    render: Callable[[], str] = str
    account_id: str = STRANGERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service, took_s = scope["litestar_app"].state.service, 0.0
        async with service.pages.turn("", self.account_id):
            rendering = asyncio.create_task(asyncio.to_thread(self._rendered))
            try:
                self.body, took_s = await asyncio.shield(rendering)
            except asyncio.CancelledError:
                # The thread goes on: only when it ends another page may be rendered.
                _, took_s = await rendering
                raise
            finally:
                note_time(scope, took_s)
        await Raw.__call__(self, scope, receive, send)

    def _rendered(self) -> tuple[bytes, float]:
        began_s = time.thread_time()
        body = self.render().encode()
        return body, time.thread_time() - began_s


def page(
    request: HttpRequest,
    name: str,
    /,
    *,
    status: int = 200,
    **values: Any,
) -> Page:
    """A whole page, or a part of one, as the template is; of a live part only what the browser does
    not have. Without a viewer there is no menu. A value
    that takes long to compute is a function, which the template calls."""
    viewer: Viewer | None = request.state.get("viewer")
    csrf, once = masked_token(viewer.session.csrf) if viewer else "", token_urlsafe(12)
    key = viewer.session.csrf + looked_at(request.scope["path"]) if viewer else ""
    has = fragments.names_of(request.headers.get("postdate-has"))
    if not viewer or status != 200 or not asks_for_news(request):
        has = None
    values.update(
        viewer=viewer,
        base_url=base_url(request),
        path=own_path(request.scope["path"]),
        here=here(request),
        csrf=csrf,
        once=once,
        pieces_key=key,
        said=viewer.heard if viewer else "",
        zone=zone_of(request),
    )

    def render() -> str:
        text = _templates.get_template(name).render(values)
        return text if has is None else fragments.news(text, key, (csrf, once), has)

    answer, account_id = html("", status), viewer.account_id if viewer else STRANGERS
    return Page(status, b"", answer.headers, render=render, account_id=account_id)


def sentence(request: HttpRequest, status: int, title: str, text: str) -> Page:
    """A page of one sentence; for a part of a page, and the side panel, an article to close."""
    is_part = is_for_panel(request) or asks_for_news(request)
    name = "requests/sentence.html" if is_part else "sentence.html"
    may_repeat = status >= 500 and request.method == "GET"
    return page(request, name, status=status, title=title, text=text, may_repeat=may_repeat)


@get("/static/{name:str}")
async def static_file(request: HttpRequest, name: FromPath[str]) -> Raw:
    if name not in _FILES:
        raise NotFound("There is no such file.")
    if takes(request.scope, b"br"):
        _start_packing()
    return _FILES[name]


@cache
def _start_packing() -> None:
    """Once, when a browser wants it: until the files are packed, they are sent in gzip."""
    Thread(target=_pack, daemon=True).start()


def _pack() -> None:
    """Brotli takes a tenth less than gzip, and a second of a processor for all files."""
    for file in _FILES.values():
        if file.packed:
            file.in_brotli = brotli.compress(file.body)
