"""The proxy's configuration, in a real nginx before a real API."""

from __future__ import annotations

import json
import shutil
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPResponse
from pathlib import Path

import httpx
import pytest
import trustme

from tests.api.errors import error_of
from tests.metrics.catalogue import ROOT
from tests.programs import lack_of
from tests.support import children
from tests.support.servers import Deployment, ValkeyProcess, free_port, until
from tests.support.waiting import DEADLINE_S

HOST = "postdate.example"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
LONG = "a" * 17_000
FRAME = """
daemon off; worker_processes 1; pid {0}/pid; error_log {0}/log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {0}/body; proxy_temp_path {0}/proxy; fastcgi_temp_path {0}/fastcgi;
    uwsgi_temp_path {0}/uwsgi; scgi_temp_path {0}/scgi;
    include {0}/postdate.conf;
}}
"""

pytestmark = pytest.mark.skipif(NGINX is None, reason=lack_of("nginx"))


@pytest.fixture(scope="module")
def origin() -> str:
    return f"https://{HOST}:{free_port()}"


@pytest.fixture(scope="module")
def deployment(valkey_server: ValkeyProcess, origin: str) -> Iterator[Deployment]:
    valkey_server.flush()
    settings = {"public_url": origin, "trusted_proxies": "127.0.0.1/32"}
    with Deployment(valkey_server, **settings) as deployment:
        deployment.api()
        yield deployment


@pytest.fixture
def outside(origin: str, deployment: Deployment, tmp_path: Path) -> Iterator[httpx.Client]:
    with proxied(origin, tmp_path, [deployment.apis[0].base_url]) as client:
        yield client


@contextmanager
def proxied(
    origin: str, folder: Path, apis: list[str], connections: int = 256
) -> Iterator[httpx.Client]:
    """A client of the proxy, with the placeholders of its configuration filled in."""
    authority = trustme.CA()
    certificate = authority.issue_cert(HOST)
    certificate.private_key_pem.write_to_path(folder / "privkey.pem")
    for each in certificate.cert_chain_pems:
        each.write_to_path(folder / "fullchain.pem", append=True)
    text, port = (ROOT / "ops/nginx/postdate.conf").read_text(), origin.rpartition(":")[2]
    server = "    server 127.0.0.1:8000"
    [line] = [each for each in text.splitlines() if each.startswith(server)]
    lines = [line.replace("127.0.0.1:8000", api.removeprefix("http://")) for api in apis]
    for given, ours in {
        line: "\n".join(lines),
        "listen 443": f"listen 127.0.0.1:{port}",
        f"/etc/ssl/{HOST}": str(folder),
        "postdate_connections 256": f"postdate_connections {connections}",
    }.items():
        assert given in text
        text = text.replace(given, ours)
    (folder / "postdate.conf").write_text(text)
    (folder / "nginx.conf").write_text(FRAME.format(folder))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    process = children.start([str(NGINX), "-p", str(folder), "-c", str(folder / "nginx.conf")])
    try:
        with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=context) as client:
            client.headers.update({"host": HOST, "origin": origin})
            client.event_hooks = {"request": [named]}
            until(lambda: listens(int(port)), "nginx")
            yield client
    finally:
        process.terminate()
        process.wait(timeout=30)


def named(request: httpx.Request) -> None:
    request.extensions["sni_hostname"] = HOST


def listens(port: int) -> bool:
    with suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S).close()
        return True
    return False


def test_what_was_sent_to_one_api_is_sent_to_no_other(
    origin: str, deployment: Deployment, tmp_path: Path
) -> None:
    """It may have been stored there."""
    taken: list[bytes] = []

    class Dying(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            taken.append(self.rfile.readline())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Dying) as dying:
        threading.Thread(target=dying.serve_forever).start()
        apis = [f"http://127.0.0.1:{dying.server_address[1]}", deployment.apis[0].base_url]
        with proxied(origin, tmp_path, apis) as outside:
            until(lambda: outside.post("/schedule").status_code == 503, "its turn")
            assert taken == [b"POST /schedule HTTP/1.1\r\n"]
        dying.shutdown()


