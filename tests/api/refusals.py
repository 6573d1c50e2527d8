"""Every way in which the API says no, as bytes on a connection; and how clients leave it."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing
from types import SimpleNamespace

import msgspec

from scheduler.models import Plan, Request
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from tests.api.conftest import payload
from tests.api.letters import UNKNOWN
from tests.api.process import ApiProcess, Reply, chunk
from tests.support.plain import redis_of

# Settings of the process: slow requests end soon, and little fits.
SETTINGS = {
    "head_timeout_ms": 300,
    "body_grace_ms": 300,
    "bodies_bytes": 1,
    "max_batch_bytes": 1_000_000,
    "stored_bytes": {"pro": 1},
    "rate_limits": {"free": 1, "pro": 1_000_000},
}
ORIGIN = "Origin: http://localhost"
Kind = tuple[bytes, int]
Scene = SimpleNamespace


async def scene(redis_url: str) -> Scene:
    """Keys of accounts, a session of the first one, and two of its schedules; a damaged one is of
    the account that has no room left."""
    async with aclosing(await Store.open(Settings(redis_url=redis_url))) as store:

        async def account(credits: int = 10**9, plan: Plan = Plan.UNLIMITED) -> tuple[str, str]:
            made = await store.accounts.create(os.urandom(8).hex(), credits=credits, plan=plan)
            return made.account_id, (await store.api_keys.create(made.account_id, "test"))[1]

        first, key = await account()
        suspended, its_key = await account()
        await store.changes.suspend(suspended)
        wanted = Request(store.clock.now_ms() + 3_600_000, "GET", "http://example.com/")
        waiting, cancelled = [await store.schedules.create(first, wanted) for _ in range(2)]
        await store.canceller.cancel(first, cancelled)
        named = msgspec.structs.replace(wanted, reference="two")
        await store.schedules.create_all(first, [named] * 2)
        full, full_key = await account(plan=Plan.PRO)
        damaged = await store.schedules.create(full, wanted)
        await redis_of(store).hset(keys.schedule(full, damaged), "r", b"\xc0 hush")
        searched, searched_key = await account()
        await redis_of(store).set(keys.account(searched) + keys.SCANS, 2**52)
        return Scene(
            key=key,
            poor=(await account(credits=0))[1],
            suspended=its_key,
            limited=(await account(plan=Plan.FREE))[1],
            searched=searched_key,
            full=full_key,
            session=(await store.sessions.open(first)).secret,
            waiting=waiting,
            cancelled=cancelled,
            damaged=damaged,
        )


def http(
    method: str, path: str, *lines: str, body: object = None, host: str = "localhost"
) -> bytes:
    """A request. A `body` that is not bytes is sent as JSON."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    every = [f"{method} {path} HTTP/1.1", f"Host: {host}", *lines]
    if method not in ("GET", "HEAD") and not any("chunked" in line for line in lines):
        every.append(f"Content-Length: {len(data)}")
    return "\r\n".join(every).encode("latin-1") + b"\r\n\r\n" + data


