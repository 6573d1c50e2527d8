"""Templates to pages."""

from __future__ import annotations

from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from api.dashboard import formats, static
from api.dashboard.answer import Raw, html, is_for_panel, is_htmx
from api.dashboard.csrf import masked_token
from api.dashboard.session import Viewer, base_url, here, zone_of
from api.service import HttpRequest
from scheduler.times import format_iso8601

_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    # Whatever stands on a page; what a field has goes back as it came, `as_typed`.
    finalize=formats.shown,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(formats.FILTERS)
_templates.globals.update(asset=static.address, iso=format_iso8601)


def page(request: HttpRequest, name: str, /, *, status: int = 200, **values: Any) -> Raw:
    """A whole page, or a part of one, as the template is. Without a viewer there is no menu."""
    viewer: Viewer | None = request.state.get("viewer")
    text = _templates.get_template(name).render(
        viewer=viewer,
        base_url=base_url(request),
        path=request.scope["path"],
        here=here(request),
        csrf=masked_token(viewer.session.csrf) if viewer else "",
        once=token_urlsafe(12),
        said=viewer.heard if viewer else "",
        zone=zone_of(request),
        **values,
    )
    return html(text, status)


def sentence(request: HttpRequest, status: int, title: str, text: str) -> Raw:
    """A page of one sentence. htmx gets its words alone, the side panel an article to close."""
    boosted = request.headers.get("hx-boosted") == "true"
    name = "sentence_part.html" if is_htmx(request) and not boosted else "sentence.html"
    name = "requests/sentence.html" if is_for_panel(request) else name
    may_repeat = status >= 500 and request.method == "GET"
    return page(request, name, status=status, title=title, text=text, may_repeat=may_repeat)