@pytest.mark.parametrize(
    ("head", "status", "reason"),
    [
        ("BAD", 400, "malformed_request"),
        ("GET /stats HTTP/1.1", 400, "malformed_request"),
        (f"GET /_refused/overloaded HTTP/1.1|Host: {HOST}", 404, "not_found"),
        (f"TRACE / HTTP/1.1|Host: {HOST}", 405, "method_not_allowed"),
        (f"GET /{LONG} HTTP/1.1|Host: {HOST}", 414, "too_large"),
        (f"GET / HTTP/1.1|Host: {HOST}|A: {LONG}", 431, "too_large"),
        (f"POST / HTTP/1.1|Host: {HOST}|Content-Length: 17000000", 413, "too_large"),
        (f"POST / HTTP/1.1|Host: {HOST}|Transfer-Encoding: x", 501, "unsupported_encoding"),
    ],
)
def test_what_the_proxy_refuses_is_answered_as_by_the_api(
    outside: httpx.Client, head: str, status: int, reason: str
) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    line = socket.create_connection(("127.0.0.1", outside.base_url.port or 0), timeout=DEADLINE_S)
    with context.wrap_socket(line, server_hostname=HOST) as secured:
        secured.sendall(head.replace("|", "\r\n").encode() + b"\r\n\r\n")
        answer = HTTPResponse(secured)
        answer.begin()
        told = json.loads(answer.read())
    assert (answer.status, told["reason"]) == (status, reason)
    assert told["requestId"] == answer.headers["postdate-request-id"]
    assert answer.headers["content-type"] == "application/json"
    assert "retry-after" not in answer.headers


def test_a_request_beyond_the_bound_of_connections_was_certainly_not_stored(
    origin: str, tmp_path: Path
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        proxied(origin, tmp_path, [f"http://127.0.0.1:{silent.getsockname()[1]}"], 1) as outside,
        ThreadPoolExecutor(1) as threads,
    ):
        held = threads.submit(outside.post, "/schedule", timeout=60)
        line, _ = silent.accept()
        answer = outside.post("/schedule")
        line.close()
        assert held.result().status_code == 503
    assert (answer.status_code, error_of(answer)["reason"]) == (429, "overloaded")
    assert answer.headers["retry-after"] == "1"


def test_a_key_passes_as_bearer_and_the_request_id_is_the_apis(
    outside: httpx.Client, deployment: Deployment
) -> None:
    own = {"postdate-request-id": "req_mine"}
    answer = outside.get(
        "/stats", headers={"authorization": f"Bearer {deployment.customer().key}", **own}
    )
    assert answer.is_success
    assert answer.headers.get_list("postdate-request-id") != [own["postdate-request-id"]]
    assert error_of(outside.get("/stats", headers=own))["reason"] == "unauthorized"


@pytest.mark.slow
def test_who_says_that_he_is_somebody_else_is_not_believed(outside: httpx.Client) -> None:
    """Guesses from one address are counted together, whatever address they name."""
    guess = {"email": "a@example.com", "password": "wrong"}
    statuses = [
        outside.post(
            "/dashboard/sign-in", data=guess, headers={"x-forwarded-for": f"203.0.113.{n}"}
        ).status_code
        for n in range(11)
    ]
    assert statuses == [401] * 10 + [429]


def test_an_api_that_died_is_told_as_a_store_that_did_not_answer(
    outside: httpx.Client, deployment: Deployment
) -> None:
    """By the one answer that every client has to understand; people get a page."""
    deployment.apis[0].kill()
    lost = outside.post("/schedule", json={})
    assert (lost.status_code, lost.headers["retry-after"]) == (503, "1")
    assert error_of(lost) == {
        "error": "Outcome unknown; repeat the request",
        "reason": "outcome_unknown",
    }
    page = outside.get("/dashboard")
    assert (page.status_code, page.headers["content-type"]) == (502, "text/html")
    deployment.apis[0].start()
    until(lambda: outside.get("/readyz").is_success, "the API again")
