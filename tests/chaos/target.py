"""The target: the first part of a path says how it behaves."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from tests.chaos.history import REPORTS, Arrival, answer_to
from tests.chaos.verdict.callbacks import ASKED_S, ASKING, REFUSED, REFUSED_AT_FIRST
from tests.chaos.verdict.evidence import CALM_MS, FLAKY_ATTEMPTS, took_ms
from tests.support.receiver import Answer, Received, Receiver

# The answers to a first attempt alone.
_FIRST = {
    REPORTS + behaviour: Answer(
        status=status,
        headers=(("Retry-After", str(ASKED_S)),) if behaviour in ASKING else (),
        reset=not status,
    )
    for behaviour, status in REFUSED_AT_FIRST.items()
}
_FIRST["/calming"] = Answer(status=429, headers=(("Retry-After", str(CALM_MS // 1000)),))
_ANSWERS = {
    "/fail": Answer(status=500),
    "/busy": Answer(status=503),
    "/missing": Answer(status=404),
    "/reset": Answer(reset=True),
    f"{REPORTS}{REFUSED}": Answer(status=404),
    "/never": Answer(never=True),
}


class ChaosTarget(Receiver):
    """A receiver that writes each request to a file, as a line, before it answers as the path asks
    for."""

    def __init__(self, arrivals: Path) -> None:
        super().__init__()
        self._file = arrivals.open("ab", buffering=0)

    def stop(self) -> None:
        super().stop()
        self._file.close()

    def _record(self, received: Received) -> Answer:
        self._file.write(msgspec.json.encode(arrival_of(received)) + b"\n")
        answer = self._answer(received)
        if received.path.startswith(REPORTS):
            return answer
        body = answer_to(received.path, _attempt(received)).encode()
        return msgspec.structs.replace(answer, body=body)

    def _answer(self, received: Received) -> Answer:
        path = urlsplit(received.path).path
        if path in ("/slow", "/long", f"{REPORTS}slow"):
            return Answer(delay_s=took_ms(path.rpartition("/")[2], received.path) / 1000)
        if path == "/flaky" and _attempt(received) <= FLAKY_ATTEMPTS:
            return _ANSWERS["/busy"]
        if path in _FIRST and _attempt(received) == 1:
            return _FIRST[path]
        return _ANSWERS.get(path, Answer())


def arrival_of(received: Received) -> Arrival:
    """The record of a request."""
    return Arrival(
        at_ms=received.at_ms,
        schedule_id=received.schedule_id,
        attempt=_attempt(received),
        trigger_at=received.headers.get("postdate-trigger-at", ""),
        path=received.path,
        signed=(
            received.headers.get("webhook-id", ""),
            received.headers.get("webhook-timestamp", ""),
            received.headers.get("webhook-signature", ""),
        ),
        body=received.body.decode(),
        door=(
            received.headers.get("upstash-message-id", ""),
            received.headers.get("upstash-retried", ""),
            received.headers.get("upstash-signature", ""),
        ),
    )


def _attempt(received: Received) -> int:
    return int(received.headers.get("postdate-attempt", 0))
