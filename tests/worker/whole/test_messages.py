"""Messages of the QStash door in a worker: signed for its receivers, and tried again as answers to
them say."""

from __future__ import annotations

import time

import jwt
import pytest

from scheduler.models import RetryOn, Status
from scheduler.qstash.carried import Carried, pack
from scheduler.qstash.sent import USER_AGENT
from tests.worker.scene import Scene
from tests.worker.scripted import answer, answering, playing, until

DOOR, SECOND_MS = pack(Carried()), 1000
HOUR_MS = 3600 * SECOND_MS


def headers_of(request: bytes) -> dict[str, str]:
    head, _, _ = request.partition(b"\r\n\r\n")
    return dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])


async def test_a_message_goes_out_signed_beside_other_schedules(scene: Scene) -> None:
    async with playing(answering(*[answer()] * 2)) as target:
        native = scene.hand_out(url=target.url("/native"))
        headers = {"User-Agent": USER_AGENT, "X-Own": "1"}
        message = scene.hand_out(url=target.url("/m"), door=DOOR, headers=headers, body=b"{}")
        await scene.run_until(lambda: len(scene.recorded) == 2)
    assert set(scene.recorded) == {native, message}
    [sent, other] = sorted(map(headers_of, target.requests), key=lambda each: "X-Own" not in each)
    assert sent["User-Agent"] == "Upstash-QStash"
    assert sent["Upstash-Message-Id"] == "msg_" + message.schedule_id[4:]
    assert sent["Upstash-Retried"] == "0"
    assert sent["Postdate-Schedule-Id"] == message.schedule_id
    assert "webhook-signature" in sent
    [current, _] = scene.store.signing.door[message.account_id]
    now_s = scene.store.clock.now_ms() / 1000
    options = {"verify_exp": False, "require": ["iss", "sub", "exp", "nbf"]}
    token = sent["Upstash-Signature"]
    claims = jwt.decode(token, current.secret, ["HS256"], options, issuer="Upstash")
    assert claims["sub"] == message.request.url
    assert abs(claims["nbf"] - now_s) < 60
    assert claims["nbf"] <= min(now_s, time.time())
    assert not any(name.startswith("Upstash") for name in other)


SMALL, LONG = b"", b"x" * 3000


@pytest.mark.parametrize("body", [SMALL, LONG])
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(
    ("status", "header", "waits_ms"),
    [
        (500, "", 60 * SECOND_MS),
        (500, "Retry-After: 7", 7 * SECOND_MS),
        (502, "X-RateLimit-Reset-Tokens: 1m5s", 65 * SECOND_MS),
        (429, "Retry-After: 3600", HOUR_MS),
        (489, "", None),
        (500, "Upstash-NonRetryable-Error: true", None),
        (500, "Upstash-NonRetryable-Error: false", 60 * SECOND_MS),
    ],
)
async def test_the_target_says_whether_and_when_it_is_tried_again(
    scene: Scene, status: int, header: str, waits_ms: int | None, before: bool, body: bytes
) -> None:
    """Also on a connection that knows this answer, from a schedule that is no message."""
    told = answer(body, f"{status} X", *([header] if header else []))
    fields = {"retries": 3, "retry_delays_ms": (60 * SECOND_MS,), "retry_on": RetryOn.ANY}
    async with playing(answering(*[told] * 3)) as target:
        await scene.start()
        for n in range(2 * before):
            scene.hand_out(url=target.url(), **fields)
            scene.worker.claimer.wake()
            await until(lambda n=n: len(scene.claims.acked) == n + 1)  # type: ignore[misc]
        scene.hand_out(url=target.url(), door=DOOR, **fields)
        scene.worker.claimer.wake()
        await until(lambda: len(scene.claims.acked) == 1 + 2 * before)
        await scene.stop()
    assert target.accepted == 1
    ack = scene.claims.acked[-1]
    assert ack.outcome.status is Status.FAILED
    if waits_ms is None:
        assert ack.next_attempt_at_ms is None
    else:
        waited_ms = (ack.next_attempt_at_ms or 0) - scene.store.clock.now_ms()
        assert waits_ms - SECOND_MS <= waited_ms <= 1.2 * waits_ms


async def test_of_other_schedules_only_what_was_there_before_counts(scene: Scene) -> None:
    async with playing(answering(answer(b"", "500 X", "Retry-After: 7"))) as target:
        scene.hand_out(url=target.url(), retries=3, retry_delays_ms=(60 * SECOND_MS,))
        await scene.run_until(lambda: scene.claims.acked != [])
    [ack] = scene.claims.acked
    assert ack.next_attempt_at_ms is not None
    assert ack.next_attempt_at_ms > scene.store.clock.now_ms() + 55 * SECOND_MS
