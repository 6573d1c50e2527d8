"""Copies of a client with other options, over the connections of the first."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
import pytest

from postdate import AsyncPostdate, Postdate, Unavailable
from tests.client.both import BASE_URL, KEY, Client, Clock, Server, answer, error
from tests.client.line import CREDITS, Line


def test_a_copy_has_other_options_and_the_first_keeps_its_own(
    client: Client, server: Server
) -> None:
    server.plays(answer(200, {"creditsRemaining": 7}))
    other = client.with_options(
        api_key="pd_00_other", timeout=60, headers={"Traceparent": "00-1", "User-Agent": "shop/2"}
    )
    further = other.with_options(headers={"x-tenant": "blue"})
    for each in (other, further, client):
        assert each.credits() == 7
    assert server.sent("x-api-key") == ["pd_00_other", "pd_00_other", KEY]
    assert server.sent("traceparent") == ["00-1", "00-1", None]
    assert server.sent("x-tenant") == [None, "blue", None]
    agents = server.sent("user-agent")
    assert agents[:2] == ["shop/2"] * 2
    assert str(agents[2]).startswith("postdate-client")
    timeouts = [each.extensions["timeout"] for each in server.requests]
    sixty = {"connect": 60, "read": 60, "write": 60, "pool": None}
    theirs = httpx.Timeout(5).as_dict()  # that of the `http` that the test gives
    assert timeouts == [sixty, sixty, theirs]


def test_a_copy_is_as_patient_as_it_says(client: Client, server: Server, clock: Clock) -> None:
    server.plays(error(503))
    for patience_s, paused in [(0.0, False), (5.0, True)]:
        clock.pauses.clear()
        with pytest.raises(Unavailable):
            client.with_options(retry_for=patience_s).credits()
        assert bool(clock.pauses) == paused
        assert sum(clock.pauses) <= patience_s


def test_a_copy_uses_the_connection_of_the_first_and_ends_with_it(mode: str) -> None:
    with Line(CREDITS) as line:
        with Client(mode, line.url, KEY) as client:
            client.credits()
            copy = client.with_options(timeout=3)
            copy.credits()
            copy.close_inner()
            copy.credits()
            client.credits()
            client.close_inner()
            with pytest.raises(RuntimeError, match="client has been closed"):
                copy.credits()
        assert line.carried_by == [1] * 4


@pytest.mark.parametrize("kind", [Postdate, AsyncPostdate])
@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"X-API-Key": "pd_secret"}, "as api_key"),
        ({"Content-Type": "secret"}, "itself sets the header Content-Type"),
        ({"x-a": "secret\r\nx-b: 1"}, "'x-a' has characters"),
        ({"x a": "secret"}, "'x a' has characters"),
        ({"x-a": "sécret"}, "'x-a' has characters"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused_unseen(
    kind: type[Postdate | AsyncPostdate], headers: Mapping[str, str], says: str
) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        kind(BASE_URL, KEY, headers=headers)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_a_timeout_is_a_length_of_time(client: Client, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout must be a number of seconds"):
        client.with_options(timeout=timeout)
