"""What a flood consists of: whom it fires at, how many at once, and with what."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from scheduler.models import Request
from tests.attack.names import host_address

_BODY = b"x" * 250_000


class Flood(NamedTuple):
    """`url` makes the target of each of `count` requests, due at once, `waves` times a second
    apart."""

    name: str
    count: int
    url: Callable[[int, dict[str, int]], str] | None = None
    body: bytes | None = None
    waves: int = 1

    def requests(self, ports: dict[str, int], due_ms: int) -> list[Request]:
        if self.url is None:
            return []
        method = "GET" if self.body is None else "POST"
        return [
            Request(due_ms + 1000 * wave, method, self.url(n, ports), body=self.body)
            for wave in range(self.waves)
            for n in range(self.count)
        ]


def _at(behaviour: str) -> Callable[[int, dict[str, int]], str]:
    return lambda n, ports: f"http://{host_address(n)}:{ports[behaviour]}/{n}"


def _named(behaviour: str, name: str, scheme: str = "http") -> Callable[[int, dict[str, int]], str]:
    return lambda n, ports: f"{scheme}://{name.format(n=n)}:{ports[behaviour]}/"


FLOODS = (
    Flood("nothing", 0),
    Flood("one-byte chunks", 500, _at("chunks"), waves=4),
    Flood("endless bodies", 500, _at("endless"), waves=4),
    Flood("endless 1xx", 500, _at("interims"), waves=4),
    Flood("drip", 3000, _at("drip")),
    Flood("silent", 3000, _at("silent")),
    Flood("unread bodies, 250 KB", 1000, _at("unread"), _BODY),
    Flood("names never answered", 3000, _named("silent", "dead-{n}.test")),
    Flood("names, 64 black holes", 500, _named("black hole", "black-{n}.test")),
    Flood("TLS", 2000, _named("tls", "host-{n}.tls.test", "https")),
    Flood(
        "TLS, certificates of 30 KB", 1000, _named("certificates", "host-{n}.cert.test", "https")
    ),
    Flood("TLS, the same and kept", 3000, _named("mute", "host-{n}.cert.test", "https")),
)
