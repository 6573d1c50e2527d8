"""Uses the client that openapi-python-client makes; mypy judges this file with it. Run with the
address of a Postdate, an API key, and the URL of a target that answers 200."""

import sys
import time
from datetime import UTC, datetime, timedelta

from generated_postdate import AuthenticatedClient
from generated_postdate.api.schedules import (
    cancel_schedule,
    change_schedule,
    create_schedule,
    create_schedules,
    get_schedule,
    list_schedules,
)
from generated_postdate.api.statistics import list_logs
from generated_postdate.models import (
    AcceptedBody,
    BatchBody,
    BatchRequest,
    CancelledBody,
    ChangeRequest,
    ConflictBody,
    CreatedBody,
    Delivery,
    ListSchedulesStatusItem,
    LogsBody,
    RefusedBody,
    ScheduleBody,
    ScheduleRequest,
    ScheduleRequestTargetBodyType0,
    SchedulesBody,
)

base_url, key, target_url = sys.argv[1:]
client = AuthenticatedClient(base_url, key, prefix="", auth_header_name="x-api-key")
in_an_hour = (datetime.now(UTC) + timedelta(hours=1)).replace(microsecond=0)

body = ScheduleRequestTargetBodyType0.from_dict({"deep": {"list": [None]}})
wanted = ScheduleRequest(
    target_url, trigger_at=in_an_hour, target_body=body, timeout=5, delivery=Delivery.AT_MOST_ONCE
)
created = create_schedule.sync(client=client, body=wanted)
assert isinstance(created, CreatedBody)
assert created.trigger_at == in_an_hour

# What is left out of a change stays as it is.
assert ChangeRequest().to_dict() == {}
change = ChangeRequest(trigger_at=in_an_hour + timedelta(hours=1))
changed = change_schedule.sync(created.schedule_id, client=client, body=change)
assert isinstance(changed, ScheduleBody)
found = get_schedule.sync(created.schedule_id, client=client)
assert found == changed
assert (changed.timeout, changed.delivery) == ("5s", Delivery.AT_MOST_ONCE)
assert changed.target_body is not None
assert changed.target_body.to_dict() == body.to_dict()

# Each item of a batch is one of two.
items = [ScheduleRequest(target_url, delay="0s"), ScheduleRequest("ftp://example.com", delay=5)]
batch = create_schedules.sync(client=client, body=BatchRequest(items))
assert isinstance(batch, BatchBody)
stored, refused = batch.schedules
assert isinstance(stored, AcceptedBody)
assert isinstance(refused, RefusedBody)
assert (refused.code, refused.details[0].field) == (400, "targetUrl")

page = list_schedules.sync(client=client, target_url=target_url)
assert isinstance(page, SchedulesBody)
assert created.schedule_id in [each.schedule_id for each in page.schedules]

cancelled = cancel_schedule.sync(created.schedule_id, client=client)
assert isinstance(cancelled, CancelledBody)
assert cancelled.status == "cancelled"
both = [ListSchedulesStatusItem.EXECUTED, ListSchedulesStatusItem.CANCELLED]
kept = list_schedules.sync(client=client, status=both, target_url=target_url)
assert isinstance(kept, SchedulesBody)
assert "cancelled" in [each.status for each in kept.schedules]
while True:
    logs = list_logs.sync(client=client, schedule_id=stored.schedule_id)
    assert isinstance(logs, LogsBody)
    [entry] = logs.logs
    if entry.executed_at is not None:
        break
    time.sleep(0.05)
assert (entry.status, entry.status_code, entry.attempt) == ("completed", 200, 1)
too_late = cancel_schedule.sync(stored.schedule_id, client=client)
assert isinstance(too_late, ConflictBody)
assert (too_late.status, too_late.reason) == ("completed", "already_ended")
