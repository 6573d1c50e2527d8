"""What `get` prints of a schedule."""

from __future__ import annotations

from datetime import UTC, datetime

from cli.schedules import details_of
from postdate import Schedule


def test_what_a_target_said_does_not_speak_to_the_terminal() -> None:
    at = datetime(2026, 11, 20, tzinfo=UTC)
    said = Schedule(
        "sch_1", "inv_1", "failed", at, at, "http://a", "GET", {}, response_body="\x1b[2J\x9b"
    )
    assert r'"\u001b[2J\u009b"' in details_of(said)
