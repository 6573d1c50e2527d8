"""Limits that hold before a request has shown a key, on real processes."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from api.door.proxies import address_of
from api.limits import FOR_HEALTH
from tests.api import floods
from tests.api.conftest import payload
from tests.api.errors import error_of
from tests.api.process import ApiProcess, Reply, chunk, head, serving
from tests.support.servers import ValkeyProcess, until

MB = 1_000_000
SHORT_S = 0.25
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"
BAD_KEY = b"GET /schedule HTTP/1.1\r\nHost: a\r\nx-api-key: pd_00_nobody\r\n\r\n"
NOT_READ_YET = "Too many bodies are being read; try again in 1 s"

Start = Callable[..., ApiProcess]


@pytest.fixture(scope="module")
def start_api(valkey_server: ValkeyProcess) -> Iterator[Start]:
    """Starts processes with settings of their own; one for all that ask for the same."""
    valkey_server.flush()
    started: dict[str, ApiProcess] = {}
    with ExitStack() as stack:

        def start(**settings: int) -> ApiProcess:
            name = json.dumps(settings)
            if name not in started:
                started[name] = stack.enter_context(serving(valkey_server.url, **settings))
            return started[name]

        yield start
        assert [each.said() for each in started.values()] == [""] * len(started)


@pytest.fixture
def server(start_api: Start) -> ApiProcess:
    """With the limits that it has by default."""
    return start_api()


@pytest.fixture
def hasty(start_api: Start) -> ApiProcess:
    """As by default, but all that takes seconds takes a quarter of one."""
    short_ms = int(SHORT_S * 1000)
    times = dict.fromkeys(("head_timeout_ms", "body_grace_ms", "idle_timeout_ms"), short_ms)
    return start_api(**times, body_bytes_per_s=200_000)


def create(key: str, size: int = 0) -> bytes:
    """A create that is valid, with spaces up to a size."""
    text = json.dumps(payload()).encode().ljust(size)
    return head(key, f"Content-Length: {len(text)}") + text


def open_connections(server: ApiProcess) -> int:
    """Sockets that it has, those that it listens on and that lead to the store among them."""
    found = 0
    for each in Path(f"/proc/{server.process.pid}/fd").iterdir():
        try:
            found += str(each.readlink()).startswith("socket:")
        except FileNotFoundError:
            continue
    return found


def assert_healthy(server: ApiProcess) -> None:
    assert [server.answers(path) for path in ("/healthz", "/readyz")] == [200, 200]


def is_closed(connection: socket.socket) -> bool:
    """Once the other side has closed, and has said nothing."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


# Heads


@pytest.mark.parametrize(
    ("flood", "status", "error"),
    [
        ("lines of a head", 431, "The request's head is too large"),
        ("URL", 414, "The request's path and query are longer than 8,192 bytes"),
    ],
)
def test_endless_heads_are_refused(server: ApiProcess, flood: str, status: int, error: str) -> None:
    assert_healthy(server)
    before = server.memory_bytes()
    with closing(server.connect()) as connection:
        taken = floods.pour(connection, *floods.ENDLESS[flood], 60 * MB)
        assert_healthy(server)
        reply = Reply(connection)
    assert (reply.status, error_of(reply)) == (status, {"error": error, "reason": "too_large"})
    assert reply.headers["connection"] == "close"
    assert taken < 20 * MB
    assert server.memory_bytes() - before < 8 * MB


@pytest.mark.parametrize(("lines", "status"), [(255, 200), (256, 431)])
def test_a_head_has_256_lines(server: ApiProcess, lines: int, status: int) -> None:
    assert server.ask(HEALTH + b"a:b\r\n" * lines + b"\r\n").status == status


@pytest.mark.parametrize(("size", "status"), [(16 * 1024, 200), (16 * 1024 + 1, 431)])
def test_a_head_has_16_kib(server: ApiProcess, size: int, status: int) -> None:
    data = (HEALTH + b"X: ").ljust(size - 4, b"x") + b"\r\n\r\n"
    with closing(server.connect()) as connection:
        for n in range(0, len(data), 50):
            connection.sendall(data[n : n + 50])
        assert Reply(connection, "GET").status == status


@pytest.mark.parametrize("flood", ["trailers", "trailer", "extension"])
def test_a_bodys_trailers_are_bounded(server: ApiProcess, key: str, flood: str) -> None:
    before = server.memory_bytes()
    with closing(server.connect()) as connection:
        batch = head(key, "Transfer-Encoding: chunked", request="POST /schedule/batch")
        connection.sendall(batch + chunk(b" " * 4 * MB))
        assert floods.pour(connection, *floods.ENDLESS[flood], 60 * MB) < 20 * MB
        assert Reply(connection).status == 431
    assert server.memory_bytes() - before < 8 * MB


SLOW = {
    "head": "The request's head did not arrive in time",
    "body": "The request's body arrived too slowly",
}


@pytest.mark.parametrize("part", SLOW)
def test_dripping_bytes_prolong_no_request(hasty: ApiProcess, key: str, part: str) -> None:
    data = HEALTH + b"X: " if part == "head" else head(key, "Transfer-Encoding: chunked")
    began_s = time.monotonic()
    with closing(hasty.connect()) as connection:
        connection.sendall(data)
        connection.settimeout(SHORT_S / 10)
        for _ in range(400):
            try:
                reply = Reply(connection)
                break
            except TimeoutError:
                connection.sendall(b"x" if part == "head" else chunk(b" "))
        else:
            raise AssertionError("it was read to its end")
    assert (reply.status, error_of(reply)) == (408, {"error": SLOW[part], "reason": "timeout"})
    assert time.monotonic() - began_s > SHORT_S * 0.9


