"""The way of the README: `postdate up`, the key that it printed, and plain HTTP."""

from __future__ import annotations

import httpx

from scheduler.times import format_iso8601, parse_iso8601
from tests.support.servers import Customer, PostdateProcess, Receiver, now_ms, postdate_json

# No JSON library would write it like this again: that is how it is seen to arrive as it was sent.
BODY = '{"amount": 12345678901234567890.10,"name":"Zo\\u00eb — ok",  "deep": { "a" : [1,  2e3] }}'


def test_a_schedule_fires_as_it_was_posted_and_is_logged_counted_and_paid_after_a_stop(
    receiver: Receiver,
) -> None:
    target = receiver.answer("/hook", status=202) + "?a=1&b=%20"
    with PostdateProcess() as up:
        began_ms = now_ms()
        due_ms = began_ms + 1500
        with Customer(up.base_url, up.api_key) as customer:
            cancelled = customer.schedule(receiver.url + "/cancelled", due_in_s=1.4)
            assert customer.cancel(cancelled).json()["creditsRemaining"] == 1_000_000
            text = (
                f'{{"targetUrl": "{target}", "targetMethod": "put",'
                ' "targetHeaders": {"X-Order": "4711", "Authorization": "Bearer t"},'
                f' "targetBody": {BODY}, "triggerAt": "{format_iso8601(due_ms)}"}}'
            )
            headers = {**customer.headers, "content-type": "application/json"}
            created = httpx.post(
                f"{up.base_url}/schedule", content=text.encode(), headers=headers
            ).json()
            key, schedule_id = customer.key, created["scheduleId"]
            assert created["invocationId"] == "inv_" + schedule_id.removeprefix("sch_")
            [entry] = customer.entries_of(schedule_id)
            assert (entry["status"], entry["executedAt"]) == ("scheduled", None)
        assert up.stop() == 0
        up.start()
        [received] = receiver.wait_for(1, "/hook")
        assert received.at_ms >= due_ms
        assert (received.method, received.path) == ("PUT", "/hook?a=1&b=%20")
        assert received.body == BODY.encode()
        assert received.headers == {
            **received.headers,
            "host": f"127.0.0.1:{receiver.port}",
            "content-type": "application/json",
            "content-length": str(len(BODY.encode())),
            "x-order": "4711",
            "authorization": "Bearer t",
            "postdate-schedule-id": schedule_id,
            "postdate-invocation-id": created["invocationId"],
            "postdate-attempt": "1",
        }
        with Customer(up.base_url, key) as customer:
            entry = customer.outcome(schedule_id)
            assert entry == {
                "scheduleId": schedule_id, "invocationId": created["invocationId"],
                "createdAt": entry["createdAt"], "scheduledAt": format_iso8601(due_ms),
                "executedAt": entry["executedAt"], "targetUrl": target, "targetMethod": "PUT",
                "status": "completed", "statusCode": 202,
                "responseTimeMs": entry["responseTimeMs"], "errorMessage": "", "attempt": 1,
                "nextAttemptAt": None, "latenessMs": entry["latenessMs"], "phases": None,
                "responseBody": None, "lane": None, "reference": None, "recurringId": None,
                "labels": [], "missed": 0,
            }  # fmt: skip
            times = [parse_iso8601(entry[at]) for at in ("createdAt", "executedAt")]
            assert began_ms <= times[0] < due_ms <= times[1] <= now_ms()
            assert customer.counts() == (1, 0)
            assert customer.credits() == 999_999
        assert len(receiver.requests) == 1
        assert postdate_json("check", data_dir=up.data_dir) == {"problems": []}
