"""Nothing fires before its time: the receiver's clock against triggerAt, on one machine."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from tests.support.servers import Deployment, Receiver

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_of_hundreds_none_fires_early(deployment: Deployment, receiver: Receiver) -> None:
    """The first are due before they are accepted, some right after, the last long after. Their
    times are finer than the service's millisecond."""
    deployment.worker()
    now_us = time.time_ns() // 1000
    due_us = [now_us + number * 3_001 for number in range(400)]
    due = [(EPOCH + timedelta(microseconds=us)).isoformat(timespec="microseconds") for us in due_us]
    payloads = [{"targetUrl": receiver.url, "triggerAt": each} for each in due]
    ids = deployment.customer().schedule_batch(payloads)
    arrived = {each.schedule_id: each.at_ns for each in receiver.wait_for(400)}
    assert len(receiver.requests) == 400
    assert min(arrived[id_] / 1e3 - us for id_, us in zip(ids, due_us, strict=True)) >= 0
