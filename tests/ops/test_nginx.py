"""The proxy's configuration, in a real nginx before a real API."""

from __future__ import annotations

import shutil
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import trustme

from tests import children
from tests.api.errors import error_of
from tests.metrics.catalogue import ROOT
from tests.servers import Deployment, ValkeyProcess, free_port, until

HOST = "postdate.example"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
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

pytestmark = pytest.mark.skipif(NGINX is None, reason="there is no nginx on this machine")


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
def proxied(origin: str, folder: Path, apis: list[str]) -> Iterator[httpx.Client]:
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
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
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
