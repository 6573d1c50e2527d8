"""Somebody tries passwords, and says behind each body that another client sends it: do trailers
count as headers?"""

from __future__ import annotations

import argparse
import http.client
from collections import Counter
from contextlib import closing

from cli.options import with_store
from scheduler.settings import Settings
from scheduler.store import Store
from scheduler.store.accounts.users import ATTEMPTS_PER_BOTH
from tests.attack.accounts import open_account
from tests.processes import PostdateProcess

_TRIES = 64
_FORM = b"email=holder%40example.com&password=wrong"


def flood(redis_url: str, _: argparse.Namespace) -> tuple[str, list[str]]:
    """What came of it, and what of that should not. The store is empty, and afterwards not."""
    key = with_store(Settings(redis_url=redis_url), _key)
    with PostdateProcess("api", redis_url=redis_url, trusted_proxies="127.0.0.0/8") as api:
        port = int(api.base_url.rpartition(":")[2])
        tried = Counter(_sign_in(port, n) for n in range(_TRIES))
        keyed = _asked(port, "/schedule", b"{}", f"x-api-key: {key}")
    found = []
    if tried != {401: ATTEMPTS_PER_BOTH, 429: _TRIES - ATTEMPTS_PER_BOTH}:
        found.append(f"only {ATTEMPTS_PER_BOTH} passwords should be tried, unlike {dict(tried)}")
    if keyed != 401:
        found.append(f"a key in a trailer was answered {keyed}, not 401")
    return f"{_TRIES} wrong passwords: {dict(tried)}; a key in a trailer: {keyed}", found


async def _key(store: Store) -> str:
    return (await open_account(store, "holder"))[1]


def _sign_in(port: int, number: int) -> int:
    origin = f"Origin: http://127.0.0.1:{port}"
    form = "Content-Type: application/x-www-form-urlencoded"
    trailer = f"X-Forwarded-For: 198.51.100.{number}"
    return _asked(port, "/dashboard/sign-in", _FORM, trailer, origin, form)


def _asked(port: int, path: str, body: bytes, trailer: str, *lines: str) -> int:
    """The status of the answer to a POST with this trailer."""
    head = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Transfer-Encoding: chunked"]
    data = "\r\n".join([*head, *lines, "", ""]).encode() + b"%x\r\n%b\r\n0\r\n" % (len(body), body)
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as client:
        client.connect()
        client.sock.sendall(data + trailer.encode() + b"\r\n\r\n")
        with http.client.HTTPResponse(client.sock, method="POST") as answer:
            answer.begin()
            return answer.status
