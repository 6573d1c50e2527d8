"""What requests leave behind in an API process."""

from __future__ import annotations

from contextlib import aclosing, closing

import pytest

from scheduler.models import Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from tests.api.conftest import payload
from tests.api.process import ApiProcess, Reply, head
from tests.api.refusals import ORIGIN, http
from tests.support.servers import ValkeyProcess

MB = 1_000_000
WARM_UP, CALLS = 2, 20
SESSION = "Cookie: stranger=1; postdate_session={0}; postdate_zone=Europe/Paris"


@pytest.mark.slow
def test_batches_of_nothing_but_faults_leave_nothing_behind(server: ApiProcess, key: str) -> None:
    item = b"{%s}" % b",".join(b'"n%05d":0' % n for n in range(1280))
    body = b'{"schedules":[%s]}' % b",".join([item] * 1000)
    request = head(key, f"Content-Length: {len(body)}", request="POST /schedule/batch") + body
    with closing(server.connect()) as connection:
        for number in range(WARM_UP + CALLS):
            if number == WARM_UP:
                before = server.memory_bytes()
            connection.sendall(request)
            reply = Reply(connection)
            assert reply.status == 200
    assert {each["code"] for each in reply.json["schedules"]} == {400}
    assert server.memory_bytes() - before < 16 * MB


async def test_no_cache_has_a_text_of_a_stranger_or_a_secret(
    server: ApiProcess, valkey_server: ValkeyProcess
) -> None:
    async with aclosing(await Store.open(Settings(redis_url=valkey_server.url))) as store:
        account = await store.accounts.create("caches", credits=10, plan=Plan.UNLIMITED)
        _, key = await store.api_keys.create(account.account_id, "test")
        session = (await store.sessions.open(account.account_id)).secret
        link = await store.sessions.make_link(account.account_id)
    of_a_stranger = [
        http(method, f"/{path}/stranger?stranger=1", "x-api-key: pd_00_stranger", SESSION)
        for path in ("", "schedule", "schedule/x", "schema/assets", "dashboard", "dashboard/link")
        for method in ("GET", "POST", "OPTIONS")
    ]
    of_a_stranger += [
        http("POST", "/dashboard/sign-in", ORIGIN, body=b"email=stranger@a.example"),
        http("GET", "/dashboard", "hx-request: true", "hx-current-url: http://localhost/stranger"),
        http("GET", "/healthz", host="stranger.example"),
    ]
    own = payload(targetUrl="http://own.example/")
    cookie = SESSION.format(session)
    of_a_holder = [
        http("GET", f"/dashboard/link/{link}"),
        *(http("GET", f"/dashboard{path}", cookie) for path in ("", "/requests?q=stranger")),
        http("POST", "/schedule", f"x-api-key: {key}", body=own),
        http("GET", "/stats/logs?targetUrl=stranger", f"x-api-key: {key}"),
    ]
    assert {server.ask(each).status for each in of_a_stranger} < {*range(200, 500)}
    assert [server.ask(each).status for each in of_a_holder] == [200, 200, 200, 201, 200]
    texts = server.inside().texts
    assert "http://own.example/" in texts, "it looks elsewhere"
    assert not [each for each in texts if "stranger" in each.lower()]
    assert not [each for each in texts if session in each or link in each]
