"""The error of a call whose reply was lost never says that it was certainly not done."""

from __future__ import annotations

from typing import Any, cast

import pytest

from scheduler.errors import OutcomeUnknown, StoreError, StoreRefused, StoreUnavailable
from scheduler.store.server import Server

LOST = OutcomeUnknown("lost")
AWAY = StoreUnavailable("away")
ATTEMPTS = 5


class Calls:
    """A call with a given list of endings; the last one stays."""

    def __init__(self, *ends: StoreError | str) -> None:
        self.ends = list(ends)
        self.made = 0

    async def __call__(self) -> str:
        end = self.ends[min(self.made, len(self.ends) - 1)]
        self.made += 1
        if isinstance(end, StoreError):
            raise end
        return end


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr("scheduler.store.server.server._PAUSES_S", (0.0,) * (ATTEMPTS - 1))
    return Server(cast("Any", None))


@pytest.mark.parametrize("lost", range(ATTEMPTS))
async def test_a_lost_reply_is_asked_for_again(server: Server, lost: int) -> None:
    calls = Calls(*[LOST] * lost, "done")
    assert await server.repeated(calls) == "done"
    assert calls.made == lost + 1


async def test_what_was_never_sent_is_certainly_not_done(server: Server) -> None:
    calls = Calls(AWAY)
    with pytest.raises(StoreUnavailable):
        await server.repeated(calls)
    assert calls.made == 1


@pytest.mark.parametrize("lost", range(1, ATTEMPTS))
async def test_after_a_lost_reply_a_store_that_is_away_leaves_it_unknown(
    server: Server, lost: int
) -> None:
    calls = Calls(*[LOST] * lost, AWAY)
    with pytest.raises(OutcomeUnknown):
        await server.repeated(calls)
    assert calls.made == ATTEMPTS


async def test_after_a_lost_reply_a_store_that_was_away_may_still_answer(server: Server) -> None:
    assert await server.repeated(Calls(LOST, AWAY, AWAY, "done")) == "done"


async def test_a_reply_that_stays_lost_is_unknown(server: Server) -> None:
    calls = Calls(LOST)
    with pytest.raises(OutcomeUnknown):
        await server.repeated(calls)
    assert calls.made == ATTEMPTS


async def test_a_store_that_hangs_is_not_asked_for_ever(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.store.server.server._PATIENCE_S", -1.0)
    calls = Calls(LOST)
    with pytest.raises(OutcomeUnknown):
        await server.repeated(calls)
    assert calls.made == 1


async def test_a_refusal_is_not_repeated(server: Server) -> None:
    calls = Calls(StoreRefused("no"))
    with pytest.raises(StoreRefused):
        await server.repeated(calls)
    assert calls.made == 1
