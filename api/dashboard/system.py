"""For operators: workers, shards, the store's servers, and who has an account."""

from __future__ import annotations

import re
import secrets

from litestar import get, post

from api.dashboard.answer import Raw, redirect
from api.dashboard.csrf import written
from api.dashboard.render import page
from api.dashboard.session import ROOT, Viewer, judged_operator, operator
from api.service import HttpRequest, service_of
from scheduler.ids import parse_sharded

_MOST_ACCOUNTS = 200
_SILENT_MS = 5000
_MOST_CREDITS = 10**12
_ONCE = re.compile(r"[\w-]{16}")


@get("/system", include_in_schema=False)
async def system_page(request: HttpRequest) -> Raw:
    return await _page(request, await operator(request))


@post("/system/grant", include_in_schema=False)
async def grant(request: HttpRequest) -> Raw:
    """Gives an account credits; a form that is sent twice gives them once."""
    viewer, form = await written(request)
    judged_operator(viewer)
    account_id, once, credits = (form.get(name, "") for name in ("account", "once", "credits"))
    known = parse_sharded(account_id, "acc") is not None and _ONCE.fullmatch(once)
    whole = credits.isascii() and credits.isdigit() and len(credits) <= 13
    if not known or not whole or not 1 <= int(credits) <= _MOST_CREDITS:
        fault = "Credits are granted in whole numbers from 1 on."
        return await _page(request, viewer, 400, fault)
    store = service_of(request).store
    account = await store.accounts.grant(account_id, int(credits), once)
    words = f"{int(credits):,} credits granted to {account.name}: {account.credits:,} are left."
    await store.sessions.say(viewer.session, words)
    return redirect(request, f"{ROOT}/system")


async def _page(
    request: HttpRequest, viewer: Viewer, status: int = 200, fault: str | None = None
) -> Raw:
    store = service_of(request).store
    await store.tick()
    accounts, count = await store.system.accounts(_MOST_ACCOUNTS)
    workers, now_ms = await store.system.workers(), store.clock.now_ms()
    return page(
        request,
        viewer,
        "system.html",
        status=status,
        fault=fault,
        workers=workers,
        alive=[each for each in workers if not each.is_lost(now_ms)],
        shards=await store.system.shards(),
        servers=await store.system.servers(),
        accounts=accounts,
        account_count=count,
        once=secrets.token_urlsafe(12),
        silent_ms=_SILENT_MS,
        now_ms=now_ms,
    )


HANDLERS = [system_page, grant]
