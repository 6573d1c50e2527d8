"""What two accounts and a stranger send, each time something else: whatever a process keeps of it
grows."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from scheduler.times import format_iso8601
from tests.support.customer import Customer, now_ms

Request = tuple[str, str, dict[str, str], str]


def of_a_stranger(count: int) -> Iterator[Request]:
    """Without a key, or with one that is none."""
    for n in range(count):
        yield "GET", f"/nothing/{n}", {}, ""
        yield "GET", f"/schema/openapi.json?q{n}=1", {}, ""
        yield "GET", "/schedule", {"x-api-key": f"pd_00_{n:043d}"}, ""
        yield "GET", "/schedule", {"authorization": f"Bearer {n}", f"x-{n}": "1"}, ""
        yield "GET", "/dashboard/sign-in", {"cookie": f"a{n}={n}; postdate_session={n}"}, ""
        yield "GET", "/dashboard/sign-in", {"host": f"n{n}.example", "user-agent": f"u{n}"}, ""
        yield "GET", f"/dashboard/link/00_{n:043d}", {}, ""
        form = {"content-type": "application/x-www-form-urlencoded", "origin": f"http://{n}.test"}
        yield "POST", "/dashboard/sign-in", form, f"email=n{n}%40example.com&password=x"
        yield f"M{n}", "/schedule", {"accept-language": f"x-{n}"}, ""
        yield "POST", "/schedule", {"content-type": f"text/x{n}"}, "{}"


def of_an_account(key: str, count: int, name: str) -> Iterator[Request]:
    """Requests that succeed, and requests that are refused."""
    own = {"x-api-key": key, "content-type": "application/json"}
    far = format_iso8601(now_ms() + 3_600_000)
    for n in range(count):
        url = f"http://{name}-{n}.example/{n}"
        item = f'{{"targetUrl":"{url}","triggerAt":"{far}","targetHeaders":{{"x-{name}-{n}":"1"}}}}'
        yield "POST", "/schedule", own | {"idempotency-key": f"{name}-{n}"}, item
        yield "POST", "/schedule", own | {"traceparent": f"00-{n + 1:032x}-{n + 1:016x}-01"}, item
        yield "POST", "/schedule", own, f'{{"targetUrl":"{name}{n}","unknown{n}":1}}'
        yield "POST", "/schedule/batch", own, f'{{"schedules":[{item},{{"n{n}":{n}}}]}}'
        for method in ("GET", "PATCH", "DELETE"):
            yield method, f"/schedule/sch_{n:026d}", own, "{}" if method == "PATCH" else ""
        yield "GET", f"/schedule?cursor={name}{n}&from=2026-11-01T00:00:00.{n:03d}Z", own, ""
        yield "GET", f"/stats/logs?targetUrl={url}", own, ""
        yield "GET", f"/stats?from=2026-11-01T00:00:00.{n:03d}Z", own, ""
        yield "POST", "/schedule/cancel", own, f'{{"targetUrl":"{url}","limit":1}}'
        yield "POST", "/schedule/replay", own, f'{{"ids":["{name}{n}"]}}'
        times = f"{n % 60}+{n // 60 % 24}+*+*+*&timeZone=Etc/GMT%2B{n % 12}"
        yield "GET", f"/recurring/preview?cron={times}&startsAt={far}", own, ""
        # From `far` on: else some would fire in the first hours of a day.
        rule = f'"targetUrl":"{url}","cron":"{n % 60} {n // 60 % 24} * * *","startsAt":"{far}"'
        yield "POST", "/recurring", own, f'{{{rule},"timeZone":"{name}/{n}"}}'
        yield "PUT", f"/recurring/by-name/{name}-{n}", own, f"{{{rule}}}"


def of_a_mover(key: str, count: int, name: str) -> Iterator[Request]:
    """Calls of a client of QStash, which succeed or are refused."""
    own = {"authorization": f"Bearer {key}"}
    for n in range(count):
        url = f"http://{name}-{n}.example/{n}"
        ways = {"upstash-callback": f"{url}/back", f"upstash-forward-x-{name}-{n}": "1"}
        later = own | ways | {"upstash-delay": "1h", "upstash-label": f"{name}-{n}"}
        yield "POST", f"/qstash/v2/publish/{url}", later, f'{{"n": {n}}}'
        yield "POST", f"/qstash/v2/publish/{url}", later | {f"upstash-{name}-{n}": "1"}, ""
        yield "POST", f"/qstash/v2/publish/{url}", own | {"upstash-retry-delay": f"{n} +"}, ""
        once = later | {"upstash-deduplication-id": f"{name}-{n}"}
        yield "POST", f"/qstash/v2/enqueue/{name}-{n}/{url}", once, ""
        key_of_flow = {"upstash-flow-control-key": f"{name}-{n}"}
        limits = {"upstash-flow-control-value": f"rate={n + 1}"}
        yield "POST", f"/qstash/v2/publish/{url}", later | key_of_flow | limits, ""
        item = f'{{"destination":"{url}","headers":{{"upstash-delay":"{n + 60}m"}}}}'
        yield "POST", "/qstash/v2/batch", own, f'[{item},{{"destination":"{name}{n}"}}]'
        yield "POST", "/qstash/v2/batch", own, f"[{item}]"
        cron = own | {"upstash-cron": f"{n % 60} 0 1 1 *", "upstash-schedule-id": f"{name}-{n}"}
        yield "POST", f"/qstash/v2/schedules/{url}", cron, ""
        for noun in ("messages", "dlq", "schedules", "queues", "flowControl", f"x{n}"):
            yield "GET", f"/qstash/v2/{noun}/{name}{n}", own, ""
        yield "GET", f"/qstash/v2/events?label={name}-{n}&state=CREATED", own, ""
        yield "DELETE", f"/qstash/v2/messages?url={url}", own, ""


def messages(key: str, count: int, name: str, port: int) -> Iterator[Request]:
    """Such as are sent at once."""
    for n in range(count):
        path = f"/qstash/v2/publish/http://{name}-{n}.test:{port}/message"
        yield "POST", path, {"authorization": f"Bearer {key}", "upstash-label": f"{name}{n}"}, ""


def send(port: int, requests: Iterator[Request]) -> dict[int, int]:
    """One after the other; how often each status was answered."""
    statuses: dict[int, int] = {}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        for method, path, headers, body in requests:
            connection.request(method, path, body or None, headers)
            response = connection.getresponse()
            response.read()
            statuses[response.status] = statuses.get(response.status, 0) + 1
    return statuses


def fires(count: int, name: str, port: int) -> Iterator[dict[str, Any]]:
    """Payloads that come due at once: each of a host, a port, a path and a header of its own."""
    for n in range(count):
        places = [f"{name}-{n}.test:{port}", f"127.0.0.1:{1024 + n}"]
        if n % 8 == 0:
            places.append(f"dead-{name}-{n}.test")  # looking it up takes its whole time
        for place in places:
            yield {
                "targetUrl": f"http://{place}/{n}",
                "targetHeaders": {f"x-{name}-{n}": "1"},
                "delay": "1s",
                "delivery": ("at-least-once", "at-most-once")[n % 2],
                "retries": n % 2,
                "retryDelays": ["1s"] if n % 2 else None,
            }


def schedule(customer: Customer, payloads: list[dict[str, Any]]) -> list[str]:
    return [
        schedule_id
        for place in range(0, len(payloads), 1000)
        for schedule_id in customer.schedule_batch(payloads[place : place + 1000])
    ]
