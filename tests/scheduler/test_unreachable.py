"""For an unreachable store the log has the address and the reason."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from scheduler.errors import StoreError, StoreUnavailable
from scheduler.settings import Settings
from scheduler.store import Store
from scheduler.store.server.failures import Unreachable, reason_of
from tests.servers import free_port


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://:secret@127.0.0.1:{port}/0", r"Error 111 connecting to 127\.0\.0\.1:{port}\."),
        ("rediss://127.0.0.1:{port}", r"Error 111 connecting to 127\.0\.0\.1:{port}\."),
        ("redis://postdate.invalid:{port}", r"Error -\d+ connecting to postdate\.invalid:{port}\."),
        ("unix:///nowhere/valkey.sock", r"Error 2 connecting to /nowhere/valkey\.sock\."),
        ("redis+cluster://127.0.0.1:{port}", r"one reachable node: Error 111 .*:{port}\."),
        (
            "redis+sentinel://:secret@127.0.0.1:{port},localhost:{port}/primary",
            r"^No master found for 'primary' : 127\.0\.0\.1:{port} .*, localhost:{port} \S+$",
        ),
    ],
)
async def test_a_failure_names_what_was_tried(url: str, reason: str) -> None:
    port = str(free_port())
    with pytest.raises(StoreUnavailable, match="The store cannot be reached") as caught:
        await Store.open(Settings(redis_url=url.replace("{port}", port)))
    found = reason_of(caught.value)
    assert re.search(reason.replace("{port}", port), found), found
    assert "secret" not in found


def test_it_is_logged_at_once_each_minute_and_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now_s=1000.0)
    monkeypatch.setattr("scheduler.reminder.time", SimpleNamespace(monotonic=lambda: clock.now_s))
    unreachable = Unreachable(Settings(redis_url="redis://:secret@store.example:6379/0?x=secret"))
    away = StoreUnavailable("The store cannot be reached")
    away.__cause__ = OSError(111, "Connection refused")
    with capture_logs() as logged:
        unreachable.end()
        for at_s in (0, 1, 59, 60, 61, 130):
            clock.now_s = 1000.0 + at_s
            unreachable.note(away)
        unreachable.end()
        unreachable.end()
        unreachable.note(StoreError("Something else"))
    assert [(each["event"], each.get("reason")) for each in logged] == [
        *[("the store cannot be reached; trying on", "[Errno 111] Connection refused")] * 3,
        ("the store can be reached again", None),
        ("the store cannot be reached; trying on", "Something else"),
    ]
    assert {each["store"] for each in logged} == {"redis://…@store.example:6379/0"}
