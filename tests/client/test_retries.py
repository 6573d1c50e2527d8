"""Which calls are repeated, when, and that a repeat never costs anything."""

from __future__ import annotations

from datetime import datetime, tzinfo

import httpx
import pytest

from postdate import Conflict, ConnectionFailed, PostdateError, RateLimited, Unavailable
from tests.client.both import CREATED, URL, Client, Clock, Server, Step, answer, error
from tests.client.shared import SHARED

CREDITS = answer(200, {"creditsRemaining": 7})
LOST = [
    httpx.ReadError(""),
    httpx.ReadTimeout(""),
    httpx.WriteError(""),
    httpx.RemoteProtocolError("Server disconnected without sending a response."),
]
NEVER_SENT = [httpx.ConnectError("[Errno 111] Connection refused"), httpx.ConnectTimeout("")]


class Standing(datetime):
    """A clock that stands."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Standing:
        return cls.fromisoformat(SHARED["retryAfterAt"])


@pytest.mark.parametrize("fault", [*map(error, SHARED["repeated"]), *LOST, *NEVER_SENT], ids=repr)
def test_a_create_is_repeated_as_the_very_same_request(
    client: Client, server: Server, fault: Step
) -> None:
    server.plays(fault, fault, answer(201, CREATED))
    assert client.schedule(URL, in_=60, json={"n": 1}).schedule_id == "sch_1"
    assert len(server.requests) == 3
    assert len({request.content for request in server.requests}) == 1
    client.schedule(URL, in_=60)
    key, *again, other = server.sent("idempotency-key")
    assert key
    assert again == [key] * 2
    assert other != key


def test_pauses_double_up_to_a_bound_with_jitter(
    client: Client, server: Server, clock: Clock
) -> None:
    bounds = SHARED["longestPauses"]
    server.plays(*[error(503)] * len(bounds), CREDITS)
    assert client.credits() == 7
    for pause, bound in zip(clock.pauses, bounds, strict=True):
        assert bound / 2 <= pause <= bound


@pytest.mark.parametrize(("asked", "least_s", "most_s"), SHARED["retryAfter"])
def test_no_repeat_is_sooner_than_retry_after(
    client: Client,
    server: Server,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
    least_s: float,
    most_s: float,
) -> None:
    monkeypatch.setattr("postdate.patience.datetime", Standing)
    server.plays(answer(429, {"error": "No"}, retry_after=asked), CREDITS)
    client.credits()
    [pause] = clock.pauses
    assert least_s <= pause <= most_s


@pytest.mark.parametrize(
    ("fault", "kind"),
    [(error(429), RateLimited), (error(503), Unavailable), (LOST[0], ConnectionFailed)],
)
def test_it_gives_up_within_the_time_that_it_was_given(
    client: Client, server: Server, clock: Clock, fault: Step, kind: type[PostdateError]
) -> None:
    server.plays(fault)
    began_s = clock.now_s
    with pytest.raises(kind) as caught:
        client.schedule(URL, in_=60)
    assert 20 < clock.now_s - began_s <= 30
    assert caught.value.idempotency_key == server.sent("idempotency-key")[0]
    assert caught.value.maybe_done == (kind is not RateLimited)


@pytest.mark.parametrize(("status", "reason", "maybe_done"), SHARED["maybeDone"])
def test_where_nothing_was_done_for_sure_nobody_has_to_settle_it(
    client: Client, server: Server, status: int, reason: str | None, maybe_done: bool
) -> None:
    """Without a reason, it is the answer of a proxy."""
    server.plays(error(status, reason=reason))
    with pytest.raises(PostdateError) as caught:
        client.schedule(URL, in_=60)
    assert caught.value.maybe_done is maybe_done


@pytest.mark.parametrize("name", ["cancel", "change"])
def test_a_lost_call_that_came_too_late_is_a_conflict(
    client: Client, server: Server, name: str
) -> None:
    server.plays(LOST[0], error(409, "It has ended", status="completed"))
    more = {"in_": 0} if name == "change" else {}
    with pytest.raises(Conflict) as caught:
        getattr(client, name)("sch_1", **more)
    assert caught.value.maybe_done
    assert len({request.content for request in server.requests}) == 1
