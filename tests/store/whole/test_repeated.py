"""The error of a call whose reply was lost never says that it was certainly not done."""

from __future__ import annotations

from types import SimpleNamespace
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
    return Server(cast("Any", SimpleNamespace(routed=False)))


@pytest.mark.parametrize(
    ("ends", "made"),
    [
        *(([LOST] * lost + ["done"], lost + 1) for lost in range(ATTEMPTS)),
        ([LOST, AWAY, AWAY, "done"], 4),  # a store that was away may still answer
    ],
)
async def test_a_lost_reply_is_asked_for_again(
    server: Server, ends: list[StoreError | str], made: int
) -> None:
    calls = Calls(*ends)
    assert await server.repeated(calls) == "done"
    assert calls.made == made


@pytest.mark.parametrize(
    ("ends", "error", "made"),
    [
        ([AWAY], StoreUnavailable, 1),  # it was never sent
        ([StoreRefused("no")], StoreRefused, 1),
        ([LOST], OutcomeUnknown, ATTEMPTS),
        *(([LOST] * lost + [AWAY], OutcomeUnknown, ATTEMPTS) for lost in range(1, ATTEMPTS)),
    ],
)
async def test_what_was_maybe_done_is_unknown_and_anything_else_is_not(
    server: Server, ends: list[StoreError | str], error: type[StoreError], made: int
) -> None:
    calls = Calls(*ends)
    with pytest.raises(error) as raised:
        await server.repeated(calls)
    assert (type(raised.value), calls.made) == (error, made)


async def test_a_store_that_hangs_is_not_asked_for_ever(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.store.server.server._PATIENCE_S", -1.0)
    calls = Calls(LOST)
    with pytest.raises(OutcomeUnknown):
        await server.repeated(calls)
    assert calls.made == 1