# Bodies


def test_bodies_at_once_have_a_budget(start_api: Start, key: str) -> None:
    server = start_api(bodies_bytes=8 * MB, max_batch_bytes=4 * MB)
    batch = head(key, f"Content-Length: {3 * MB}", request="POST /schedule/batch")
    before = server.memory_bytes()
    with ExitStack() as stack:
        senders = [stack.enter_context(closing(server.connect())) for _ in range(20)]
        for each in senders:
            floods.pour(each, batch, b" " * 100_000, 2_900_000)
        until(lambda: len(select.select(senders, [], [], 0)[0]) >= 17, "most are refused")
        assert_healthy(server)
        assert server.memory_bytes() - before < 32 * MB
        replies = [Reply(each) for each in select.select(senders, [], [], 0)[0]]
        assert {(each.status, each.headers["retry-after"]) for each in replies} == {(503, "1")}
        assert error_of(replies[0]) == {"error": NOT_READ_YET, "reason": "overloaded"}
        assert server.ask(create(key)).status == 201  # small ones pass all the same


def test_bodies_behind_bad_keys_are_not_kept(start_api: Start, key: str) -> None:
    server = start_api(bodies_bytes=1, max_batch_bytes=MB, max_connections_per_address=0)
    before = server.memory_bytes()
    # 60 MB, most of which wait to be refused.
    with floods.held(server.port, 300, floods.HELD["large bodies"]):
        assert_healthy(server)
        # For a moment, those that have just come are there.
        until(lambda: server.memory_bytes() - before < 24 * MB, "bodies to be dropped")
        assert server.ask(create(key, 200_000)).status == 201


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "framing", "status"),
    [
        (b"/schedule/batch", b"Content-Length: 1000000000", 401),
        (b"/schedule/batch", b"Transfer-Encoding: chunked", 401),
        (b"/no/such/path", b"Content-Length: 1000000000", 404),
        (b"/no/such/path", b"Connection: close\r\nContent-Length: 1000000000", 404),
    ],
)
def test_a_body_that_nobody_wants_is_not_read_to_its_end(
    server: ApiProcess, path: bytes, framing: bytes, status: int
) -> None:
    """The client gets its answer, though it goes on sending."""
    piece = b"%x\r\n%b\r\n" % (60_000, bytes(60_000))
    sent = 0
    with closing(server.connect()) as connection:
        connection.sendall(b"POST " + path + b" HTTP/1.1\r\nHost: a\r\n" + framing + b"\r\n\r\n")
        connection.sendall(piece)
        reply = Reply(connection, "POST")
        assert reply.status == status
        with suppress(ConnectionError):
            while sent < 200 * MB:
                connection.sendall(piece)
                sent += len(piece)
    assert sent < 100 * MB
    assert_healthy(server)
    assert "Traceback" not in server.said()


# Connections


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", None),
        (HEALTH + b"\r\n\r\n", 200),  # an empty line does not keep it
        (b"POST /schedule HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n", 401),
    ],
    ids=["nothing", "idle", "refused in mid-body"],
)
def test_a_silent_connection_is_closed(hasty: ApiProcess, data: bytes, status: int | None) -> None:
    with closing(hasty.connect()) as connection:
        connection.sendall(data)
        assert status is None or Reply(connection, "GET").status == status
        assert is_closed(connection)


def test_requests_without_end_and_no_answer_read_cost_no_memory(server: ApiProcess) -> None:
    before = server.memory_bytes()
    with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        connections = [stack.enter_context(closing(server.connect())) for _ in range(8)]
        flood = floods.ENDLESS["pipeline"]
        sent = pool.map(lambda each: floods.pour(each, *flood, 20 * MB), connections)
        assert max(sent) < 20 * MB
        assert_healthy(server)
        assert server.memory_bytes() - before < 24 * MB


@pytest.mark.parametrize("flood", floods.HELD.values(), ids=floods.HELD)
@pytest.mark.parametrize(
    "settings",
    [{"max_connections_per_address": 40}, {"max_connections_per_address": 0, "most_files": 300}],
    ids=["of an address", "at the limit of open files"],
)
def test_health_and_schedules_are_answered_whatever_is_held(
    start_api: Start, key: str, settings: dict[str, int], flood: bytes
) -> None:
    server = start_api(**settings)
    with floods.held(server.port, 330, flood):
        for _ in range(5):
            assert_healthy(server)
        assert open_connections(server) < 300
        assert server.ask(create(key)).status == 201


def test_where_all_are_served_there_is_room_for_health_alone(start_api: Start, key: str) -> None:
    server = start_api(max_connections=10)
    with closing(server.connect()) as first, ExitStack() as stack:
        for _ in range(3):  # it knows the head of these by then, and passes them by the parser
            first.sendall(create(key))
            assert Reply(first).status == 201
        first.sendall(BAD_KEY * 32)  # 320 refusals take three seconds
        served = stack.enter_context(floods.held(server.port, 9, BAD_KEY * 32))
        assert all(each.recv(1) for each in (first, *served))
        reply = server.ask(b"GET /schedule HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert error_of(reply) == {
            "error": "Too many connections; try again in 1 s",
            "reason": "overloaded",
        }
        assert server.ask(create(key)).status == 503
        before = open_connections(server)
        with floods.held(server.port, FOR_HEALTH * 4, b""):
            assert_healthy(server)
            assert open_connections(server) - before < FOR_HEALTH * 2


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_an_address_of_ipv6_is_its_network(host: str, address: str) -> None:
    assert address_of(host) == address
