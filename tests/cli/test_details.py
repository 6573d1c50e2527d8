"""What `get` prints of a schedule."""

from __future__ import annotations

from datetime import UTC, datetime

from cli.schedules import details_of
from postdate import Phases, Schedule


def test_what_a_target_said_does_not_speak_to_the_terminal() -> None:
    at = datetime(2026, 11, 20, tzinfo=UTC)
    said = Schedule(
        "sch_1", "inv_1", "failed", at, at, "http://a", "GET", {}, response_body="\x1b[2J\x9b"
    )
    assert r'"\u001b[2J\u009b"' in details_of(said)


def test_how_long_each_part_took_is_one_line() -> None:
    at = datetime(2026, 11, 20, tzinfo=UTC)

    def line(phases: Phases | None) -> list[str]:
        told = Schedule("sch_1", "inv_1", "failed", at, at, "http://a", "GET", {}, phases=phases)
        return [each for each in details_of(told).splitlines() if each.startswith("phases")]

    assert line(Phases(False, None, 2, 0, 1204, 3)) == [
        "phases           connect 2 ms, TLS 0 ms, first byte 1,204 ms, last byte 3 ms"
    ]
    assert line(Phases(True, first_byte_ms=5)) == [
        "phases           connection reused, first byte 5 ms"
    ]
    assert line(None) == []
