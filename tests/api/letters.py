"""Dead letters, and what else has ended: made, and listed."""

from __future__ import annotations

from typing import Any

from scheduler.models import Outcome, Status
from tests.api.conftest import Api, past

BROKEN = Outcome(Status.FAILED, 503, 30, "Service Unavailable")
UNKNOWN = "sch_01jd3v9x8kfw3s9s2m2v2v2v2v"  # an id that nothing has


async def fail(api: Api, count: int = 1, **fields: Any) -> list[str]:
    made = [await api.create_id(triggerAt=past(), **fields) for _ in range(count)]
    await api.execute(BROKEN)
    return sorted(made)


async def failed(api: Api, **query: Any) -> list[str]:
    return [each["scheduleId"] for each in await api.listed(status="failed", **query)]
