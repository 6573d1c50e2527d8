"""What requests leave behind in an API process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.api.process import ApiProcess, Reply, head
from tests.servers import ValkeyProcess

MB = 1_000_000


@pytest.fixture(scope="module")
def server(valkey_server: ValkeyProcess) -> Iterator[ApiProcess]:
    valkey_server.flush()
    process = ApiProcess(valkey_server.url)
    try:
        process.wait_until_ready()
        yield process
        assert process.said() == ""
    finally:
        process.remove()


def test_batches_of_nothing_but_faults_leave_nothing_behind(server: ApiProcess, key: str) -> None:
    item = b"{%s}" % b",".join(b'"n%05d":0' % n for n in range(1280))
    body = b'{"schedules":[%s]}' % b",".join([item] * 1000)
    request = head(key, f"Content-Length: {len(body)}", request="POST /schedule/batch") + body
    before = server.memory_bytes()
    with closing(server.connect()) as connection:
        for _ in range(50):
            connection.sendall(request)
            reply = Reply(connection)
            assert reply.status == 200
    assert {each["code"] for each in reply.json["schedules"]} == {400}
    assert server.memory_bytes() - before < 40 * MB
