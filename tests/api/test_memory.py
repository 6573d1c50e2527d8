"""What requests leave behind in an API process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import aclosing, closing

from scheduler.models import Plan
from scheduler.settings import Settings
from scheduler.store import Store
from scheduler.store.accounts.sessions import Purpose
from tests.api.conftest import payload
from tests.api.process import ApiProcess, Reply, head
from tests.servers import ValkeyProcess

MB = 1_000_000
WARM_UP = 2
PAGE = "http://localhost/dashboard/requests/stranger"


def test_batches_of_nothing_but_faults_leave_nothing_behind(server: ApiProcess, key: str) -> None:
    item = b"{%s}" % b",".join(b'"n%05d":0' % n for n in range(400))
    body = b'{"schedules":[%s]}' % b",".join([item] * 1000)
    request = head(key, f"Content-Length: {len(body)}", request="POST /schedule/batch") + body
    with closing(server.connect()) as connection:
        for number in range(WARM_UP + 12):
            if number == WARM_UP:
                before = server.memory_bytes()
            connection.sendall(request)
            reply = Reply(connection)
            assert reply.status == 200
    assert {each["code"] for each in reply.json["schedules"]} == {400}
    assert server.memory_bytes() - before < 4 * MB


def request(method: str, path: str, *lines: str, body: str = "") -> bytes:
    every = [f"{method} {path} HTTP/1.1", *lines, f"Content-Length: {len(body)}"]
    if not any(line.startswith("Host:") for line in lines):
        every.append("Host: localhost")
    return ("\r\n".join(every) + "\r\n\r\n" + body).encode()


def of_a_stranger() -> Iterator[bytes]:
    """All that is looked at of a request whose sender has shown nothing."""
    for path in ("", "schedule", "schedule/x", "schema/assets", "dashboard", "dashboard/link"):
        for method in ("GET", "POST", "OPTIONS"):
            yield request(method, f"/{path}/stranger?stranger=1", "x-api-key: pd_00_stranger")
    for host in ("stranger.example", "localhost:1"):
        for origin in ("http://stranger.example", "null"):
            lines = f"Host: {host}", f"Origin: {origin}", "sec-fetch-site: same-origin"
            yield request("POST", "/dashboard/sign-in", *lines, body="email=stranger@a.example")
    yield request("GET", "/schedule", "Authorization: stranger", "Idempotency-Key: stranger")
    yield request("GET", "/dashboard/requests", "hx-request: true", f"hx-current-url: {PAGE}")
    for name in ("session", "zone", "back"):
        yield request("GET", "/dashboard/sign-in", f"Cookie: stranger=1; postdate_{name}=stranger")
    yield request("GET", "/dashboard/sign-in", "Cookie: postdate_back=%2Fdashboard%2Fstranger")


def of_a_holder(key: str, session: str, link: str) -> Iterator[bytes]:
    """What an account's own browser and clients ask."""
    yield request("GET", f"/dashboard/link/{link}", f"hx-current-url: {PAGE}{link}")
    for path in ("", "/requests?q=stranger", "/requests/new", "/keys", "/account", "/stranger"):
        cookies = f"postdate_session={session}; postdate_zone=Europe/Paris"
        yield request("GET", f"/dashboard{path}", f"Cookie: {cookies}")
    body = json.dumps(payload(targetUrl="http://own.example/", targetHeaders={"X-Own": "own"}))
    yield request("POST", "/schedule", f"x-api-key: {key}", body=body)
    yield request("GET", "/stats/logs?targetUrl=stranger", f"x-api-key: {key}")


async def test_no_cache_has_a_text_of_a_stranger_or_a_secret(
    server: ApiProcess, valkey_server: ValkeyProcess
) -> None:
    async with aclosing(await Store.open(Settings(redis_url=valkey_server.url))) as store:
        account = await store.accounts.create("caches", credits=10, plan=Plan.UNLIMITED)
        _, key = await store.api_keys.create(account.account_id, "test")
        session = (await store.sessions.open(account.account_id)).secret
        link = await store.sessions.make_link(account.account_id, Purpose.SIGN_IN)
    statuses = [server.ask(each).status for each in of_a_stranger()]
    assert {200, 401, 404} < {*statuses} < {*range(200, 500)}
    statuses = [server.ask(each).status for each in of_a_holder(key, session, link)]
    assert statuses == [200, 200, 200, 200, 200, 200, 404, 201, 200]
    now = server.inside().texts
    assert "http://own.example/" in now["scheduler.targets._taken_apart"], "it looks elsewhere"
    texts = [text for name in now for text in now[name]]
    assert not [text for text in texts if "stranger" in text.lower()]
    assert not [text for text in texts if session in text or link in text]
