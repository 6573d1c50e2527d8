"""For operators: puts all workers on hold, shows how many requests are in flight, ends the hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from litestar import get, post

from api.dashboard.answer import Raw
from api.dashboard.render import page
from api.dashboard.viewer.csrf import judged_operator, written
from api.dashboard.viewer.session import ROOT, redirect_saying, signed_in
from api.schema.findings import invalid
from api.service import HttpRequest, service_of
from scheduler.callers import Role
from scheduler.errors import FieldError
from scheduler.events import Kind
from scheduler.store.events.events import Noted
from scheduler.store.operators.heartbeats import Process

ADDRESS = f"{ROOT}/system"
# A worker says twice in this time what it has in flight, and a claim that was answered before the
# hold began has come to it.
_SETTLED_AFTER_MS = 2000
_SILENT_MS = 5000
_LATEST_MS = 2**53


class Draining(NamedTuple):
    """What is still in flight on hold. `unheard`: workers that were not heard of since it began, or
    are silent with something in flight, so it is not known whether they send. `fresh_ms`: how old
    the oldest of the other figures is; None without any."""

    in_flight: int
    unheard: list[Process]
    fresh_ms: int | None

    @property
    def is_safe(self) -> bool:
        """Whether all that was claimed before has ended, and all workers said so."""
        return not self.in_flight and not self.unheard


def draining(workers: Sequence[Process], since_ms: float, now_ms: int) -> Draining:
    """By the workers' heartbeats, once all shards are on hold since then. Pure."""
    in_flight, unheard, ages_ms = 0, list[Process](), list[int]()
    for each in workers:
        said, age_ms = int(each.says.get("inFlight", 0)), now_ms - each.heard_at_ms
        settled = each.heard_at_ms >= since_ms + _SETTLED_AFTER_MS
        if settled and said == 0:
            ages_ms.append(age_ms)
        elif age_ms > _SILENT_MS or (not settled and said == 0):
            unheard.append(each)
        else:
            in_flight += said
            ages_ms.append(age_ms)
    return Draining(in_flight, unheard, max(ages_ms, default=None))


@get("/system/hold", needs=Role.ACT)
async def ask_to_hold(request: HttpRequest) -> Raw:
    judged_operator(await signed_in(request))
    return page(request, "operators/hold.html")


@post("/system/hold")
async def hold(request: HttpRequest) -> Raw:
    """From now on nothing is claimed. Safe to repeat, and for two operators at once."""
    viewer, _ = await written(request)
    judged_operator(viewer)
    store = service_of(request).store
    async with store.events.act(Kind.HOLD, who=viewer.person) as noted:
        await store.hold.begin()
    words = "On hold: workers claim nothing. Requests in flight end as usual."
    return await redirect_saying(request, viewer, words + lost(noted), ADDRESS)


@post("/system/resume")
async def resume(request: HttpRequest) -> Raw:
    """Ends the hold that the page showed, and no newer one if it is late. Raises InvalidRequest."""
    viewer, form = await written(request)
    judged_operator(viewer)
    since = form.get("since", "")
    if not (since.isascii() and since.isdigit() and int(since[:17]) <= _LATEST_MS):
        raise invalid([FieldError("since", "The page did not say which hold it is to end.")])
    store, since_ms = service_of(request).store, int(since[:17])
    async with store.events.act(Kind.RESUMED, who=viewer.person, since_ms=since_ms) as noted:
        await store.hold.end(since_ms)
    words = "Resumed: workers claim due schedules again."
    if (await store.hold.look()).on_hold:
        words = "That hold has ended, but workers have been put on hold again since then."
    return await redirect_saying(request, viewer, words + lost(noted), ADDRESS)


def lost(noted: Noted) -> str:
    """What an operator's act says if the audit lacks it."""
    return " The store did not take its entry for the audit." if noted.lost else ""


HANDLERS = [ask_to_hold, hold, resume]
