"""The good neighbour: requests at a steady rate to a good target, and how late each came."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import NamedTuple

from scheduler.models import Request
from tests.receiver import Received, Receiver

KINDS = ("literal", "known name", "new name", "same account")
_URLS = {
    "literal": "http://127.0.0.1:{port}/literal/{n}",
    "known name": "http://good.test:{port}/known name/{n}",
    "new name": "http://new-{n}.test:{port}/new name/{n}",
    "same account": "http://127.0.0.1:{port}/same account/{n}",
}


class Lateness(NamedTuple):
    """Of one kind of requests (ms); `amiss` came not at all, or twice."""

    p50: float
    p99: float
    worst: float
    amiss: int


def requests(kind: str, port: int, count: int, from_ms: int, every_ms: float) -> list[Request]:
    """Due one after the other. The number in a name is of the moment, so that it is a new one."""
    made = []
    for n in range(count):
        due_ms = from_ms + round(n * every_ms)
        url = _URLS[kind].format(port=port, n=f"{due_ms}{n}").replace(" ", "%20")
        made.append(Request(due_ms, "GET", url))
    return made


def lateness(kind: str, sent: list[Request], receiver: Receiver) -> Lateness:
    came = {each.path: each for each in receiver.requests}
    times = Counter(each.path for each in receiver.requests)
    paths = [each.url.partition("//")[2].partition("/")[2] for each in sent]
    amiss = sum(times["/" + path] != 1 for path in paths)
    late = [
        _late_ms(each, came["/" + path])
        for each, path in zip(sent, paths, strict=True)
        if "/" + path in came
    ]
    if len(late) < 2:
        return Lateness(0, 0, 0, amiss)
    cuts = statistics.quantiles(late, n=100, method="inclusive")
    return Lateness(cuts[49], cuts[98], max(late), amiss)


def _late_ms(asked: Request, came: Received) -> float:
    return came.at_ms - asked.trigger_at_ms
