"""The error of a call whose reply was lost never says that it was certainly not done."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.errors import OutcomeUnknown, StoreError, StoreRefused, StoreUnavailable
from scheduler.store.server import Server
from tests.store.scene import settled

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
    ("ends", "told", "made"),
    [
        *(([LOST] * lost + ["done"], str, lost + 1) for lost in range(ATTEMPTS)),
        ([LOST, AWAY, AWAY, "done"], str, 4),  # a store that was away may still answer
        ([AWAY], StoreUnavailable, 1),  # it was never sent
        ([StoreRefused("no")], StoreRefused, 1),
        ([LOST], OutcomeUnknown, ATTEMPTS),
        *(([LOST] * lost + [AWAY], OutcomeUnknown, ATTEMPTS) for lost in range(1, ATTEMPTS)),
    ],
)
async def test_a_lost_reply_is_asked_for_again_and_what_was_maybe_done_is_unknown(
    server: Server, ends: list[StoreError | str], told: type[object], made: int
) -> None:
    calls = Calls(*ends)
    found = await settled(lambda: server.repeated(calls))
    assert (type(found), calls.made) == (told, made)


async def test_a_store_that_hangs_is_not_asked_for_ever(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.store.server.server._PATIENCE_S", -1.0)
    calls = Calls(LOST)
    with pytest.raises(OutcomeUnknown):
        await server.repeated(calls)
    assert calls.made == 1
