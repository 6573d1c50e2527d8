"""The time zone that a browser is shown times in."""

from __future__ import annotations

from litestar import post

from api.dashboard.answer import Raw, redirect
from api.dashboard.csrf import written
from api.dashboard.session import ROOT, our_page, zone_cookie
from api.dashboard.zones import UTC, zone_named
from api.service import HttpRequest


@post("/zone", include_in_schema=False)
async def choose_zone(request: HttpRequest) -> Raw:
    """Keeps the choice in a cookie, and goes back to where it was made."""
    _, form = await written(request, even_suspended=True)
    zone = zone_named(form.get("zone", "")) or UTC
    back = our_page(form.get("back", "")) or ROOT
    return redirect(request, back).with_cookie(zone_cookie(request, zone))


HANDLERS = [choose_zone]
