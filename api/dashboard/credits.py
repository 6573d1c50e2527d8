"""Credits: the balance, and the ledger's movements by day."""

from __future__ import annotations

from litestar import get

from api.dashboard.answer import Raw
from api.dashboard.render import page
from api.dashboard.session import signed_in
from api.service import HttpRequest, service_of


@get("/credits", include_in_schema=False)
async def credits_page(request: HttpRequest) -> Raw:
    viewer = await signed_in(request)
    service = service_of(request)
    return page(
        request,
        viewer,
        "credits.html",
        account=viewer.account,
        days=await service.store.ledger.movements(viewer.account_id),
        kept_days=service.settings.log_retention_days,
    )


HANDLERS = [credits_page]