def refusals(scene: Scene) -> dict[str, Kind]:
    """A request of each kind, and the status of its answer."""

    def asks(method: str, path: str, *lines: str, body: object = None, key: str = "") -> bytes:
        return http(method, path, f"x-api-key: {key or scene.key}", *lines, body=body)

    def creates(body: object, *lines: str, key: str = "", to: str = "") -> bytes:
        return asks("POST", f"/schedule{to}", *lines, body=body, key=key)

    headers, many = {"Host": "", "X": 5}, {"schedules": [payload()] * 3}
    bad = {"targetUrl": "nowhere", "triggerAt": 5, "color": 1, "targetHeaders": headers}
    ended, waiting = f"/schedule/{scene.cancelled}", f"/schedule/{scene.waiting}"
    large = b" " * 300_000
    chunks = chunk(large) + b"0\r\n\r\n"
    return {
        "no key": (http("POST", "/schedule"), 401),
        "bad key": (creates({}, key="pd_00_nobody"), 401),
        "unknown key": (creates({}, key=scene.key[:-3] + "abc"), 401),
        "two keys": (creates({}, f"x-api-key: {scene.key}"), 401),
        "two keys in two headers": (creates({}, "Authorization: Bearer pd_00_nobody"), 401),
        "no credits": (creates(payload(), key=scene.poor), 402),
        "no credits in a batch": (creates(many, to="/batch", key=scene.poor), 200),
        "suspended": (creates(payload(), key=scene.suspended), 403),
        "no JSON": (creates(b'{"a'), 400),
        "no UTF-8": (creates(b'{"a":"\xff"}'), 400),
        "nested too deeply": (creates(b'{"targetBody":' + b"[" * 5000), 400),
        "half a surrogate": (creates(b'{"targetUrl":"\\ud800"}'), 400),
        "bad fields": (creates(bad), 400),
        "bad items": (creates({"schedules": [bad, 5, None]}, to="/batch"), 200),
        "no items": (creates({"schedules": []}, to="/batch"), 400),
        "destination": (creates(payload(targetUrl="http://169.254.169.254/")), 400),
        "bad query": (asks("GET", "/schedule?limit=x&a=1"), 400),
        "no query": (asks("GET", "/schedule?a=%ff"), 400),
        "bad cursor": (asks("GET", "/schedule?cursor=abc"), 400),
        "bad idempotency key": (creates(payload(), "Idempotency-Key: a b"), 400),
        "bad change": (asks("PATCH", waiting, body={"triggerAt": "x"}), 400),
        "misfit": (asks("PATCH", waiting, body={"expiresAt": "2001-01-01T00:00:00Z"}), 400),
        "bad ids": (creates({"ids": []}, to="/replay"), 400),
        "bad filter": (creates({"status": "x"}, to="/cancel"), 400),
        "bad rotation": (asks("POST", "/signing/rotate", body={"keepFor": "x"}), 400),
        "bad host": (http("GET", "/schedule", host="a b"), 400),
        "bad host of a create": (http("POST", "/schedule", host="a b"), 400),
        "no HTTP": (b"nonsense\r\n\r\n", 400),
        "unknown id": (asks("GET", f"/schedule/{UNKNOWN}"), 404),
        "no id": (asks("DELETE", "/schedule/x"), 404),
        "unknown to change": (asks("PATCH", f"/schedule/{UNKNOWN}", body={"retries": 1}), 404),
        "unknown to replay": (creates(None, to=f"/{UNKNOWN}/replay"), 404),
        "unknown ids": (creates({"ids": [UNKNOWN]}, to="/cancel"), 200),
        "unknown recurring schedule": (asks("GET", "/recurring/rec_x"), 404),
        "unknown path": (asks("GET", "/nowhere"), 404),
        "unknown path without a key": (http("GET", "/nowhere"), 404),
        "wrong method": (asks("PUT", "/schedule"), 405),
        "unknown method": (asks("FETCH", "/schedule"), 501),
        "ended to change": (asks("PATCH", ended, body={"retries": 1}), 409),
        "not ended": (creates(None, to=f"/{scene.waiting}/replay"), 409),
        "several waiting": (creates(payload(reference="two", onExisting="keep")), 409),
        "waiting ids": (creates({"ids": [scene.waiting]}, to="/replay"), 200),
        "other settings": (asks("PATCH", "/lanes/a", 'If-Match: "x"', body={"note": "y"}), 412),
        "bad lane": (asks("GET", "/lanes/-"), 400),
        "bad limits": (asks("PUT", "/lanes/a", body={"rate": 0, "note": 5}), 400),
        "large by its length": (creates(large), 413),
        "large in chunks": (creates(None, "Transfer-Encoding: chunked") + chunks, 413),
        "quota": (creates(payload(), key=scene.full), 413),
        "encoded": (creates(payload(), "Content-Encoding: gzip"), 415),
        "misdirected": (http("GET", "/dashboard", host="evil.example"), 421),
        "rate": (asks("GET", "/schedule", key=scene.limited), 429),
        "searches": (asks("GET", "/schedule?targetUrl=http://a", key=scene.searched), 429),
        "long target": (http("GET", "/" + "a" * 9000), 414),
        "lines of a head": (b"GET / HTTP/1.1\r\n" + b"a:b\r\n" * 300 + b"\r\n", 431),
        "large head": (b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", 431),
        "coding": (creates(None, "Transfer-Encoding: gzip, chunked"), 501),
        "damaged": (asks("GET", f"/schedule/{scene.damaged}", key=scene.full), 500),
    }


def pages(scene: Scene) -> dict[str, Kind]:
    """The dashboard's; those that are not refused have most to leave behind."""
    cookie = f"Cookie: postdate_session={scene.session}"

    def writes(path: str, *lines: str, body: bytes = b"") -> bytes:
        return http("POST", f"/dashboard{path}", *lines, body=body)

    def looks(path: str) -> bytes:
        return http("GET", f"/dashboard{path}", cookie)

    return {
        "no session": (http("GET", "/dashboard"), 303),
        "overview": (looks(""), 200),
        "requests": (looks("/requests"), 200),
        "entry": (looks(f"/requests/{scene.waiting}"), 200),
        "composer": (looks("/requests/new"), 200),
        "keys": (looks("/keys"), 200),
        "no page": (looks("/nowhere"), 404),
        "no entry": (looks(f"/requests/{UNKNOWN}"), 404),
        "for operators": (looks("/system"), 404),
        "another origin": (writes("/keys", cookie, body=b"name=x"), 403),
        "no token": (writes("/keys", cookie, ORIGIN, body=b"name=x"), 403),
        "wrong method": (http("DELETE", "/dashboard/keys", cookie), 405),
        "used link": (looks("/link/00_used"), 410),
        "wrong password": (writes("/sign-in", ORIGIN, body=b"email=a@b.example&password=x"), 429),
        "large form": (writes("/sign-in", ORIGIN, body=b"a" * 70_000), 413),
        "no form": (writes("/sign-in", ORIGIN, body=b"a=%ff"), 400),
    }


def ask(server: ApiProcess, data: bytes, count: int) -> set[int]:
    """Sends a request so many times, on one connection for as long as that is kept; the statuses of
    the answers."""
    connection, statuses = server.connect(), set()
    for _ in range(count):
        connection.sendall(data)
        reply = Reply(connection, data.partition(b" ")[0].decode())
        statuses.add(reply.status)
        if reply.headers["connection"] == "close":
            connection.close()
            connection = server.connect()
    connection.close()
    return statuses


def leavers(server: ApiProcess, scene: Scene) -> Iterator[Callable[[], None]]:
    """Clients that go, each in the middle of something else."""
    page = http("GET", "/schedule", f"x-api-key: {scene.key}")
    body = http("POST", "/schedule", f"x-api-key: {scene.key}", body=b" " * 10)
    for data in (b"", b"GET / HT", body[:-3], page, page * 4):
        for reset in (False, True):
            yield lambda data=data, reset=reset: leave(server, data, reset=reset)  # type: ignore[misc]


def leave(server: ApiProcess, data: bytes, *, reset: bool) -> None:
    with closing(server.connect()) as connection:
        connection.sendall(data)
        time.sleep(0.001)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def time_out(server: ApiProcess, scene: Scene, count: int) -> None:
    """So many clients at once whose heads, and whose bodies, do not end."""
    body = http("POST", "/schedule", f"x-api-key: {scene.key}", body=b" " * 10)
    for data in (b"GET / HT", body[:-3]):
        connections = [server.connect() for _ in range(count)]
        for connection in connections:
            connection.sendall(data)
        for connection in connections:
            with closing(connection):
                assert Reply(connection).status == 408
