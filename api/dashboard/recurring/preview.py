"""The times that a form comes to, while it is typed."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec
from litestar import get
from msgspec.structs import replace

from api.dashboard.answer import Raw, html
from api.dashboard.recurring.form import TIMING
from api.dashboard.render import page
from api.dashboard.requests.form import fields_of, labelled
from api.dashboard.viewer.session import NotSignedIn, Viewer, signed_in, zone_of
from api.dashboard.zones import Zone, zone_named
from api.recurring_times import judge_first, next_times
from api.schema.query import read_query
from api.schema.recurring_fields import PREVIEW, timing_of
from api.service import HttpRequest, service_of
from scheduler.errors import InvalidRequest, TooManyScans
from scheduler.recurrence.recurrence import Timing, checked, describe

_MOST = 10
_MOST_CHARACTERS = 1024
_MOST_DIGITS = 15  # of a moment


class Preview(msgspec.Struct, frozen=True):
    """The next times (ms) and the sentence, or the faults by field name on the page.
    `there` is the rule's zone where it is another than the viewer's."""

    now_ms: int
    times_ms: list[int]
    words: str = ""
    faults: dict[str, str] = {}
    there: Zone | None = None


async def preview_of(request: HttpRequest, viewer: Viewer, form: Mapping[str, str]) -> Preview:
    """The preview of the form's fields at this moment, within the account's budget of searches."""
    store, zone = service_of(request).store, zone_of(request)
    now_ms, account_id = store.clock.now_ms(), viewer.account_id
    fields = fields_of(TIMING, form, zone)
    if not fields.get("cron") and not fields.get("every"):
        return Preview(now_ms, [])
    try:
        timing = _timing(fields, form.get("created", ""), now_ms)
        times_ms = await next_times(store, account_id, timing, now_ms, _MOST)
        if not times_ms:  # then this says why
            await judge_first(store, account_id, timing, now_ms)
    except InvalidRequest as refusal:
        faults = {labelled(each.field): each.message for each in refusal.details}
        return Preview(now_ms, [], faults=faults)
    except TooManyScans as refusal:
        return Preview(now_ms, [], faults={"Not looked for": f"{refusal}."})
    return Preview(now_ms, times_ms, describe(timing), there=zone_beside(timing, zone))


def zone_beside(timing: Timing, zone: Zone) -> Zone | None:
    """The zone of a rule, where it is another than the viewer's."""
    return zone_named(timing.zone) if timing.cron and timing.zone != zone.name else None


def _timing(fields: dict[str, str], created: str, now_ms: int) -> Timing:
    """Raises InvalidRequest. Intervals begin at the creation of a rule that there is already."""
    timing = checked(timing_of(read_query(urlencode(fields).encode(), PREVIEW)))
    anchor_ms = timing.starts_at_ms
    if anchor_ms is None:
        is_known = created.isascii() and created.isdigit() and len(created) <= _MOST_DIGITS
        anchor_ms = min(int(created), now_ms) if is_known else now_ms
    return replace(timing, anchor_ms=anchor_ms)


@get("/recurring/preview")
async def preview_page(request: HttpRequest) -> Raw:
    """The part of the form that shows it. A visitor who is signed out is not led away from what was
    typed: the next press does that."""
    try:
        viewer = await signed_in(request)
    except NotSignedIn:
        return html("", 204)
    texts = {name: text[:_MOST_CHARACTERS] for name, text in request.query_params.items()}
    preview = await preview_of(request, viewer, texts)
    return page(request, "recurring/preview.html", preview=preview, now_ms=preview.now_ms)


HANDLERS = [preview_page]
